"""yarn-site.xml and capacity-scheduler.xml together, as Hadoop 3.4.1 answered about them."""

import json
from pathlib import Path
from typing import Any, Final

import pytest

from tests.support.yarn_layer_answers import agrees

VECTORS: Final[list[dict[str, Any]]] = json.loads(
    Path("tests/vectors/yarn_layer_vectors.json").read_text()
)


@pytest.mark.parametrize("number", range(len(VECTORS)))
def test_a_pair(number: int) -> None:
    vector = VECTORS[number]
    agrees(vector["site"], vector["scheduler"], vector["answer"])


def test_all_kinds_occur() -> None:
    kinds = [agrees(each["site"], each["scheduler"], each["answer"]) for each in VECTORS]
    assert kinds.count("enforced") > 25
    assert kinds.count("not enforced") > 1
