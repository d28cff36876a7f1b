"""Claims against Z3; `python -m tests.support.claims_against_z3 10000` looks at more."""

from collections import Counter
from pathlib import Path

import pytest

pytest.importorskip("z3", reason="z3-solver has no wheel for this platform")

from tests.support.claims_against_z3 import CLAIMS_PER_POLICY, check


@pytest.mark.parametrize("first", range(0, 60, 20))
def test_proofs_and_refutations_are_what_z3_finds(tmp_path: Path, first: int) -> None:
    found = Counter[str]()
    for seed in range(first, first + 20):
        found += check(seed, tmp_path)
    assert found["proved"] + found["refuted"] > 10 * CLAIMS_PER_POLICY
    assert found["commands"] >= found["refuted"] > 10
    assert found["proved"] > 10
