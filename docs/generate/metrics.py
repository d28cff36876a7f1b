"""metrics.md: every metric, from metrics.toml and from Prometheus's client."""

from collections.abc import Iterable
from typing import Any, Final

from prometheus_client import GCCollector, ProcessCollector
from prometheus_client.registry import CollectorRegistry

from docs.generate.markdown import code, page, sentence, table
from queuegate_server.observe.metric_families import SERVER, WEBHOOK, WORKERS

_SERVER: Final = """\
`/metrics` on the [operations port](settings.md#ops) exports these metrics in Prometheus's text
format. No label names a user, a group or a queue. Counters start at zero when the process starts.
`grpc_server_*` covers queuegate's own services, but not health checks and reflection.
[Monitor](../how-to/monitor.md) shows the dashboard and the alerts.

## Metrics of the server
"""
_WORKERS: Final = """\
## Metrics of several workers

With [`workers`](settings.md#top-level) above 1, there is still one port, and `/metrics` merges the
metrics of all workers. Counters and histograms are summed, including the last known counts of
workers that have ended. Every other metric has a `worker` label, and is exported for workers that
answer within 2 s. In addition:
"""
_WEBHOOK: Final = """\
## Metrics of the admission webhook

`queuegate-server admission` exports these metrics on the port that `ops.listen` sets. With
`--config`, it also exports the server's metrics for policies, resolvers, caches, the fleet and the
audit log.
"""


def generate() -> str:
    """Return the page."""
    registry = CollectorRegistry()
    of_process = [*ProcessCollector(registry=registry).collect(), *GCCollector(registry).collect()]
    of_server, of_workers, of_webhook = (
        [family.empty() for family in families.values()] for families in (SERVER, WORKERS, WEBHOOK)
    )
    return page(
        "Metrics",
        _SERVER,
        _table([*of_server, *of_process]),
        _WORKERS,
        _table(of_workers),
        _WEBHOOK,
        _table(of_webhook),
    )


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
