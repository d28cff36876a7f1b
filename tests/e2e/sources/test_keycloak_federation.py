"""A real Keycloak whose users come from a real LDAP directory: what bounds the age of groups."""

import http
import urllib.error
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import pytest
import trustme
import yaml
from click.testing import CliRunner

from queuegate_server.cli.source_check import source_check
from queuegate_server.identity.resolver import KnownUser, NoSuchUser
from queuegate_server.identity.resolvers.keycloak.keycloak_resolver import KeycloakResolver
from tests.e2e.sources import realms
from tests.e2e.sources.conftest import Build
from tests.support.change_sink import Sink, following
from tests.support.eventually import eventually
from tests.support.maven import BUILD_SECONDS
from tests.support.servers.keycloak import Keycloak
from tests.support.servers.ldap_entries import change, delete, entry
from tests.support.servers.slapd import (
    ADMIN,
    ADMIN_PASSWORD,
    GROUPS,
    PEOPLE,
    SUFFIX,
    Slapd,
    running_slapd,
)

pytestmark = [pytest.mark.usefixtures("no_task_left"), pytest.mark.timeout(2 * BUILD_SECONDS)]

REALM: Final = "federated"
API: Final = f"/admin/realms/{REALM}"
USERS: Final = ("default", "lifespan", "none", "synced", "gone", "noted")
"""A user for each test, because Keycloak caches them."""
MAPPER: Final = "org.keycloak.storage.ldap.mappers.LDAPStorageMapper"
STORAGE: Final = "org.keycloak.storage.UserStorageProvider"


def user_dn(name: str) -> str:
    return f"uid={name},{PEOPLE}"


ENTRIES: Final = (
    entry(SUFFIX, ("objectClass", "domain"), ("dc", "lab"))
    + entry(PEOPLE, ("objectClass", "organizationalUnit"), ("ou", "people"))
    + entry(GROUPS, ("objectClass", "organizationalUnit"), ("ou", "groups"))
    + "".join(
        entry(
            user_dn(name),
            ("objectClass", "inetOrgPerson"),
            ("uid", name),
            ("cn", name),
            ("sn", "x"),
        )
        for name in USERS
    )
    + entry(
        f"cn=data,{GROUPS}",
        ("objectClass", "groupOfNames"),
        ("cn", "data"),
        ("member", SUFFIX),
        *(("member", user_dn(name)) for name in USERS),
    )
)
DATA: Final = KnownUser(("/data",))
NONE: Final = KnownUser(())


class Federation:
    """A federation of a realm, with groups that stay in the directory."""

    def __init__(self, keycloak: Keycloak, slapd: Slapd) -> None:
        self._keycloak = keycloak
        self._slapd = slapd
        realm = keycloak.admin("GET", API)["id"]
        self.key = self._add("ldap", STORAGE, realm, self._settings())
        self._add("group-ldap-mapper", MAPPER, self.key, MAPPING)

    def _settings(self) -> dict[str, str]:
        return {
            "vendor": "other",
            "editMode": "READ_ONLY",
            "importEnabled": "true",
            "connectionUrl": self._slapd.url,
            "authType": "simple",
            "bindDn": ADMIN,
            "bindCredential": ADMIN_PASSWORD,
            "usersDn": PEOPLE,
            "usernameLDAPAttribute": "uid",
            "rdnLDAPAttribute": "uid",
            "uuidLDAPAttribute": "entryUUID",
            "userObjectClasses": "inetOrgPerson",
            "cachePolicy": "DEFAULT",
        }

    def _add(self, kind: str, type_: str, parent: str, settings: dict[str, str]) -> str:
        config = {name: [value] for name, value in settings.items()}
        body = {"name": kind, "providerId": kind, "providerType": type_, "parentId": parent}
        self._keycloak.admin("POST", f"{API}/components", body | {"config": config})
        added = self._keycloak.admin("GET", f"{API}/components?parent={parent}&type={type_}")
        key: str = next(each["id"] for each in added if each["providerId"] == kind)
        return key

    def set(self, **settings: str) -> None:
        """Change settings, which makes Keycloak forget its users."""
        eventually(lambda: self._has_set(settings), expected=True)

    def _has_set(self, settings: Mapping[str, str]) -> bool:
        """Change settings; return whether no synchronization changed them at the same time."""
        path = f"{API}/components/{self.key}"
        component = self._keycloak.admin("GET", path)
        component["config"].update({name: [value] for name, value in settings.items()})
        try:
            self._keycloak.admin("PUT", path, component)
        except urllib.error.HTTPError as error:
            if error.code != http.HTTPStatus.INTERNAL_SERVER_ERROR:
                raise
            return False
        return True

    def take_out(self, name: str) -> None:
        """Remove a user from the group, in the directory."""
        group = f"cn=data,{GROUPS}"
        self._slapd.modify(change(group, "delete: member", f"member: {user_dn(name)}"))

    def delete(self, name: str) -> None:
        """Delete a user in the directory."""
        self._slapd.modify(delete(user_dn(name)))


MAPPING: Final = {
    "groups.dn": GROUPS,
    "group.name.ldap.attribute": "cn",
    "group.object.classes": "groupOfNames",
    "membership.ldap.attribute": "member",
    "membership.attribute.type": "DN",
    "membership.user.ldap.attribute": "uid",
    "mode": "READ_ONLY",
    "user.roles.retrieve.strategy": "LOAD_GROUPS_BY_MEMBER_ATTRIBUTE",
    "preserve.group.inheritance": "false",
    "drop.non.existing.groups.during.sync": "false",
}


@pytest.fixture(scope="module")
def federation(
    keycloak: Keycloak, ca: trustme.CA, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Federation]:
    rights = (*realms.RIGHTS, "view-events")
    reader, account = realms.client("reader", [*realms.RIGHTS, "view-realm"])
    realm = realms.realm(REALM, [], [], rights)
    realm["clients"].append(reader)
    realm["users"].append(account)
    keycloak.add_realm(realm | {"adminEventsEnabled": True})
    with running_slapd(tmp_path_factory.mktemp("slapd"), ca, ENTRIES) as slapd:
        yield Federation(keycloak, slapd)


@pytest.fixture
def given(
    federation: Federation, keycloak: Keycloak, ca: trustme.CA, tmp_path: Path
) -> dict[str, Any]:
    return realms.settings(tmp_path, keycloak, ca, REALM)


async def until(resolver: KeycloakResolver, name: str, is_reached: Callable[[Any], bool]) -> None:
    """Ask until an outcome is reached."""
    while not is_reached(await resolver.resolve(name)):
        pass


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("lifespan", {"cachePolicy": "MAX_LIFESPAN", "maxLifespan": "2000"}),
        ("none", {"cachePolicy": "NO_CACHE"}),
        ("synced", {"cachePolicy": "DEFAULT", "fullSyncPeriod": "2"}),
    ],
)
async def test_what_bounds_the_age_of_groups(
    resolver: Build, federation: Federation, name: str, settings: dict[str, str]
) -> None:
    federation.set(**settings)
    asked = await resolver()
    assert await asked.resolve(name) == DATA
    federation.take_out(name)
    await until(asked, name, lambda outcome: outcome == NONE)
    federation.set(fullSyncPeriod="-1")


async def test_without_a_bound_and_without_an_event(
    resolver: Build, federation: Federation
) -> None:
    """If Keycloak mends this one day, the pages say too much."""
    federation.set(cachePolicy="DEFAULT")
    asked = await resolver(changes="admin_events", changes_interval=0.2)
    assert await asked.resolve("default") == DATA
    sink = Sink()
    async with following(asked, sink):
        federation.take_out("default")
        for _ in range(20):
            await sink.until_reached()
        assert sink.reports == []
        assert await asked.resolve("default") == DATA
        federation.set(cachePolicy="NO_CACHE")
        await sink.until_all()
        assert await asked.resolve("default") == NONE


async def test_a_user_whom_the_directory_deletes(resolver: Build, federation: Federation) -> None:
    federation.set(cachePolicy="MAX_LIFESPAN", maxLifespan="2000")
    asked = await resolver()
    assert await asked.resolve("gone") == DATA
    federation.delete("gone")
    await until(asked, "gone", lambda outcome: isinstance(outcome, NoSuchUser))


@pytest.mark.parametrize(
    ("client", "settings", "note"),
    [
        ("reader", {"cachePolicy": "DEFAULT"}, "whose cache policy is DEFAULT"),
        ("reader", {"cachePolicy": "MAX_LIFESPAN", "maxLifespan": "60000"}, "for up to 60 s"),
        ("reader", {"cachePolicy": "NO_CACHE"}, "does not cache its users"),
        (realms.CLIENT, {}, "check that its cache policy is NO_CACHE or MAX_LIFESPAN"),
    ],
)
def test_source_check_says_so(
    federation: Federation,
    given: dict[str, Any],
    tmp_path: Path,
    client: str,
    settings: dict[str, str],
    note: str,
) -> None:
    federation.set(**settings)
    file = tmp_path / "queuegate.yaml"
    resolver = {"type": "keycloak", **given, "client_id": client}
    file.write_text(yaml.safe_dump({"resolvers": {"corp": resolver}}))
    done = CliRunner().invoke(source_check, ["--config", str(file), "corp", "noted"])
    assert done.exit_code == 0, done.output
    assert "groups (1): /data" in done.output
    assert f"note: the user comes from {'a' if not settings else 'the'} user" in done.output
    assert note in done.output
