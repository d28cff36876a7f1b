"""Metrics of what is served: the policy, and the program."""

from collections.abc import Callable, Iterator
from typing import Protocol

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from queuegate_server.engine import Engine, NotReady


class _ReloadState(Protocol):
    @property
    def succeeded(self) -> bool: ...


class Reloads(Protocol):
    """How reloads went."""

    succeeded: int
    failed: int

    @property
    def state(self) -> _ReloadState:
        """How the last one went."""


class PolicyMetrics(Collector):
    """Which policy is served, and by which version."""

    def __init__(
        self,
        engine: Engine,
        reloads: Reloads,
        is_ready: Callable[[], bool],
        version: dict[str, str],
    ) -> None:
        """Take where all this is known; `version` has what the labels of the build say."""
        self._engine = engine
        self._reloads = reloads
        self._is_ready = is_ready
        self._version = version

    def collect(self) -> Iterator[Metric]:
        """Yield the metrics as they are now."""
        build = GaugeMetricFamily(
            "queuegate_build_info",
            "Always 1; the labels say what runs.",
            labels=tuple(self._version),
        )
        build.add_metric(tuple(self._version.values()), 1)
        yield build
        yield GaugeMetricFamily(
            "queuegate_ready", "1 if /readyz says ready.", int(self._is_ready())
        )
        reloads = CounterMetricFamily(
            "queuegate_policy_reloads",
            "Readings of the policy, the first one included.",
            labels=("result",),
        )
        reloads.add_metric(("success",), self._reloads.succeeded)
        reloads.add_metric(("failure",), self._reloads.failed)
        yield reloads
        yield GaugeMetricFamily(
            "queuegate_policy_last_reload_successful",
            "1 if what was read last is served.",
            int(self._reloads.state.succeeded),
        )
        yield from self._policy()

    def _policy(self) -> Iterator[Metric]:
        revision = GaugeMetricFamily(
            "queuegate_policy_revision", "Grows by 1 with each policy that is served."
        )
        loaded = GaugeMetricFamily(
            "queuegate_policy_loaded_timestamp_seconds",
            "Since when the policy is served, in Unix seconds.",
        )
        queues = GaugeMetricFamily(
            "queuegate_policy_queues", "Queues that are served.", labels=("partition",)
        )
        try:
            snapshot = self._engine.snapshot
        except NotReady:
            pass
        else:
            revision.add_metric((), snapshot.policy.revision)
            loaded.add_metric((), snapshot.loaded_at)
            for name, partition in snapshot.policy.partitions.items():
                queues.add_metric((name,), len(partition.queues))
        yield from (revision, loaded, queues)
