"""Who gains and who loses equals comparing all checks before and after a change."""

from pathlib import Path

from tests.integration.ldap.people_difference import compare


def test_differences_equal_checks(tmp_path: Path) -> None:
    assert compare(tmp_path, 60, 40) > 20
