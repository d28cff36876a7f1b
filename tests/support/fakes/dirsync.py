"""An Active Directory domain that reports its changes, for the fake LDAP server.

It follows MS-ADTS 3.1.1.3.4.1.3. No real domain controller was asked.
"""

from typing import Final

from pyasn1.codec.ber import decoder, encoder
from pyasn1.type import namedtype, univ

from tests.support.fakes.ldap_server import Answer, Attributes, Search

BASE: Final = "DC=corp,DC=test"
USERS: Final = f"CN=Users,{BASE}"
GROUPS: Final = f"OU=Groups,{BASE}"
DIRSYNC: Final = "1.2.840.113556.1.4.841"
INCREMENTAL_VALUES: Final = -0x80000000
PAGE: Final = 2
UNWILLING_TO_PERFORM: Final = 53
ADDED: Final = "member;range=1-1"
REMOVED: Final = "member;range=0-0"


class _Value(univ.Sequence):  # type: ignore[misc]
    componentType = namedtype.NamedTypes(  # noqa: N815 - pyasn1's name
        namedtype.NamedType("flags", univ.Integer()),
        namedtype.NamedType("bytes", univ.Integer()),
        namedtype.NamedType("cookie", univ.OctetString()),
    )


class ChangingDomain:
    """Users by name, and a log of changes. A cookie is an epoch and a position in the log."""

    def __init__(self, *users: str) -> None:
        self.users = [*users]
        self.log: list[tuple[str, Attributes]] = []
        self.root: Attributes = {
            "supportedControl": [DIRSYNC.encode()],
            "namingContexts": [b"DC=test", BASE.encode(), f"CN=Schema,{BASE}".encode()],
        }
        self.code = 0
        self.epoch = 0
        """Changes when the domain forgets its cookies."""
        self.polls = 0

    def change(self, entry: str, **values: list[bytes]) -> None:
        """Log a change. In the names of attributes, `added` and `removed` stand for ranges."""
        names = {"added": ADDED, "removed": REMOVED}
        self.log.append((entry, {names.get(name, name): each for name, each in values.items()}))

    def __call__(self, search: Search) -> Answer:
        if search.base == "" and search.scope == 0:
            return Answer([("", self.root)])
        if DIRSYNC in search.controls:
            return self._changes(search)
        wanted = [each for each in self.users if f"(CN={each})" in search.filter]
        return Answer([(user_dn(name), {"sAMAccountName": [name.encode()]}) for name in wanted])

    def _changes(self, search: Search) -> Answer:
        self.polls += 1
        # A search with DirSync begins at the root of a naming context.
        assert (search.base, search.scope) == (BASE, 2)
        request, rest = decoder.decode(search.controls[DIRSYNC], asn1Spec=_Value())
        assert (int(request["flags"]), rest) == (INCREMENTAL_VALUES, b"")
        assert int(request["bytes"]) > 0
        if self.code:
            return Answer(code=self.code, text="refused")
        epoch, start = map(int, (bytes(request["cookie"]) or b"%d 0" % self.epoch).split())
        if epoch != self.epoch:
            return Answer(code=UNWILLING_TO_PERFORM, text="the cookie is too old")
        kind = b"group" if "objectClass=group" in search.filter else b"user"
        found = []
        for entry, values in self.log[start : start + PAGE]:
            if values["kind"] == [kind]:
                sent = {name: each for name, each in values.items() if _base(name) in _all(search)}
                if sent:  # a change of other attributes is not shown
                    more = {"objectGUID": [b"\0" * 16], "instanceType": [b"4"]}
                    found.append((entry, sent | more))
        end = min(start + PAGE, len(self.log))
        value = _Value()
        value["flags"] = int(end < len(self.log))
        value["bytes"] = 0
        value["cookie"] = b"%d %d" % (self.epoch, end)
        return Answer(found, controls={DIRSYNC: bytes(encoder.encode(value))})


def _base(name: str) -> str:
    return name.partition(";")[0].lower()


def _all(search: Search) -> set[str]:
    return {each.lower() for each in search.attributes}


def user_dn(name: str) -> str:
    return f"CN={name},{USERS}"


def group_dn(name: str) -> str:
    return f"CN={name},{GROUPS}"
