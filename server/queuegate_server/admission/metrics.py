"""The metrics of the webhook."""

from collections.abc import Iterator
from typing import Any, Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.core import CounterMetricFamily, Metric
from prometheus_client.registry import Collector

from queuegate_server.files.certificates import CertificateReloader
from queuegate_server.files.watcher import WatchedValue

_SECONDS: Final = (
    *(0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1),
    *(0.25, 0.5, 1.0, 2.5, 5.0, 10.0),
)


class AdmissionMetrics:
    """All metrics, in a registry of their own. No label carries a user, group or namespace."""

    def __init__(self, settings: WatchedValue[Any, Any], certificate: CertificateReloader) -> None:
        """Start at zero; the reloads of both are theirs."""
        self.registry = CollectorRegistry()
        self.reviews = Counter(
            "queuegate_admission_reviews",
            "Requests to the webhook, by endpoint and outcome.",
            ("endpoint", "outcome"),
            registry=self.registry,
        )
        self.seconds = Histogram(
            "queuegate_admission_review_seconds",
            "From the end of the request's headers to the answer.",
            ("endpoint",),
            buckets=_SECONDS,
            registry=self.registry,
        )
        self.in_flight = Gauge(
            "queuegate_admission_reviews_in_flight",
            "Requests that are being answered.",
            registry=self.registry,
        )
        expires = Gauge(
            "queuegate_admission_certificate_expires_timestamp_seconds",
            "When the certificate that is served ends, in Unix seconds.",
            registry=self.registry,
        )
        expires.set_function(lambda: certificate.expires)
        self.registry.register(
            _Reloads(
                "queuegate_admission_settings_reloads",
                "Readings of the ConfigMaps after the first, by result.",
                settings,
            )
        )
        self.registry.register(
            _Reloads(
                "queuegate_admission_certificate_reloads",
                "Readings of the certificate after the first, by result.",
                certificate,
            )
        )


class _Reloads(Collector):
    """Counts the reloads of a watched value after the first load."""

    def __init__(self, name: str, documentation: str, watched: WatchedValue[Any, Any]) -> None:
        self._name = name
        self._documentation = documentation
        self._watched = watched

    def collect(self) -> Iterator[Metric]:
        """Yield the counts as they are now."""
        reloads = CounterMetricFamily(self._name, self._documentation, labels=("result",))
        reloads.add_metric(("success",), self._watched.reloads - 1)
        reloads.add_metric(("failure",), self._watched.failures)
        yield reloads
