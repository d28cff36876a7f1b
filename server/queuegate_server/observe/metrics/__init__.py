"""Prometheus metrics.

Collectors read, at each scrape, counters that the server keeps anyway, so that a call only
increments a number. No label carries the name of a user, group or queue. deploy/OPERATIONS.md lists
all metrics.
"""

from collections.abc import Callable, Iterable

from prometheus_client import CollectorRegistry, GCCollector, ProcessCollector, generate_latest
from prometheus_client.registry import Collector


def metrics_writer(collectors: Iterable[Collector]) -> Callable[[], bytes]:
    """Return a function that writes the collectors' metrics, and those of the process, as text."""
    registry = CollectorRegistry()
    for collector in collectors:
        registry.register(collector)
    ProcessCollector(registry=registry)
    GCCollector(registry=registry)
    return lambda: generate_latest(registry)
