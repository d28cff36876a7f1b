"""Metrics of caches, resolvers and directories."""

from collections.abc import Iterable, Iterator
from typing import Final, Protocol

from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector

from queuegate_server.engine import Engine, NotReady
from queuegate_server.identity.circuit_breaker import CircuitState
from queuegate_server.identity.group_resolver import GuardedResolver
from queuegate_server.identity.resolvers.ldap.instrumentation import LdapStatistics
from queuegate_server.observe.lookups import Lookups

_RESOLVER: Final = ("resolver", "defined_in")
_PARTITION: Final = ("partition",)
_EVENTS: Final = ("retried", "ambiguous", "other_spelling", "skipped_names", "depth_reached")
"""Attributes of the statistics of a directory."""


class Resolvers(Protocol):
    """The resolvers in use."""

    def resolvers(self) -> Iterable[tuple[str, GuardedResolver]]:
        """Return them, each with where it is defined."""


class CacheMetrics(Collector):
    """The cache of each partition."""

    def __init__(self, engine: Engine) -> None:
        """Take what has the partitions."""
        self._engine = engine

    def collect(self) -> Iterator[Metric]:
        """Yield the metrics as they are now."""
        requests = CounterMetricFamily(
            "queuegate_cache_requests",
            "Questions to the cache; repeated questions are answered before it.",
            labels=(*_PARTITION, "result"),
        )
        entries = GaugeMetricFamily(
            "queuegate_cache_entries", "Users remembered, expired ones included.", labels=_PARTITION
        )
        waiting = GaugeMetricFamily(
            "queuegate_cache_refreshes_waiting",
            "Known users whose look-up is due and waits for its turn.",
            labels=_PARTITION,
        )
        refreshes, evictions, invalidated, outdated = (
            CounterMetricFamily(f"queuegate_cache_{name}", text, labels=_PARTITION)
            for name, text in (
                ("refreshes", "Look-ups of users whose groups were known."),
                ("evictions", "Entries that made room for others."),
                ("invalidated", "Entries dropped on request."),
                ("outdated", "Answers that came too late to be kept."),
            )
        )
        try:
            served = self._engine.snapshot.served
        except NotReady:
            served = {}
        for name, partition in served.items():
            counts = partition.groups.stats()
            labels = (name,)
            for result, count in (
                ("hit", counts.hits),
                ("negative_hit", counts.negative_hits),
                ("failure_hit", counts.failure_hits),
                ("stale_hit", counts.stale_hits),
                ("miss", counts.misses),
            ):
                requests.add_metric((name, result), count)
            entries.add_metric(labels, counts.entries)
            waiting.add_metric(labels, partition.groups.refreshes_waiting)
            refreshes.add_metric(labels, counts.refreshes)
            evictions.add_metric(labels, counts.evictions)
            invalidated.add_metric(labels, counts.invalidated)
            outdated.add_metric(labels, counts.outdated)
        yield from (requests, entries, waiting, refreshes, evictions, invalidated, outdated)


class ResolverMetrics(Collector):
    """The resolvers, whatever their type."""

    def __init__(self, lookups: Lookups, resolvers: Resolvers) -> None:
        """Take where look-ups are counted, and the resolvers."""
        self._lookups = lookups
        self._resolvers = resolvers

    def collect(self) -> Iterator[Metric]:
        """Yield the metrics as they are now."""
        outcomes = CounterMetricFamily(
            "queuegate_resolver_lookups",
            "Look-ups, those that were refused or given up included.",
            labels=(*_RESOLVER, "outcome"),
        )
        seconds = HistogramMetricFamily(
            "queuegate_resolver_lookup_seconds",
            "How long look-ups took, the wait for their turn included.",
            labels=_RESOLVER,
        )
        for labels, lookups in self._lookups.resolvers.items():
            for outcome, count in lookups.outcomes.items():
                outcomes.add_metric((*labels, outcome), count)
            seconds.add_metric(labels, lookups.timings.buckets(), lookups.timings.seconds)
        breaker = GaugeMetricFamily(
            "queuegate_resolver_breaker_state",
            "1 for the state that the circuit breaker is in.",
            labels=(*_RESOLVER, "state"),
        )
        running = GaugeMetricFamily(
            "queuegate_resolver_lookups_running", "Look-ups under way.", labels=_RESOLVER
        )
        waiting = GaugeMetricFamily(
            "queuegate_resolver_lookups_waiting",
            "Look-ups that wait for their turn.",
            labels=_RESOLVER,
        )
        for defined_in, resolver in self._resolvers.resolvers():
            labels = (resolver.name, defined_in)
            for state in CircuitState:
                breaker.add_metric((*labels, state), state is resolver.breaker_state)
            running.add_metric(labels, resolver.running)
            waiting.add_metric(labels, resolver.waiting)
        yield from (outcomes, seconds, breaker, running, waiting)


class LdapMetrics(Collector):
    """The servers of LDAP directories."""

    def __init__(self, resolvers: Resolvers) -> None:
        """Take the resolvers, of whatever type."""
        self._resolvers = resolvers

    def collect(self) -> Iterator[Metric]:
        """Yield the metrics as they are now."""
        steps = CounterMetricFamily(
            "queuegate_ldap_steps",
            "What was done at a directory server.",
            labels=(*_RESOLVER, "server", "step", "result"),
        )
        seconds = CounterMetricFamily(
            "queuegate_ldap_step_seconds",
            "How long that took altogether.",
            labels=(*_RESOLVER, "server", "step"),
        )
        events = CounterMetricFamily(
            "queuegate_ldap_events",
            "What was out of the ordinary in look-ups.",
            labels=(*_RESOLVER, "event"),
        )
        for defined_in, resolver in self._resolvers.resolvers():
            counted = getattr(resolver.resolver, "statistics", None)
            if not isinstance(counted, LdapStatistics):
                continue
            labels = (resolver.name, defined_in)
            for (server, step), count in counted.steps.items():
                steps.add_metric((*labels, server, step, "success"), count.succeeded)
                steps.add_metric((*labels, server, step, "failure"), count.failed)
                seconds.add_metric((*labels, server, step), count.seconds)
            for event in _EVENTS:
                events.add_metric((*labels, event), getattr(counted, event))
        yield from (steps, seconds, events)
