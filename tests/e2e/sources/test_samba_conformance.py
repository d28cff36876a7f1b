"""The conformance suite of resolvers on a real domain controller of Active Directory."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.conformance.identity.test_resolvers import (  # noqa: F401
    Case,
    options,
    resolver,
    test_a_cancelled_lookup_disturbs_nobody,
    test_any_name_gets_an_outcome,
    test_behind_cache_and_limits,
    test_closes_without_having_been_opened,
    test_groups_are_distinct_texts,
    test_is_built_without_an_event_loop,
    test_knows_its_users,
    test_knows_who_does_not_exist,
    test_many_at_once_get_their_own_answers,
)
from tests.support.servers import samba
from tests.support.servers.samba import DISABLED, Samba, group, user, user_dn

pytestmark = [pytest.mark.usefixtures("no_task_left"), pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def case(controller: Samba) -> Case:
    controller.modify(
        user("sue")
        + user("tom.o'neil (jr)")
        + user("left", DISABLED)
        + group("data", user_dn("sue"), user_dn("tom.o'neil (jr)"))
        + group("ops", user_dn("sue"), user_dn("left"))
    )

    @contextmanager
    def source(folder: Path) -> Iterator[Mapping[str, Any]]:
        yield samba.settings(folder, controller)

    known = {
        "sue": ("Domain Users", "data", "ops"),
        "SUE": ("Domain Users", "data", "ops"),
        "tom.o'neil (jr)": ("Domain Users", "data"),
    }
    unknown = ("nobody", "sue\n", "s*e", "sue)(sAMAccountName=*", "left", "..", "\ud800", " sue")
    return Case("ldap", known, unknown, source)
