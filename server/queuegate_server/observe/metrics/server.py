"""Metrics of the server itself: build, policy, certificates and audit log."""

from collections.abc import Callable, Iterator, Sequence
from typing import Protocol

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from queuegate_server.engine import Engine, NotReady
from queuegate_server.observe.audit import AuditLog


class _ReloadState(Protocol):
    @property
    def succeeded(self) -> bool: ...


class Reloads(Protocol):
    """Counts of policy reloads."""

    succeeded: int
    failed: int

    @property
    def state(self) -> _ReloadState:
        """The outcome of the last reload."""


class PolicyMetrics(Collector):
    """The build, the readiness and the policy."""

    def __init__(
        self,
        engine: Engine,
        reloads: Reloads,
        is_ready: Callable[[], bool],
        versions: dict[str, str],
    ) -> None:
        """Collect from these sources; `versions` are the labels of the build."""
        self._engine = engine
        self._reloads = reloads
        self._is_ready = is_ready
        self._versions = versions

    def collect(self) -> Iterator[Metric]:
        """Yield the current metrics."""
        build = GaugeMetricFamily(
            "queuegate_build_info",
            "Always 1; the labels are the versions.",
            labels=tuple(self._versions),
        )
        build.add_metric(tuple(self._versions.values()), 1)
        yield build
        yield GaugeMetricFamily(
            "queuegate_ready", "1 if /readyz reports ready.", int(self._is_ready())
        )
        reloads = CounterMetricFamily(
            "queuegate_policy_reloads",
            "Loads of the policy, including the first one.",
            labels=("result",),
        )
        reloads.add_metric(("success",), self._reloads.succeeded)
        reloads.add_metric(("failure",), self._reloads.failed)
        yield reloads
        yield GaugeMetricFamily(
            "queuegate_policy_last_reload_successful",
            "1 if the policy that was read last is served.",
            int(self._reloads.state.succeeded),
        )
        yield from self._policy()

    def _policy(self) -> Iterator[Metric]:
        revision = GaugeMetricFamily(
            "queuegate_policy_revision", "Increases by 1 with each new policy."
        )
        loaded = GaugeMetricFamily(
            "queuegate_policy_loaded_timestamp_seconds",
            "When the policy was loaded, in Unix seconds.",
        )
        queues = GaugeMetricFamily(
            "queuegate_policy_queues", "Queues of the policy.", labels=("partition",)
        )
        try:
            snapshot = self._engine.snapshot
        except NotReady:
            pass
        else:
            revision.add_metric((), snapshot.policy.revision)
            loaded.add_metric((), snapshot.loaded_at)
            for name, partition in snapshot.policy.partitions.items():
                queues.add_metric((name,), len(partition.queues))
        yield from (revision, loaded, queues)


class Certificate(Protocol):
    """The certificate of a listener, which is reloaded when it changes."""

    @property
    def listener(self) -> str:
        """The address of the listener in the settings."""

    @property
    def expires(self) -> float:
        """When it expires, in Unix seconds."""

    @property
    def reloads(self) -> int:
        """How many versions of its files were used, including the first one."""

    @property
    def failures(self) -> int:
        """How many versions could not be used."""


class CertificateMetrics(Collector):
    """Expiry and reloads of the certificates of listeners."""

    def __init__(self, certificates: Sequence[Certificate]) -> None:
        """Collect from certificates; the sequence may grow."""
        self._certificates = certificates

    def collect(self) -> Iterator[Metric]:
        """Yield the current metrics."""
        expiry = GaugeMetricFamily(
            "queuegate_certificate_expiry_timestamp_seconds",
            "When the certificate of a listener expires, in Unix seconds.",
            labels=("listener",),
        )
        reloads = CounterMetricFamily(
            "queuegate_certificate_reloads",
            "Loads of a listener's certificate, key and authorities, including the first one.",
            labels=("listener", "result"),
        )
        for certificate in self._certificates:
            name = certificate.listener
            expiry.add_metric((name,), certificate.expires)
            reloads.add_metric((name, "success"), certificate.reloads)
            reloads.add_metric((name, "failure"), certificate.failures)
        yield from (expiry, reloads)


class AuditMetrics(Collector):
    """Records of the audit log; without an audit log there are no values."""

    def __init__(self, audit: AuditLog | None) -> None:
        """Collect from the audit log; None if there is none."""
        self._audit = audit

    def collect(self) -> Iterator[Metric]:
        """Yield the current metrics."""
        records = CounterMetricFamily(
            "queuegate_audit_records",
            "Records by result: written; dropped; refused, so that their calls failed.",
            labels=("result",),
        )
        failures = CounterMetricFamily(
            "queuegate_audit_write_failures", "Writes of the audit log that failed."
        )
        rotations = CounterMetricFamily(
            "queuegate_audit_rotation_failures", "Rotations of the audit log that failed."
        )
        writable = GaugeMetricFamily(
            "queuegate_audit_writable",
            "1 if the last write of the audit log succeeded and no write hangs.",
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
