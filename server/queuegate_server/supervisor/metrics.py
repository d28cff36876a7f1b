"""Merges the metrics of all workers into those of one service.

Counters and histograms are summed, including the last known values of workers that have ended,
because a counter must not decrease. All other metrics describe a single process and get the label
`worker`.
"""

from collections.abc import Container, Iterator
from typing import Final

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.metrics_core import Metric
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.registry import Collector

_SUMMED: Final = frozenset({"counter", "histogram"})

_Labels = tuple[tuple[str, str], ...]


class MergedMetrics:
    """The latest metrics of each worker, and the sums of those that have ended."""

    def __init__(self) -> None:
        self._latest: dict[int, tuple[int, list[Metric]]] = {}
        self._ended: list[Metric] = []

    def update(self, index: int, pid: int, text: str) -> None:
        """Replace the metrics of a worker, in Prometheus' text format. Raises ValueError."""
        metrics = list(text_string_to_metric_families(text))
        before = self._latest.get(index)
        if before is not None and before[0] != pid:
            merged = _Merged()
            merged.add(self._ended, summed=True)
            merged.add(before[1], summed=True)
            self._ended = list(merged.collect())
        self._latest[index] = (pid, metrics)

    def text(self, answering: Container[int]) -> str:
        """Return the sums of all workers, and the other metrics of those that answer now.

        The gauges of a process that hangs or has ended are outdated, and left out.
        """
        merged = _Merged()
        merged.add(self._ended, summed=True)
        for index, (_, metrics) in sorted(self._latest.items()):
            merged.add(metrics, summed=True)
            if index in answering:
                merged.add(metrics, summed=False, worker=str(index))
        registry = CollectorRegistry(auto_describe=False)
        registry.register(merged)
        return generate_latest(registry).decode()


class _Merged(Collector):
    def __init__(self) -> None:
        self._families: dict[str, tuple[Metric, dict[tuple[str, _Labels], float]]] = {}

    def add(self, metrics: list[Metric], *, summed: bool, **labels: str) -> None:
        """Add those metrics that are summed, or all others, with further labels."""
        for metric in metrics:
            # The creation time of one counter is meaningless for a sum.
            if (metric.type in _SUMMED) is not summed or metric.name.endswith("_created"):
                continue
            _, values = self._families.setdefault(metric.name, (metric, {}))
            for sample in metric.samples:
                key = (sample.name, tuple({**sample.labels, **labels}.items()))
                values[key] = values.get(key, 0.0) + sample.value

    def collect(self) -> Iterator[Metric]:
        for metric, values in self._families.values():
            family = Metric(metric.name, metric.documentation, metric.type)
            for (sample, labels), value in values.items():
                family.add_sample(sample, dict(labels), value)
            yield family
