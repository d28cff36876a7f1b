"""who-can equals checking every user, for each queue and access."""

import random
from pathlib import Path

from tests.integration.ldap.who_can import SEED, compare, directory_of, policy_of, served


def test_lists_equal_checks(tmp_path: Path) -> None:
    rng = random.Random(SEED)
    ldif = directory_of(60, 12, rng)
    policy, paths = policy_of(60, 12, 14, rng)
    with served(tmp_path / "run", ldif, policy) as client:
        found, _ = compare(client, 60, paths)
    assert found > 100
