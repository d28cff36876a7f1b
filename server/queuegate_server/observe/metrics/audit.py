"""Metrics of the audit log."""

from collections.abc import Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from queuegate_server.observe.audit import AuditLog


class AuditMetrics(Collector):
    """What became of records. Without an audit log there are no values."""

    def __init__(self, audit: AuditLog | None) -> None:
        """Take the audit log; None: it is off."""
        self._audit = audit

    def collect(self) -> Iterator[Metric]:
        """Yield the metrics as they are now."""
        records = CounterMetricFamily(
            "queuegate_audit_records",
            "Records by what became of them: written; dropped; refused, their calls failed.",
            labels=("result",),
        )
        failures = CounterMetricFamily(
            "queuegate_audit_write_failures", "Writes of the audit log that failed."
        )
        rotations = CounterMetricFamily(
            "queuegate_audit_rotation_failures", "Full files that could not be put aside."
        )
        writable = GaugeMetricFamily(
            "queuegate_audit_writable",
            "1 if the last write of the audit log succeeded, and none hangs.",
        )
        waiting = GaugeMetricFamily(
            "queuegate_audit_waiting_bytes", "Records that wait to be written, in bytes."
        )
        if self._audit is not None:
            counts = self._audit.counts
            records.add_metric(("written",), counts.written)
            records.add_metric(("dropped",), counts.dropped)
            records.add_metric(("refused",), counts.refused)
            failures.add_metric((), counts.failed_writes)
            rotations.add_metric((), self._audit.failed_rotations)
            writable.add_metric((), int(self._audit.is_writable))
            waiting.add_metric((), counts.waiting_bytes)
        yield from (records, failures, rotations, writable, waiting)
