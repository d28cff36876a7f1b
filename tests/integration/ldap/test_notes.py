"""What `source-check` prints if the directory changes between the look-up and its notes."""

from itertools import count

import pytest

from queuegate_server.cli.ldap_check import check_ldap
from queuegate_server.identity.resolvers.ldap.ldap_options import LdapOptions
from tests.support.fakes import small_directory
from tests.support.fakes.ldap_server import Answer, Search, fake_directory

SUE = ("uid=sue,ou=people,dc=example", {"uid": [b"sue"]})
OUTSIDE = ("uid=sue,ou=robots,dc=example", {"uid": [b"sue"]})
TWIN = ("uid=sue,ou=new,ou=people,dc=example", {"uid": [b"sue"]})


@pytest.mark.parametrize(
    "later", [[], [TWIN, SUE], [OUTSIDE]], ids=["removed", "doubled", "moved away"]
)
async def test_an_entry_that_changes_after_the_lookup(
    later: list[tuple[str, dict[str, list[bytes]]]], capsys: pytest.CaptureFixture[str]
) -> None:
    user_searches = count()

    def answer(search: Search) -> Answer:
        if "(uid=sue)" in search.filter and "(member=" not in search.filter:
            return Answer([SUE] if next(user_searches) == 0 else later)
        return small_directory.answer(search)

    async with fake_directory(answer) as directory:
        given = LdapOptions(**small_directory.options(directory.url), disabled_users="refuse")
        assert await check_ldap(given, "sue", is_for_yunikorn=False) is True
    assert "groups (1): staff" in capsys.readouterr().out
    assert next(user_searches) > 1
