"""Nobody takes the service from the callers of a replica by what Redis has."""

from collections.abc import Iterator

import pytest

from tests.resilience.invariants import Record
from tests.resilience.isolation.promise import Observation, expect_isolation, observed
from tests.resilience.isolation.redis_floods import FLOODS
from tests.support.eventually import eventually
from tests.support.servers.fleet import Fleet, running_fleet

POLICY = """\
partitions:
  - name: default
    queues:
      - name: root
        queues:
          - {name: open, submitacl: "*"}
          - {name: sandbox, submitacl: "alice sandboxers"}
  - name: other
    queues:
      - name: root
"""


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    """Two replicas: `a`, which the neighbour asks, and `b`."""
    with running_fleet(tmp_path_factory.mktemp("fleet"), "a", "b", policy=POLICY) as running:
        yield running


@pytest.fixture(scope="module")
def beside(fleet: Fleet) -> Iterator[Observation]:
    with observed(fleet.servers["a"]) as found:
        yield found


@pytest.mark.parametrize("flood", FLOODS)
def test_flood(fleet: Fleet, beside: Observation, record: Record, flood: str) -> None:
    expect_isolation(beside, record, lambda: FLOODS[flood](fleet))
    # The fleet mends itself, and follows its events again.
    eventually(lambda: fleet.confirms("a"), True)
