"""Requests to a server's operations port."""

import json
import urllib.error
import urllib.request
from typing import Any

from prometheus_client.parser import text_string_to_metric_families

from tests.support.servers.queuegate_server import RunningServer

LISTEN = ("--set", "ops.listen=127.0.0.1:0")


def ops_address(server: RunningServer) -> str:
    address: str = server.wait_for_log("operations port is open")["address"]
    return address


def get(address: str, path: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(f"http://{address}{path}", timeout=60) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


def all_pages(address: str, *partitions: str) -> str:
    """Return the metrics and the pages that may show faults of the partitions' resolvers."""
    paths = ["metrics", "readyz", "console/health", "console/denials"]
    paths += [f"console/user?partition={each}&user=another@example.com" for each in partitions]
    shown = []
    for path in paths:
        status, text = get(address, f"/{path}")
        assert status in {200, 503}, path  # 503: the groups of the user are unknown
        shown.append(text)
    return "\n".join(shown)


def get_json(address: str, path: str) -> tuple[int, Any]:
    status, text = get(address, path)
    return status, json.loads(text)


def samples(address: str) -> dict[tuple[str, frozenset[str]], float]:
    """Return the values of all metrics, by name and label values."""
    status, text = get(address, "/metrics")
    assert status == 200
    return {
        (sample.name, frozenset(sample.labels.values())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def value(address: str, name: str, *labels: str) -> float:
    """Return the sum of a metric's values whose labels include these values."""
    return sum(
        found
        for (sample, values), found in samples(address).items()
        if sample == name and values.issuperset(labels)
    )
