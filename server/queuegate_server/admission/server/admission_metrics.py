"""The metrics of the webhook's requests and reloads."""

from collections.abc import Iterator
from typing import Any, Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from queuegate_server.files.certificates import CertificateReloader
from queuegate_server.files.watcher import WatchedValue
from queuegate_server.observe.metric_families import WEBHOOK, registered

_SECONDS: Final = (
    0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0,
)  # fmt: skip
"""The upper bounds of the histogram's buckets."""


class AdmissionMetrics:
    """The webhook's metrics, in their own registry. No label names a user, group or namespace."""

    def __init__(self, settings: WatchedValue[Any, Any], certificate: CertificateReloader) -> None:
        """Register the metrics. `settings` and `certificate` supply the numbers of reloads."""
        self.registry = registry = CollectorRegistry()
        self.reviews = registered(Counter, "queuegate_admission_reviews", registry)
        self.seconds = registered(
            Histogram, "queuegate_admission_review_seconds", registry, buckets=_SECONDS
        )
        self.in_flight = registered(Gauge, "queuegate_admission_reviews_in_flight", registry)
        expires = "queuegate_admission_certificate_expires_timestamp_seconds"
        registered(Gauge, expires, registry).set_function(lambda: certificate.expires)
        registry.register(_Reloads("queuegate_admission_settings_reloads", settings))
        registry.register(_Reloads("queuegate_admission_certificate_reloads", certificate))


class _Reloads(Collector):
    """Exports the number of times a watched value was reloaded, excluding the initial load."""

    def __init__(self, name: str, watched: WatchedValue[Any, Any]) -> None:
        self._name = name
        self._watched = watched

    def collect(self) -> Iterator[Metric]:
        """Yield the current counts."""
        reloads = WEBHOOK[self._name].empty()
        reloads.add_metric(("success",), self._watched.reloads - 1)
        reloads.add_metric(("failure",), self._watched.failures)
        yield reloads
