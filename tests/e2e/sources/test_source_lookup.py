"""The benchmark of cold lookups runs, on a real Keycloak."""

from pathlib import Path

import pytest
import trustme

from bench.command import Scale
from bench.source_lookup import measure_on
from tests.support.maven import BUILD_SECONDS
from tests.support.servers.keycloak import Keycloak

pytestmark = pytest.mark.timeout(2 * BUILD_SECONDS)


def test_times_are_measured(keycloak: Keycloak, ca: trustme.CA, tmp_path: Path) -> None:
    part = measure_on(keycloak, ca, Scale(is_quick=True), tmp_path)
    [table] = part.tables
    bare, resolved, new, again = [float(row[1].partition(" ")[0]) for row in table.rows]
    assert min(bare, resolved) > 0
    assert new > again > 0
    assert len(part.targets) == 2
