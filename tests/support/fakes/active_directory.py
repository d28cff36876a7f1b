"""Entries of an Active Directory domain, and a domain with one user, for the fake LDAP server."""

import struct
from collections.abc import Sequence

from tests.support.fakes.ldap_server import Answer, Attributes, Search

BASE = "DC=corp,DC=test"
ALICE = f"CN=Alice,CN=Users,{BASE}"
DOMAIN_USERS = f"CN=Domain Users,CN=Users,{BASE}"
IN_CHAIN = "1.2.840.113556.1.4.1941"
FILTER = "(&(objectCategory=person)(objectClass=user)(sAMAccountName=alice))"
ROOT: Attributes = {"supportedCapabilities": [b"1.2.840.113556.1.4.800"]}
GIVEN = {
    "preset": "active_directory",
    "start_tls": False,
    "allow_plaintext_bind": True,
    "ca_file": None,
    "bind_dn": "queuegate@corp.test",
    "user_base": BASE,
    "group_base": BASE,
}
"""The settings of a resolver, without its server and password."""


class Domain:
    """A single user. `member_of` controls how much of memberOf a response contains."""

    def __init__(self, groups: int = 0, page: int = 1500) -> None:
        self.names = [f"g{number}" for number in range(groups)]
        self.page = page
        self.root = ROOT
        self.chain: Sequence[str] = ()
        self.stop_after = 10**9

    def __call__(self, search: Search) -> Answer:
        if search.base == "" and search.scope == 0:
            return Answer([("", self.root)])
        if search.filter == FILTER or (search.base == ALICE and search.scope == 0):
            return Answer(
                [(ALICE, self._alice(search.attributes))], referral=b"ldap://127.0.0.1:1/"
            )
        if "objectSid" in search.filter:
            assert _sid(513).hex() in search.filter
            return Answer([(DOMAIN_USERS, {"cn": [b"Domain Users"]})])
        if IN_CHAIN in search.filter:
            assert f"(member:{IN_CHAIN}:={ALICE})" in search.filter
            assert f"(member:{IN_CHAIN}:={DOMAIN_USERS})" in search.filter
            return Answer([(dn(name), {"cn": [name.encode()]}) for name in self.chain])
        return Answer()

    def _alice(self, attributes: Sequence[str]) -> Attributes:
        shown: Attributes = {
            "sAMAccountName": [b"Alice"],
            "primaryGroupID": [b"513"],
            "objectSid": [_sid(1104)],
        }
        if "userAccountControl" in attributes:
            shown |= {"userAccountControl": [b"512"], "accountExpires": [b"0"]}
        dns = [dn(name).encode() for name in self.names]
        for attribute in attributes:
            if attribute == "memberOf" and len(dns) <= self.page:
                shown["memberOf"] = dns
            elif attribute.startswith("memberOf"):
                start = int(attribute.partition("=")[2].partition("-")[0] or 0)
                part = dns[start : start + self.page] if start < self.stop_after else []
                is_last = start + len(part) >= len(dns)
                end = "*" if is_last else str(start + len(part) - 1)
                shown["memberOf"] = []
                if part:
                    shown[f"memberOf;range={start}-{end}"] = part
        return shown


def ad_user(number: int, *groups: str) -> tuple[str, Attributes]:
    """Return the DN and attributes of a user, who is in some groups and Domain Users."""
    return f"CN=User {number},CN=Users,{BASE}", {
        "objectCategory": [b"person"],
        "objectClass": [b"user"],
        "cn": [b"User %d" % number],
        "sAMAccountName": [b"u%d" % number],
        "primaryGroupID": [b"513"],
        "memberOf": [dn(name).encode() for name in groups],
        "objectSid": [_sid(2000 + number)],
    }


def ad_group(name: str, rid: int, *members: str) -> tuple[str, Attributes]:
    """Return the DN and attributes of a group. `rid` is the end of its SID."""
    return dn(name), {
        "objectClass": [b"group"],
        "cn": [name.encode()],
        "member": [member.encode() for member in members],
        "objectSid": [_sid(rid)],
    }


def dn(name: str) -> str:
    """Return the DN of a group."""
    return f"CN={name},OU=Groups,{BASE}"


def _sid(rid: int) -> bytes:
    return b"\x01\x05" + b"\0" * 5 + b"\x05" + struct.pack("<5I", 21, 1, 2, 3, rid)
