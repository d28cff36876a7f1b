"""A large directory, generated, loaded with slapadd, and served by a private slapd."""

import random
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple

import ldap
import trustme

from tests.support.servers import ldap_entries as entries
from tests.support.servers.slapd import (
    ADMIN,
    ADMIN_PASSWORD,
    GROUPS,
    PEOPLE,
    SERVICE,
    Slapd,
    running_slapd,
)

DEPTH: Final = 5
_GROUPS_OF_A_USER: Final = 10
_MONITOR: Final = f"""\
database monitor
access to * by dn.exact={ADMIN} read by * none
"""
_SYNCPROV: Final = f"""\
overlay syncprov
limits dn.exact="{SERVICE}" size=unlimited
"""
_SEARCHES: Final = "cn=Search,cn=Operations,cn=Monitor"


class Size(NamedTuple):
    """The size of a directory."""

    users: int
    groups: int


class BigDirectory(NamedTuple):
    """A running directory."""

    slapd: Slapd
    size: Size
    load_seconds: float
    ca_file: Path
    password_file: Path
    is_followed: bool = False
    """Whether the resolver follows the directory's changes."""

    def resolver(self) -> str:
        """Return the settings of a resolver for it, as a line of YAML."""
        changes = "syncrepl" if self.is_followed else "none"
        return (
            f'{{type: ldap, urls: ["{self.slapd.url}"], ca_file: {self.ca_file}, '
            f"bind_dn: '{SERVICE}', bind_password_file: {self.password_file}, "
            f"user_base: '{PEOPLE}', group_base: '{GROUPS}', groups_from: member_of, "
            f"changes: {changes}}}"
        )

    def searches(self) -> int:
        """Return the number of searches that slapd has begun since startup, including this one."""
        connection = self.administrator()
        entries = connection.search_s(_SEARCHES, ldap.SCOPE_BASE, attrlist=["monitorOpInitiated"])
        connection.unbind_s()
        return int(entries[0][1]["monitorOpInitiated"][0])

    def administrator(self) -> Any:
        """Return a connection with write access to everything."""
        connection = ldap.initialize(self.slapd.url)
        connection.simple_bind_s(ADMIN, ADMIN_PASSWORD)
        return connection


def user(number: int) -> str:
    """Return the name of a user."""
    return f"u{number}"


def groups_of(number: int, size: Size) -> list[int]:
    """Return the direct groups of a user, always the same ones."""
    chooser = random.Random(number)
    return sorted(chooser.sample(range(size.groups), min(_GROUPS_OF_A_USER, size.groups)))


def group(number: int) -> str:
    """Return the name of a group."""
    return f"g{number}"


def parent(number: int) -> int | None:
    """Return the group that contains a group, in chains of five."""
    return number + 1 if number % DEPTH < DEPTH - 1 else None


class Member:
    """A user who may be in the first group."""

    def __init__(self, directory: BigDirectory, number: int) -> None:
        self.name = user(number)
        self.is_in = 0 in groups_of(number, directory.size)
        self._dn = f"uid={self.name},{PEOPLE}".encode()
        self._connection = directory.administrator()

    def move(self) -> None:
        """Move the user into or out of the group."""
        self.is_in = not self.is_in
        change = ldap.MOD_ADD if self.is_in else ldap.MOD_DELETE
        dn = f"cn={group(0)},{GROUPS}"
        self._connection.modify_s(dn, [(change, "member", [self._dn])])

    def close(self) -> None:
        """Close the connection that makes the changes."""
        self._connection.unbind_s()


@contextmanager
def big_directory(folder: Path, size: Size, *, is_followed: bool = False) -> Iterator[BigDirectory]:
    """Generate, load and serve a directory, and stop it at the end.

    With `is_followed`, it reports changes, and its resolver follows them.
    """
    ca = trustme.CA()
    text = "".join(_ldif(size))
    start = time.perf_counter()
    with running_slapd(
        folder / "slapd",
        ca,
        "",
        load=text,
        more_globals="moduleload syncprov" if is_followed else "",
        more_database=_SYNCPROV + _MONITOR if is_followed else _MONITOR,
    ) as slapd:
        seconds = time.perf_counter() - start
        password_file = slapd.folder / "password"
        ca_file = slapd.folder / "ca.pem"
        yield BigDirectory(slapd, size, seconds, ca_file, password_file, is_followed)


def _ldif(size: Size) -> Iterator[str]:
    yield entries.base()
    members: list[list[int]] = [[] for _ in range(size.groups)]
    for number in range(size.users):
        for one in groups_of(number, size):
            members[one].append(number)
        # slapadd does not compute memberOf, and accepts the given values.
        memberships = "".join(
            f"memberOf: cn={group(one)},{GROUPS}\n" for one in groups_of(number, size)
        )
        yield f"{entries.person(user(number)).rstrip()}\n{memberships}\n"
    for number, users in enumerate(members):
        lines = [f"uid={user(one)},{PEOPLE}" for one in users]
        if number and (above := parent(number - 1)) is not None and above == number:
            lines.append(f"cn={group(number - 1)},{GROUPS}")
        if lines:
            yield entries.group(group(number), *lines)
        yield entries.posix_group(f"p{number}", 2000 + number, *map(user, users))
