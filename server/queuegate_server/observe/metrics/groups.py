"""Metrics of group caches, resolvers and LDAP directories."""

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
from queuegate_server.observe.counters import LookupCounters

_RESOLVER: Final = ("resolver", "defined_in")
_PARTITION: Final = ("partition",)
_EVENTS: Final = ("retried", "ambiguous", "other_spelling", "skipped_names", "depth_reached")
"""Attributes of `LdapStatistics` that are exported as events."""


class Resolvers(Protocol):
    """The resolvers in use."""

    def resolvers(self) -> Iterable[tuple[str, GuardedResolver]]:
        """Return each resolver, and where it is defined."""


class CacheMetrics(Collector):
    """The group cache of each partition."""

    def __init__(self, engine: Engine) -> None:
        """Collect from the partitions of an engine."""
        self._engine = engine

    def collect(self) -> Iterator[Metric]:
        """Yield the current metrics."""
        requests = CounterMetricFamily(
            "queuegate_cache_requests",
            "Look-ups in the group cache; repeated requests do not reach it.",
            labels=(*_PARTITION, "result"),
        )
        entries = GaugeMetricFamily(
            "queuegate_cache_entries", "Entries, including expired ones.", labels=_PARTITION
        )
        waiting = GaugeMetricFamily(
            "queuegate_cache_refreshes_waiting",
            "Cached users whose refresh is due and queued.",
            labels=_PARTITION,
        )
        refreshes, evictions, invalidated, outdated = (
            CounterMetricFamily(f"queuegate_cache_{name}", text, labels=_PARTITION)
            for name, text in (
                ("refreshes", "Refreshes of users whose groups were cached."),
                ("evictions", "Entries evicted to make room for others."),
                ("invalidated", "Entries dropped on request."),
                ("outdated", "Look-ups whose result was outdated when they finished."),
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
    """Look-ups and circuit breakers of all resolvers."""

    def __init__(self, lookups: LookupCounters, resolvers: Resolvers) -> None:
        """Collect from these sources."""
        self._lookups = lookups
        self._resolvers = resolvers

    def collect(self) -> Iterator[Metric]:
        """Yield the current metrics."""
        outcomes = CounterMetricFamily(
            "queuegate_resolver_lookups",
            "Look-ups, including those that were rejected or timed out.",
            labels=(*_RESOLVER, "outcome"),
        )
        seconds = HistogramMetricFamily(
            "queuegate_resolver_lookup_seconds",
            "Duration of look-ups, including their time in the queue.",
            labels=_RESOLVER,
        )
        for labels, lookups in self._lookups.resolvers.items():
            for outcome, count in lookups.outcomes.items():
                outcomes.add_metric((*labels, outcome), count)
            seconds.add_metric(labels, lookups.durations.buckets(), lookups.durations.sum)
        breaker = GaugeMetricFamily(
            "queuegate_resolver_breaker_state",
            "1 for the current state of the circuit breaker.",
            labels=(*_RESOLVER, "state"),
        )
        running = GaugeMetricFamily(
            "queuegate_resolver_lookups_running", "Look-ups in progress.", labels=_RESOLVER
        )
        waiting = GaugeMetricFamily(
            "queuegate_resolver_lookups_waiting",
            "Look-ups in the queue.",
            labels=_RESOLVER,
        )
        for defined_in, resolver in self._resolvers.resolvers():
            labels = (resolver.name, defined_in)
            for state in CircuitState:
                breaker.add_metric((*labels, state), state is resolver.breaker.state)
            running.add_metric(labels, resolver.bulkhead.running)
            waiting.add_metric(labels, resolver.bulkhead.waiting)
        yield from (outcomes, seconds, breaker, running, waiting)


class LdapMetrics(Collector):
    """Operations on the servers of LDAP directories."""

    def __init__(self, resolvers: Resolvers) -> None:
        """Collect from the LDAP resolvers among these."""
        self._resolvers = resolvers

    def collect(self) -> Iterator[Metric]:
        """Yield the current metrics."""
        steps = CounterMetricFamily(
            "queuegate_ldap_steps",
            "Operations on a directory server.",
            labels=(*_RESOLVER, "server", "step", "result"),
        )
        seconds = CounterMetricFamily(
            "queuegate_ldap_step_seconds",
            "Total duration of these operations.",
            labels=(*_RESOLVER, "server", "step"),
        )
        events = CounterMetricFamily(
            "queuegate_ldap_events",
            "Unusual events in look-ups.",
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
