"""Queues that the capacity scheduler creates, as Hadoop 3.4.1 answered about them."""

import json
from collections import Counter
from pathlib import Path
from typing import Any, Final

import pytest

from tests.support.yarn_template_answers import agrees

VECTORS: Final[list[dict[str, Any]]] = json.loads(
    Path("tests/vectors/yarn_template_vectors.json").read_text()
)


def _compare(number: int) -> Counter[str]:
    vector = VECTORS[number]
    return agrees(vector["scheduler"], vector["questions"], vector["create"], vector["answer"])


@pytest.mark.parametrize("number", range(len(VECTORS)))
def test_a_file(number: int) -> None:
    assert _compare(number)


def test_all_kinds_occur() -> None:
    counts = sum(map(_compare, range(len(VECTORS))), Counter[str]())
    assert len(counts) == 5
    assert min(counts.values()) > 10, counts
