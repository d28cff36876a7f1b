"""Gates of all languages make the same of tables that no server sends: the gate for Python.

The modules for Go and Java replay the same vectors.
"""

import base64
import json
import tracemalloc
from typing import Any, Final

import pytest

from queuegate.gate.local_partition import LocalPartition
from queuegate.policy.decision import Access
from queuegate.v1 import sync_pb2
from tests.support import odd_tables
from tests.support.compiled_policies import received

VECTORS: Final = json.loads(odd_tables.FILE.read_text())
REFUSED: Final = [vector for vector in VECTORS if vector["questions"] is None]
ODD: Final = [vector for vector in VECTORS if vector["questions"] is not None]
MAX_BYTES_PER_QUESTION: Final = 16_384


def read(vector: dict[str, Any]) -> LocalPartition:
    """Return what a gate reads from the policy of a vector."""
    parts = map(base64.b64decode, vector["parts"])
    return received(map(sync_pb2.PolicyPart.FromString, parts))


def answer(gate: LocalPartition, question: list[Any]) -> list[Any] | None:
    """Return the gate's answer in the form of the vectors."""
    user, queue, access, groups, _ = question
    path = gate.local_path(queue)
    assert path is not None
    target = gate.target(path, Access(access))
    if target is None:
        return None
    chain, evaluated = target
    decision = chain.decide(user, groups)
    return [] if decision is None else [*decision, evaluated]


@pytest.mark.parametrize("vector", REFUSED, ids=lambda vector: vector["name"])
def test_refused_tables(vector: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"^(a|an|the|ambiguous|number) "):
        read(vector)


@pytest.mark.parametrize("vector", ODD, ids=lambda vector: vector["name"])
def test_odd_tables(vector: dict[str, Any]) -> None:
    gate = read(vector)
    for _ in range(10):  # chains that are used often have an index
        for question in vector["questions"]:
            assert answer(gate, question) == question[-1], question


def test_the_file_is_current() -> None:
    assert odd_tables.FILE.read_text() == odd_tables.vectors()
    assert len(REFUSED) > len(odd_tables.REFUSED) + len(odd_tables.REFUSED_IN_PARTS)


def test_the_memory_of_a_question() -> None:
    """The longest chain below a queue where YARN creates others, asked about ever new paths."""
    deepest = [depth for depth in range(2, 22) for _ in range(2)]
    part = odd_tables.created_chain(deepest, 20)
    gate = received([part])
    questions = [f"root{'.x' * 19}.q{number}" for number in range(1_000)]
    for queue in questions[:100]:
        assert answer(gate, ["alice", queue, "submit", None, None])
    tracemalloc.start()
    for queue in questions[100:]:
        assert answer(gate, ["alice", queue, "submit", None, None])
    size, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert size / 900 < MAX_BYTES_PER_QUESTION
