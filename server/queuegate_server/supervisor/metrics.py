"""Merges the metrics of all workers into those of one service.

Counters and histograms are summed, including the last known values of workers that have ended,
because a counter must not decrease. All other metrics describe a single process and get the label
`worker`.
"""

from collections.abc import Container, Iterator, Mapping
from typing import Final

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.metrics_core import Metric
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.registry import Collector

_SUMMED: Final = frozenset({"counter", "histogram"})
_WORKER: Final = "worker"

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
            self._end(before[1])
        self._latest[index] = (pid, metrics)

    def text(self, answering: Container[int]) -> str:
        """Return the sums of all workers, and the other metrics of those that answer now.

        The gauges of a process that hangs or has ended are outdated, and left out.
        """
        merged = _Merged()
        merged.sum_up(self._ended)
        for index, (_, metrics) in sorted(self._latest.items()):
            merged.sum_up(metrics)
            if index in answering:
                merged.add_each(metrics, str(index))
        registry = CollectorRegistry(auto_describe=False)
        registry.register(merged)
        return generate_latest(registry).decode()

    def _end(self, metrics: list[Metric]) -> None:
        merged = _Merged()
        merged.sum_up(self._ended)
        merged.sum_up(metrics)
        self._ended = list(merged.collect())


class _Merged(Collector):
    def __init__(self) -> None:
        self._families: dict[str, Metric] = {}
        self._sums: dict[str, dict[tuple[str, _Labels], float]] = {}

    def sum_up(self, metrics: list[Metric]) -> None:
        for metric in metrics:
            if metric.type not in _SUMMED or metric.name.endswith("_created"):
                continue
            self._families.setdefault(metric.name, _empty(metric))
            sums = self._sums.setdefault(metric.name, {})
            for sample in metric.samples:
                key = (sample.name, tuple(sample.labels.items()))
                sums[key] = sums.get(key, 0.0) + sample.value

    def add_each(self, metrics: list[Metric], worker: str) -> None:
        for metric in metrics:
            # The creation time of one counter is meaningless for a sum.
            if metric.type in _SUMMED or metric.name.endswith("_created"):
                continue
            family = self._families.setdefault(metric.name, _empty(metric))
            for sample in metric.samples:
                labels: Mapping[str, str] = {**sample.labels, _WORKER: worker}
                family.add_sample(sample.name, dict(labels), sample.value)

    def collect(self) -> Iterator[Metric]:
        for name, family in self._families.items():
            added = _empty(family)
            added.samples = list(family.samples)
            for (sample, labels), value in self._sums.get(name, {}).items():
                added.add_sample(sample, dict(labels), value)
            yield added


def _empty(metric: Metric) -> Metric:
    return Metric(metric.name, metric.documentation, metric.type)
