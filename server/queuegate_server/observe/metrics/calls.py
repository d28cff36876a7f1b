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

from queuegate_server.observe.calls import Calls

_CALL = ("grpc_type", "grpc_service", "grpc_method")


class InProgress(Protocol):
    """The calls in progress and their bounds."""

    @property
    def refused(self) -> Mapping[str, int]:
        """How many were refused so far, by the bound that was reached."""

    @property
    def running(self) -> int:
        """How many there are."""

    @property
    def most(self) -> int:
        """How many there may be."""

    @property
    def streams(self) -> int:
        """How many of them are streams."""

    @property
    def most_streams(self) -> int:
        """How many of them may be streams."""


class Decided(Protocol):
    """The decisions so far."""

    def tallied(self) -> Iterable[tuple[str, str, int]]:
        """Return outcome, reason, and how many there were."""


class CallMetrics(Collector):
    """What was called, how it ended, what was decided."""

    def __init__(self, calls: Calls, in_progress: InProgress, decided: Decided) -> None:
        """Take where it is counted."""
        self._calls = calls
        self._in_progress = in_progress
        self._decided = decided

    def collect(self) -> Iterator[Metric]:
        """Yield the metrics as they are now."""
        started = CounterMetricFamily("grpc_server_started", "Calls that began.", labels=_CALL)
        handled = CounterMetricFamily(
            "grpc_server_handled", "Calls that ended, by status.", labels=(*_CALL, "grpc_code")
        )
        seconds = HistogramMetricFamily(
            "grpc_server_handling_seconds", "From the request to the end of a call.", labels=_CALL
        )
        for method in self._calls.methods:
            labels = (method.kind, method.service, method.method)
            started.add_metric(labels, method.started)
            for code, count in method.codes.items():
                handled.add_metric((*labels, code), count)
            seconds.add_metric(labels, method.timings.buckets(), method.timings.seconds)
        yield from (started, handled, seconds)
        yield GaugeMetricFamily(
            "queuegate_calls_in_progress", "Calls in progress.", self._in_progress.running
        )
        yield GaugeMetricFamily(
            "queuegate_calls_limit", "How many calls may be in progress.", self._in_progress.most
        )
        yield GaugeMetricFamily(
            "queuegate_streams_in_progress", "Streams among them.", self._in_progress.streams
        )
        yield GaugeMetricFamily(
            "queuegate_streams_limit",
            "How many streams may be open.",
            self._in_progress.most_streams,
        )
        refused = CounterMetricFamily(
            "queuegate_calls_refused", "Calls beyond a bound.", labels=("reason",)
        )
        for reason, count in self._in_progress.refused.items():
            refused.add_metric((reason,), count)
        yield refused
        decisions = CounterMetricFamily(
            "queuegate_decisions",
            "Decisions, those of batches and streams included.",
            labels=("outcome", "reason"),
        )
        for outcome, reason, count in self._decided.tallied():
            decisions.add_metric((outcome, reason), count)
        yield decisions
