"""Metrics of calls and decisions."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Protocol

from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector

from queuegate_server.observe.counters import CallCounters

_CALL = ("grpc_type", "grpc_service", "grpc_method")


class InProgress(Protocol):
    """The calls in progress and their limits."""

    @property
    def refused(self) -> Mapping[str, int]:
        """How many calls were rejected, by the limit that was reached."""

    @property
    def running(self) -> int:
        """How many calls are in progress."""

    @property
    def limit(self) -> int:
        """How many there may be."""

    @property
    def streams(self) -> int:
        """How many streams are open."""

    @property
    def stream_limit(self) -> int:
        """How many of them may be streams."""


class Decided(Protocol):
    """Counts of decisions."""

    def tallied(self) -> Iterable[tuple[str, str, int]]:
        """Return outcome, reason and count of each kind of decision."""


class CallMetrics(Collector):
    """Calls, their statuses and durations, and decisions."""

    def __init__(self, calls: CallCounters, in_progress: InProgress, decided: Decided) -> None:
        """Collect from these sources."""
        self._calls = calls
        self._in_progress = in_progress
        self._decided = decided

    def collect(self) -> Iterator[Metric]:
        """Yield the current metrics."""
        started = CounterMetricFamily("grpc_server_started", "Calls started.", labels=_CALL)
        handled = CounterMetricFamily(
            "grpc_server_handled",
            "Calls completed, by status.",
            labels=(*_CALL, "grpc_code"),
        )
        seconds = HistogramMetricFamily(
            "grpc_server_handling_seconds", "Duration of calls.", labels=_CALL
        )
        for method in self._calls.methods:
            labels = (method.kind, method.service, method.method)
            started.add_metric(labels, method.started)
            for code, count in method.codes.items():
                handled.add_metric((*labels, code), count)
            seconds.add_metric(labels, method.durations.buckets(), method.durations.sum)
        yield from (started, handled, seconds)
        yield GaugeMetricFamily(
            "queuegate_calls_in_progress", "Calls in progress.", self._in_progress.running
        )
        yield GaugeMetricFamily(
            "queuegate_calls_limit", "How many calls may be in progress.", self._in_progress.limit
        )
        yield GaugeMetricFamily(
            "queuegate_streams_in_progress",
            "Streams in progress.",
            self._in_progress.streams,
        )
        yield GaugeMetricFamily(
            "queuegate_streams_limit",
            "How many streams may be open.",
            self._in_progress.stream_limit,
        )
        refused = CounterMetricFamily(
            "queuegate_calls_refused",
            "Calls rejected at a limit.",
            labels=("reason",),
        )
        for reason, count in self._in_progress.refused.items():
            refused.add_metric((reason,), count)
        yield refused
        decisions = CounterMetricFamily(
            "queuegate_decisions",
            "Decisions, including those of batches and streams.",
            labels=("outcome", "reason"),
        )
        for outcome, reason, count in self._decided.tallied():
            decisions.add_metric((outcome, reason), count)
        yield decisions
