"""The metrics of the webhook."""

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

_SECONDS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)


class AdmissionMetrics:
    """All metrics, in a registry of their own. No label carries a user, group or namespace."""

    def __init__(self) -> None:
        """Start at zero."""
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
        self.settings_reloads = Counter(
            "queuegate_admission_settings_reloads",
            "Readings of the ConfigMaps after the first, by result.",
            ("result",),
            registry=self.registry,
        )
        self.certificate_reloads = Counter(
            "queuegate_admission_certificate_reloads",
            "Readings of the certificate after the first, by result.",
            ("result",),
            registry=self.registry,
        )
        self.certificate_expires = Gauge(
            "queuegate_admission_certificate_expires_timestamp_seconds",
            "When the certificate that is served ends, in Unix seconds.",
            registry=self.registry,
        )

    def settings_reloaded(self, succeeded: bool) -> None:  # noqa: FBT001 - a callback
        """Count a reading of the ConfigMaps."""
        self.settings_reloads.labels(_result(succeeded)).inc()

    def certificate_reloaded(self, succeeded: bool) -> None:  # noqa: FBT001 - a callback
        """Count a reading of the certificate."""
        self.certificate_reloads.labels(_result(succeeded)).inc()


def _result(succeeded: bool) -> str:  # noqa: FBT001 - private
    return "success" if succeeded else "failure"
