"""A real slapd that queuegate asks for the groups of YARN's users."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import trustme

from tests.support.servers import ldap_entries as entries
from tests.support.servers.slapd import GROUPS, PEOPLE, SERVICE, Slapd, running_slapd


class Directory:
    """Users of the group `dev`, some of whom are in `ops` as well."""

    def __init__(self, slapd: Slapd, folder: Path) -> None:
        self.slapd = slapd
        self._folder = folder

    def resolver(self, url: str = "") -> dict[str, Any]:
        """Return an entry for `resolvers` in the settings."""
        return {
            "type": "ldap",
            "urls": [url or self.slapd.tls_url],
            "ca_file": str(self._folder / "ca.pem"),
            "bind_dn": SERVICE,
            "bind_password_file": str(self.slapd.folder / "password"),
            "user_base": PEOPLE,
            "group_base": GROUPS,
            "lookup_timeout": "1s",
        }

    def add_person(self, user: str) -> None:
        """Add a user who is in no group."""
        self.slapd.add(entries.person(user))

    def change(self, user: str, *, is_member: bool) -> None:
        """Let a user join `ops`, or leave it."""
        change = "add" if is_member else "delete"
        self.slapd.modify(
            f"dn: {entries.group_dn('ops')}\nchangetype: modify\n{change}: member\n"
            f"member: {entries.dn(user)}\n"
        )


@contextmanager
def running_directory(
    folder: Path, members: Sequence[str], others: Sequence[str]
) -> Iterator[Directory]:
    """Run it with these members of `ops`, and others."""
    authority = trustme.CA()
    authority.cert_pem.write_to_path(str(folder / "ca.pem"))
    groups = {"ops": [*members], "dev": [*members, *others]}
    ldif = entries.base() + "".join(map(entries.person, groups["dev"]))
    ldif += "".join(entries.group(name, *map(entries.dn, users)) for name, users in groups.items())
    with running_slapd(folder / "slapd", authority, ldif) as slapd:
        yield Directory(slapd, folder)
