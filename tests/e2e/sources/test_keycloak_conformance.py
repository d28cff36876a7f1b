"""The conformance suite of resolvers on a real Keycloak."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import trustme

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
from tests.e2e.sources import realms
from tests.support.maven import BUILD_SECONDS
from tests.support.servers.keycloak import Keycloak

pytestmark = [pytest.mark.usefixtures("no_task_left"), pytest.mark.timeout(2 * BUILD_SECONDS)]


@pytest.fixture(scope="module")
def case(keycloak: Keycloak, ca: trustme.CA) -> Case:
    keycloak.add_realm(
        realms.realm(
            "conformance",
            [realms.group("eng", realms.group("backend")), realms.group("ops")],
            [
                realms.user("sue", "/eng/backend", "/ops"),
                realms.user("tom@example.com", "/ops"),
                realms.user("off", "/ops", enabled=False),
            ],
        )
    )

    @contextmanager
    def source(folder: Path) -> Iterator[Mapping[str, Any]]:
        yield realms.settings(folder, keycloak, ca, "conformance")

    known = {"sue": ("/eng/backend", "/ops"), "tom@example.com": ("/ops",)}
    return Case("keycloak", known, ("nobody", "SUE", " sue", "sue\n", "off", ".."), source)
