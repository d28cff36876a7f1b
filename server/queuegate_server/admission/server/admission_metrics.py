"""The webhook's metrics: each of them is declared here, whoever counts."""

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
    """The webhook's metrics, in their own registry. No label names a user, group or namespace."""

    def __init__(self, settings: WatchedValue[Any, Any], certificate: CertificateReloader) -> None:
        """Register the metrics. Numbers of reloads are read from `settings` and `certificate`."""
        self.registry = CollectorRegistry()
        self.reviews = Counter(
            "queuegate_admission_reviews",
            "Requests to the webhook, by endpoint and outcome: allowed, patched (allowed with the "
            "object changed), denied, no_opinion (from /authorize); answered with an HTTP error: "
            "malformed, unverified (/authorize without client certificates), too_large, slow, "
            "disconnected (the body is incomplete), overloaded (too many large requests), failed.",
            ("endpoint", "outcome"),
            registry=self.registry,
        )
        self.seconds = Histogram(
            "queuegate_admission_review_seconds",
            "Time from the end of the request headers to the response.",
            ("endpoint",),
            buckets=_SECONDS,
            registry=self.registry,
        )
        self.in_flight = Gauge(
            "queuegate_admission_reviews_in_flight",
            "Requests in progress.",
            registry=self.registry,
        )
        Gauge(
            "queuegate_admission_certificate_expires_timestamp_seconds",
            "Expiry of the certificate in use, in Unix seconds.",
            registry=self.registry,
        ).set_function(lambda: certificate.expires)
        self.registry.register(_Reloads("settings", "the ConfigMaps", settings))
        self.registry.register(_Reloads("certificate", "the certificate", certificate))


class _Reloads(Collector):
    """Exports the number of a watched value's reloads, excluding the initial load."""

    def __init__(self, name: str, what: str, watched: WatchedValue[Any, Any]) -> None:
        self._name = f"queuegate_admission_{name}_reloads"
        self._text = f"Reloads of {what}, by result."
        self._watched = watched

    def collect(self) -> Iterator[Metric]:
        """Yield the current counts."""
        reloads = CounterMetricFamily(self._name, self._text, labels=("result",))
        reloads.add_metric(("success",), self._watched.reloads - 1)
        reloads.add_metric(("failure",), self._watched.failures)
        yield reloads


def queue_decisions(registry: CollectorRegistry) -> Counter:
    """Register the metric of decisions about queues, and so of their denials."""
    return Counter(
        "queuegate_admission_queue_decisions",
        "Decisions about the queues that objects name, by scheduler (places: one of"
        " admission.queues.schedulers.places; unqueued: the object names no queue; any: the"
        " object is too complex; authorize: a question of `kubectl auth can-i`), outcome"
        " (allowed; denied; refused: the name cannot be that of a queue, or the object is too"
        " complex; error: the request fails) and mode: in warn mode, denied and refused objects"
        " are accepted; off: no object depends on the decision.",
        ("scheduler", "outcome", "mode"),
        registry=registry,
    )


def groups_omitted(registry: CollectorRegistry) -> Counter:
    """Register the metric of groups that are not written into the annotation."""
    return Counter(
        "queuegate_admission_groups_omitted",
        "Groups that the policy lists but that were not written into the annotation, because"
        " YuniKorn's parser refuses their names, and with them the user.",
        registry=registry,
    )


def groups_unavailable(registry: CollectorRegistry) -> Counter:
    """Register the metric of requesters whose groups cannot be looked up."""
    return Counter(
        "queuegate_admission_groups_unavailable",
        "Reviews for which the requester's groups could not be looked up, by outcome: refused,"
        " kubernetes (the groups in the request were used), recent (the annotation was checked"
        " against the groups that the requester had before).",
        ("outcome",),
        registry=registry,
    )
