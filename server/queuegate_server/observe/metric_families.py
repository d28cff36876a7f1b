"""The names, kinds, labels and help texts of the metrics, from metrics.toml.

`SERVER` holds the metrics of the server, and of the decision core in the webhook; `WORKERS` the
supervisor's; `WEBHOOK` the webhook's own.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeVar

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
)

from queuegate_server.files.toml import read_toml

_M = TypeVar("_M", Counter, Gauge, Histogram)
_KINDS: Final[Mapping[str, Any]] = {
    "counter": CounterMetricFamily,
    "gauge": GaugeMetricFamily,
    "histogram": HistogramMetricFamily,
}


class Family(NamedTuple):
    """The definition of a metric."""

    name: str
    """Its name; for a counter, without `_total`."""
    kind: str
    """counter, gauge or histogram."""
    text: str
    labels: Sequence[str] = ()

    def empty(self) -> Any:
        """Return the metric without samples."""
        return _KINDS[self.kind](self.name, self.text, labels=self.labels)


Families = Mapping[str, Family]
"""Metrics by name."""


_FAMILIES: Final[Mapping[str, Families]] = {
    section: {name: Family(name, **entry) for name, entry in entries.items()}
    for section, entries in read_toml(__file__, "metrics.toml").items()
}
SERVER: Final = _FAMILIES["server"]
WORKERS: Final = _FAMILIES["workers"]
WEBHOOK: Final = _FAMILIES["webhook"]


def registered(kind: type[_M], name: str, registry: CollectorRegistry, **options: Any) -> _M:
    """Return one of the webhook's metrics, in a registry.

    Args:
        kind: The class for its kind.
        name: Its name.
        registry: Where to register it.
        options: Further arguments of the class.

    Raises:
        TypeError: It is of another kind.
    """
    family = WEBHOOK[name]
    if family.kind != kind.__name__.lower():
        raise TypeError(f"{name} is a {family.kind}")
    return kind(name, family.text, family.labels, registry=registry, **options)
