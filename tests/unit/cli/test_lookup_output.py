"""What `source-check` prints about the groups that it has found."""

import pytest

from queuegate_server.cli.lookup_output import show_outcome
from queuegate_server.identity.resolver import KnownUser
from tests.support.rows import rows


@rows
@pytest.mark.parametrize("is_for_yunikorn", [True, False])
def test_names_with_blanks(
    group: str, note: str, capsys: pytest.CaptureFixture[str], *, is_for_yunikorn: bool
) -> None:
    show_outcome(KnownUser(("ops", group)), is_for_yunikorn=is_for_yunikorn)
    notes = [line for line in capsys.readouterr().out.splitlines() if "  note: " in line]
    if note and is_for_yunikorn:
        assert note in notes[-1]
        assert "\t" not in notes[-1]
    else:
        assert not [each for each in notes if "blank" in each or "queues.yaml" in each]
