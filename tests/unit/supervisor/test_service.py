"""Metrics of several processes, merged into those of one service."""

from collections.abc import Container
from typing import Any

import pytest
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, Info, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from queuegate_server.supervisor.service import MergedMetrics


def exposition(calls: int, size: float, seconds: list[float]) -> str:
    registry = CollectorRegistry()
    counter = Counter("calls", "Calls.", ["code"], registry=registry)
    counter.labels("OK").inc(calls)
    counter.labels('a "b"\n').inc(1)
    Gauge("entries", "Entries.", ["partition"], registry=registry).labels("default").set(size)
    histogram = Histogram("seconds", "Seconds.", registry=registry, buckets=(0.1, 1))
    for each in seconds:
        histogram.observe(each)
    Info("build", "Build.", registry=registry).info({"version": "1"})
    return generate_latest(registry).decode()


def samples(
    merged: MergedMetrics, answering: Container[int] = range(9)
) -> dict[tuple[str, tuple[Any, ...]], float]:
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(merged.text(answering).decode())
        for sample in family.samples
    }


def test_counters_and_histograms_are_summed_and_gauges_labelled() -> None:
    merged = MergedMetrics()
    merged.update(0, 100, exposition(3, 10, [0.05, 5]))
    merged.update(1, 101, exposition(4, 20, [0.5]))
    assert samples(merged) == {
        ("calls_total", (("code", "OK"),)): 7,
        ("calls_total", (("code", 'a "b"\n'),)): 2,
        ("entries", (("partition", "default"), ("worker", "0"))): 10,
        ("entries", (("partition", "default"), ("worker", "1"))): 20,
        ("seconds_bucket", (("le", "0.1"),)): 1,
        ("seconds_bucket", (("le", "1.0"),)): 2,
        ("seconds_bucket", (("le", "+Inf"),)): 3,
        ("seconds_count", ()): 3,
        ("seconds_sum", ()): 5.55,
        ("build_info", (("version", "1"), ("worker", "0"))): 1,
        ("build_info", (("version", "1"), ("worker", "1"))): 1,
    }
    assert "# TYPE calls_total counter" in merged.text({0, 1}).decode()
    assert "# HELP calls_total Calls." in merged.text({0, 1}).decode()


def test_counts_of_a_worker_that_has_ended_are_kept() -> None:
    """To Prometheus, a counter that decreases looks like a restart."""
    merged = MergedMetrics()
    merged.update(0, 100, exposition(3, 10, [0.05]))
    merged.update(0, 100, exposition(5, 10, [0.05]))
    merged.update(0, 102, exposition(1, 30, [0.05]))
    merged.update(0, 103, exposition(1, 40, []))
    found = samples(merged)
    assert found["calls_total", (("code", "OK"),)] == 7
    assert found["seconds_count", ()] == 2
    assert found["entries", (("partition", "default"), ("worker", "0"))] == 40


def test_a_silent_worker_exports_only_counters() -> None:
    merged = MergedMetrics()
    merged.update(0, 100, exposition(3, 10, []))
    merged.update(1, 101, exposition(4, 20, []))
    found = samples(merged, {1})
    assert found["calls_total", (("code", "OK"),)] == 7
    assert [labels for name, labels in found if name == "entries"] == [
        (("partition", "default"), ("worker", "1"))
    ]


def test_malformed_metrics_change_nothing() -> None:
    merged = MergedMetrics()
    merged.update(0, 100, exposition(3, 10, []))
    before = merged.text({0, 1})
    with pytest.raises(ValueError, match="convert"):
        merged.update(0, 101, "calls x")
    assert merged.text({0, 1}) == before


def test_no_workers_yet() -> None:
    assert MergedMetrics().text({0}) == b""
