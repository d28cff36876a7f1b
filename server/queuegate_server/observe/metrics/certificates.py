"""Metrics of the certificates of listeners."""

from collections.abc import Iterator, Sequence
from typing import Protocol

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector


class Certificate(Protocol):
    """The certificate of a listener, read again when it changes."""

    @property
    def listener(self) -> str:
        """The address of the listener in the settings."""

    @property
    def expires(self) -> float:
        """When it expires, in Unix seconds."""

    @property
    def reloads(self) -> int:
        """How many versions of its files were used, the first one included."""

    @property
    def failures(self) -> int:
        """How many versions could not be used."""


class CertificateMetrics(Collector):
    """Until when certificates are good, and how reading them went."""

    def __init__(self, certificates: Sequence[Certificate]) -> None:
        """Take the certificates; more may follow."""
        self._certificates = certificates

    def collect(self) -> Iterator[Metric]:
        """Yield the metrics as they are now."""
        expiry = GaugeMetricFamily(
            "queuegate_certificate_expiry_timestamp_seconds",
            "When the certificate of a listener expires, in Unix seconds.",
            labels=("listener",),
        )
        reloads = CounterMetricFamily(
            "queuegate_certificate_reloads",
            "Readings of the certificate, key and authorities of a listener, the first included.",
            labels=("listener", "result"),
        )
        for certificate in self._certificates:
            name = certificate.listener
            expiry.add_metric((name,), certificate.expires)
            reloads.add_metric((name, "success"), certificate.reloads)
            reloads.add_metric((name, "failure"), certificate.failures)
        yield from (expiry, reloads)
