"""A gate answers as its server, whatever changes."""

import pytest

from tests.resilience.sync.differential import run
from tests.support.gates import KINDS


@pytest.mark.parametrize("kind", KINDS)
def test_a_gate_answers_as_its_server(kind: str) -> None:
    outcome = run(4_000, seed=7, kind=kind)
    assert outcome.differences == []
    assert outcome.decided > 1_000
