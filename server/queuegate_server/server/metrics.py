"""This process's Prometheus metrics, collected from counters at each scrape."""

from collections.abc import Callable, Iterator

from prometheus_client import CollectorRegistry, GCCollector, ProcessCollector, generate_latest
from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from queuegate_server.server.core_metrics import Samples, by_label, core_samples, families
from queuegate_server.server.wiring import ServerParts


def metrics_writer(parts: ServerParts) -> Callable[[], bytes]:
    """Return a function that renders the metrics of the server and its process."""
    registry = CollectorRegistry()
    registry.register(_Collector(parts))
    ProcessCollector(registry=registry)
    GCCollector(registry=registry)
    return lambda: generate_latest(registry)


class _Collector(Collector):
    def __init__(self, parts: ServerParts) -> None:
        self._parts = parts

    def collect(self) -> Iterator[Metric]:
        parts = self._parts
        samples = core_samples(parts.core, parts.readiness)
        for read in (_calls, _http, _sync, _certificates):
            samples |= read(parts)
        yield from families(samples)


def _calls(parts: ServerParts) -> dict[str, Samples]:
    methods = [((each.kind, each.service, each.method), each) for each in parts.calls]
    limit = parts.call_limit
    return {
        "grpc_server_started": [(labels, method.started) for labels, method in methods],
        "grpc_server_handled": [
            ((*labels, code), count)
            for labels, method in methods
            for code, count in method.codes.items()
        ],
        "grpc_server_handling_seconds": [
            (labels, method.durations.buckets(), method.durations.sum) for labels, method in methods
        ],
        "queuegate_calls_in_progress": [((), limit.running)],
        "queuegate_calls_limit": [((), limit.limit)],
        "queuegate_calls_refused": by_label(limit.refused),
    }


def _http(parts: ServerParts) -> dict[str, Samples]:
    servers = [] if parts.http is None else [parts.http.server]
    return {
        "queuegate_http_requests": [
            ((endpoint, str(status)), count)
            for server in servers
            for (endpoint, status), count in server.counts.items()
        ],
        "queuegate_http_request_seconds": [
            ((endpoint,), durations.buckets(), durations.sum)
            for server in servers
            for endpoint, durations in server.durations.items()
        ],
    }


def _sync(parts: ServerParts) -> dict[str, Samples]:
    hub = parts.core.sync
    return {
        "queuegate_sync_streams": [((), len(hub.leases))],
        "queuegate_sync_streams_limit": [((), parts.sync_streams_limit)],
        "queuegate_sync_lag_seconds": [((), hub.lag)],
        "queuegate_sync_messages": by_label(hub.sent),
        "queuegate_sync_barriers": by_label(hub.waited),
    }


def _certificates(parts: ServerParts) -> dict[str, Samples]:
    certificates = parts.listeners.certificates
    return {
        "queuegate_console_sign_ins": by_label(parts.sign_ins),
        "queuegate_certificate_expiry_timestamp_seconds": [
            ((each.listener,), each.expires) for each in certificates
        ],
        "queuegate_certificate_reloads": [
            ((each.listener, result), count)
            for each in certificates
            for result, count in (("success", each.reloads), ("failure", each.failures))
        ],
    }
