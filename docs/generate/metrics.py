"""metrics.md: every metric, as the code declares it for Prometheus."""

import time
from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any, Final, cast

from prometheus_client import GCCollector, ProcessCollector
from prometheus_client.core import Metric
from prometheus_client.registry import CollectorRegistry

from docs.generate.markdown import code, page, sentence, table
from queuegate_server.admission.annotations.requester_groups import RequesterGroups
from queuegate_server.admission.queues.records import QueueRecords
from queuegate_server.admission.server.admission_metrics import AdmissionMetrics
from queuegate_server.server.metric_families import METRICS
from queuegate_server.supervisor.service import worker_metrics

_SERVER: Final = """\
`/metrics` on the [operations port](settings.md#ops) exports these metrics in Prometheus's text
format. No label names a user, a group or a queue. Counters start at zero when the process starts.
`grpc_server_*` covers queuegate's own services, but not health and reflection.
[Monitor](../how-to/monitor.md) shows the dashboard and the alerts.

## Metrics of the server
"""
_WORKERS: Final = """\
## Metrics of several workers

With [`workers`](settings.md#top-level) above 1, there is still one port, and `/metrics` merges the
metrics of all workers. Counters and histograms are summed, including the last known counts of
workers that have ended. Every other metric has a label `worker`, and is exported for workers that
answer within 2 s. In addition:
"""
_WEBHOOK: Final = """\
## Metrics of the admission webhook

`queuegate-server admission` exports these on the port `--ops-listen`. With `--config`, it also
exports the server's metrics of policies, resolvers, caches, the fleet and the audit log.
"""


def generate() -> str:
    """Return the page."""
    registry = CollectorRegistry()
    of_process = [*ProcessCollector(registry=registry).collect(), *GCCollector(registry).collect()]
    of_server = [kind(name, text, labels=labels) for name, (kind, text, labels) in METRICS.items()]  # type: ignore[call-arg]
    never = cast("Any", SimpleNamespace(reloads=1, failures=0, expires=0.0))
    of_webhook = AdmissionMetrics(never, never).registry
    QueueRecords(never, of_webhook, time.time)
    RequesterGroups(never, never, never, of_webhook)
    return page(
        "Metrics",
        _SERVER,
        _table([*of_server, *of_process]),
        _WORKERS,
        _table(worker_metrics(1, 1, {})),
        _WEBHOOK,
        _table(_of_registry(of_webhook)),
    )


def _of_registry(registry: CollectorRegistry) -> list[Metric]:
    found = []
    for collector in registry._collector_to_names:
        for metric in collector.collect():
            # The names of metrics without samples yet.
            vars(metric).setdefault("_labelnames", getattr(collector, "_labelnames", ()))
            found.append(metric)
    return found


def _table(metrics: Iterable[Any]) -> str:
    rows = []
    for metric in metrics:
        labels = getattr(metric, "_labelnames", ()) or sorted(
            {label for sample in metric.samples for label in sample.labels}
        )
        name = f"{metric.name}_total" if metric.type == "counter" else metric.name
        rows.append(
            (code(name), metric.type, ", ".join(map(code, labels)), sentence(metric.documentation))
        )
    return table(("metric", "type", "labels", "meaning"), rows)
