"""Answers that are not as RFC 4511 says: the directory could not be asked, and nobody is denied by
them.
"""

from collections.abc import Callable, Iterable

import pytest

from queuegate_server.identity.resolver import KnownUser, LookupFailure, NoSuchUser
from queuegate_server.identity.resolvers.ldap import bridge, ldap_connection
from tests.integration.ldap.conftest import Build
from tests.support.fakes.hostile_directory import (
    BIND_RESPONSE,
    DONE,
    ENTRY,
    EXTENDED_RESPONSE,
    REFERENCE,
    binding,
    element,
    entry,
    hostile_directory,
    message,
    page,
    result,
)
from tests.support.resolvers import lookup_failure
from tests.support.rows import rows
from tests.support.servers.slapd import GROUPS, PEOPLE

GIVEN = {
    "start_tls": False,
    "ca_file": None,
    "bind": "anonymous",
    "bind_dn": None,
    "bind_password_file": None,
    "groups_from": "member_of",
}
DN = f"uid=bob,{PEOPLE}".encode()
TEAM = f"cn=analytics,{GROUPS}".encode()
BOB = [(b"uid", [b"bob"]), (b"memberOf", [TEAM])]
NO_DN = element(4)


def bob(number: int, *attributes: tuple[bytes, list[bytes]]) -> bytes:
    return entry(number, DN, attributes or BOB)


Reply = Callable[[int, bytes], Iterable[bytes]]


def with_attribute(name: bytes, *beside: tuple[bytes, list[bytes]]) -> Reply:
    """Return a server that sends bob's group under a name."""
    return lambda n, _: [bob(n, BOB[0], *beside, (name, [TEAM])) + result(n)]


def with_dn(dn: bytes) -> Reply:
    return lambda n, _: [entry(n, dn, BOB) + result(n)]


def with_end(code: bytes, *more: bytes) -> Reply:
    """Return a server that finds nobody, with the bytes of a result code."""
    return lambda n, _: [message(n, DONE, element(10, code), NO_DN, NO_DN, *more)]


REFERRALS = element(0xA3, element(4, b"ldap://127.0.0.1:1/"))
NAMED: dict[str, tuple[Reply, str]] = {
    **{
        f"{name!r} in place of memberOf": (with_attribute(name), "with the option")
        for name in (
            b"memberOf;lang-en",
            b"memberOf;binary",
            b"MEMBEROF;X-Mine",
            b"memberOf;lang-en;range=0-0",
            b"memberOf;lang-en;range=0-*",
        )
    },
    "an option beside the attribute": (
        with_attribute(b"memberOf;lang-en", (b"memberOf", [DN])),
        "values of memberof with the option lang-en",
    ),
    "an option beside an empty attribute": (
        with_attribute(b"memberOf;lang-en", (b"memberOf", [])),
        "values of memberof with the option lang-en",
    ),
    "an option beside a range": (
        with_attribute(b"memberOf;lang-en", (b"memberOf;range=0-*", [DN])),
        "values of memberof with the option lang-en",
    ),
    "the user's name with an option": (
        lambda n, _: [bob(n, (b"uid;lang-en", [b"bob"]), BOB[1]) + result(n)],
        "values of uid with the option lang-en",
    ),
    **{
        f"the OID {name!r}": (with_attribute(name), "was asked for memberof, uid")
        for name in (b"1.2.840.113556.1.2.102", b"OID.1.2.840.113556.1.2.102", b"1.2.3;range=0-*")
    },
    "an alias": (
        lambda n, _: [bob(n, (b"userId", [b"bob"]), BOB[1]) + result(n)],
        "sent the attribute userid",
    ),
    **{
        f"the name {name!r}": (with_attribute(name), f"{shown} is not an attribute name")
        for name, shown in (
            (b"memberOf\0x", "'memberOf\\x00x'"),
            (b"memberOf\0", "'memberOf\\x00'"),
            (b"\0memberOf", "'\\x00memberOf'"),
            (b"memberOf;range=0-*\0", "'memberOf;range=0-*\\x00'"),
            (b"", "''"),
            (b"memberOf ", "'memberOf '"),
            (b" memberOf", "' memberOf'"),
            (b"memberOf;", "'memberOf;'"),
            (b"memberOf;;x", "'memberOf;;x'"),
            (b";range=0-*", "';range=0-*'"),
            (b"memberOf\n", "'memberOf\\n'"),
            (b"m\xc3\xa9mberOf", "'m\\xc3\\xa9mberOf'"),
        )
    },
    "an attribute twice": (
        with_attribute(b"MEMBEROF", (b"memberOf", [])),
        "the attribute 'MEMBEROF' twice",
    ),
    **{
        f"the DN {dn!r}": (with_dn(dn), "has a NUL")
        for dn in (DN + b"\0", DN + b"\0,dc=x", b"\0" + DN, b"uid=bob\0," + DN, b"\0")
    },
    "a code of three zero bytes": (with_end(b"\0\0\0"), r"encoded as '\x00\x00\x00'"),
    "a code of two zero bytes": (with_end(b"\0\0"), r"encoded as '\x00\x00'"),
    "a code with a zero byte before it": (with_end(b"\0\x20"), r"encoded as '\x00 '"),
    "success with a referral": (with_end(b"\0", REFERRALS), "a referral and the result code 0"),
    "success with no referrals": (
        with_end(b"\0", element(0xA3)),
        "a referral and the result code 0",
    ),
    "no such entry, with a referral": (
        with_end(b"\x20", REFERRALS),
        "a referral and the result code 32",
    ),
}
"""Answers, and what the messages say of them."""


MALFORMED: dict[str, Reply] = {
    "a bind response": lambda n, _: [result(n, BIND_RESPONSE)],
    "an extended response": lambda n, _: [result(n, EXTENDED_RESPONSE)],
    "the response to a modification": lambda n, _: [result(n, 0x67)],
    "the response to an addition": lambda n, _: [result(n, 0x69)],
    "the response to a comparison": lambda n, _: [result(n, 0x6F, 6)],
    "an intermediate response": lambda n, _: [message(n, 0x79) + result(n)],
    "a request": lambda n, _: [message(n, 0x63) + result(n)],
    "an end for another request": lambda n, _: [result(n + 1) + result(n)],
    "an entry for another request": lambda n, _: [bob(n + 7) + result(n)],
    "an entry for no request": lambda n, _: [bob(0) + result(n)],
    "an end for the bind": lambda n, _: [result(1, BIND_RESPONSE) + result(n)],
    "two ends": lambda n, _: [result(n) + result(n)],
    "an entry after the end": lambda n, _: [result(n) + bob(n) + result(n)],
    "an entry after the end, without another": lambda n, _: [result(n) + bob(n)],
    "a reference after the end": lambda n, _: [
        result(n) + message(n, REFERENCE, element(4, b"ldap://127.0.0.1:1/"))
    ],
    "an attribute twice": lambda n, _: [bob(n, *BOB, (b"MEMBEROF", [])) + result(n)],
    "no attributes": lambda n, _: [message(n, ENTRY, element(4, DN)) + result(n)],
    "an attribute without a set": lambda n, _: [
        message(
            n,
            ENTRY,
            element(4, DN),
            element(
                0x30,
                element(0x30, element(4, b"uid"), element(0x31, element(4, b"bob"))),
                element(0x30, element(4, b"memberOf")),
            ),
        )
        + result(n)
    ],
    "a value that is no text": lambda n, _: [
        message(
            n,
            ENTRY,
            element(4, DN),
            element(
                0x30,
                element(0x30, element(4, b"uid"), element(0x31, element(4, b"bob"))),
                element(0x30, element(4, b"memberOf"), element(0x31, element(2, b"\1"))),
            ),
        )
        + result(n)
    ],
    "attributes longer than their entry": lambda n, _: [
        message(n, ENTRY, element(4, DN), b"\x30\x7f") + result(n)
    ],
    "more behind the attributes": lambda n, _: [
        message(n, ENTRY, element(4, DN), element(0x30), element(4, TEAM)) + result(n)
    ],
    "an indefinite length": lambda n, _: [
        b"\x30\x80" + element(2, bytes([n])) + element(DONE, element(10, b"\0"), NO_DN, NO_DN)
    ],
    "an end without a code": lambda n, _: [message(n, DONE, NO_DN, NO_DN)],
    "an end without texts": lambda n, _: [message(n, DONE, element(10, b"\0"))],
    "an end with a code of no bytes": lambda n, _: [message(n, DONE, element(10), NO_DN, NO_DN)],
    "an end with more": lambda n, _: [
        message(n, DONE, element(10, b"\0"), NO_DN, NO_DN, element(4, b"x"))
    ],
    "controls that are none": lambda n, _: [result(n, controls=element(0xA0, b"\1\2\3"))],
    "a negative id": lambda n, _: [
        element(0x30, element(2, b"\xff"), element(DONE, element(10, b"\0"), NO_DN, NO_DN))
    ],
    "an empty message": lambda n, _: [b"\x30\x00" + result(n)],
    "a page that nobody asked for, and no end": lambda n, _: [result(n, controls=page(b"more"))],
    **{
        f"code {code}": lambda n, _, code=code: [result(n, code=code)]  # type: ignore[misc]
        for code in (1, 2, 3, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 16, 32, 34, 49, 65, 80, 118, 123)
    },
    "a negative code": lambda n, _: [
        message(n, DONE, element(10, b"\xff"), NO_DN, NO_DN),
    ],
}


@pytest.mark.parametrize("reply", MALFORMED.values(), ids=MALFORMED)
async def test_malformed_answer_is_no_denial(
    resolver: Build, reply: Reply, monkeypatch: pytest.MonkeyPatch
) -> None:
    # One step reads all of it: between two steps, an answer counts before what follows its end.
    for each in bridge, ldap_connection:
        monkeypatch.setattr(each, "STEP_SECONDS", 60)
    with hostile_directory(binding(reply)) as hostile:
        opened = await resolver(hostile.url, **GIVEN, operation_timeout=2)
        outcome = await opened.resolve("bob")
        assert isinstance(outcome, LookupFailure), outcome
        # The server recovers, and so does the resolver.
        hostile.reply = binding(lambda n, _: [bob(n) + result(n)])
        while isinstance(outcome, LookupFailure):
            outcome = await opened.resolve("bob")
        assert outcome == KnownUser(("analytics",))


@pytest.mark.parametrize(("reply", "reason"), NAMED.values(), ids=NAMED)
async def test_a_failure_names_what_is_malformed(
    resolver: Build, reply: Reply, reason: str
) -> None:
    with hostile_directory(binding(reply)) as hostile:
        opened = await resolver(hostile.url, **GIVEN, operation_timeout=60)
        is_data = "with the option" in reason
        assert reason in await lookup_failure(opened, "bob", source_works=is_data)


async def test_an_option_on_one_entry_leaves_the_server_in_use(resolver: Build) -> None:
    def reply(number: int, request: bytes) -> Iterable[bytes]:
        name = b"memberOf;lang-en" if b"eve" in request else b"memberOf"
        user = b"eve" if b"eve" in request else b"bob"
        yield bob(number, (b"uid", [user]), (name, [TEAM])) + result(number)

    with hostile_directory(binding(reply)) as hostile:
        opened = await resolver(hostile.url, **GIVEN)
        for _ in range(5):
            assert isinstance(await opened.resolve("eve"), LookupFailure)
            assert await opened.resolve("bob") == KnownUser(("analytics",))
        assert hostile.connections == 1


@pytest.mark.parametrize(
    "attributes",
    [
        [(b"UID", [b"bob"]), (b"MEMBEROF", [TEAM])],
        [(b"uid", [b"bob"]), (b"memberof", [TEAM]), (b"userCertificate;binary", [b"\0\1"])],
        [(b"uid", [b"bob"]), (b"memberOf", []), (b"MemberOf;Range=0-*", [TEAM])],
        [(b"uid", [b"bob"]), (b"uid;lang-en", [b"robert"]), (b"memberOf", [TEAM])],
        [(b"uid", [b"bob"]), (b"my_own-attribute", [b"\0"]), (b"memberOf", [TEAM])],
    ],
)
async def test_names_and_values_that_are_well_formed(
    resolver: Build, attributes: list[tuple[bytes, list[bytes]]]
) -> None:
    with hostile_directory(binding(lambda n, _: [bob(n, *attributes) + result(n)])) as hostile:
        opened = await resolver(hostile.url, **GIVEN)
        assert await opened.resolve("bob") == KnownUser(("analytics",))


@pytest.mark.parametrize("name", [b"description;lang-en", b"2.5.4.13"])
async def test_the_name_of_a_group_under_another_name(resolver: Build, name: bytes) -> None:
    def reply(number: int, request: bytes) -> Iterable[bytes]:
        if b"memberOf" in request:
            return [bob(number) + result(number)]
        return [entry(number, TEAM, [(name, [b"a"])]) + result(number)]

    with hostile_directory(binding(reply)) as hostile:
        opened = await resolver(hostile.url, **GIVEN, group_name_attribute="description")
        assert "description" in await lookup_failure(opened, "bob")


async def test_a_setting_with_an_oid_that_the_directory_translates(resolver: Build) -> None:
    reply = binding(lambda n, _: [bob(n) + result(n)])
    given = GIVEN | {"member_of_attribute": "1.2.840.113556.1.2.102"}
    with hostile_directory(reply) as hostile:
        failure = await lookup_failure(await resolver(hostile.url, **given), "bob")
        assert "sent the attribute memberof" in failure


def ranged(*parts: tuple[bytes, int]) -> Reply:
    """Return a server that sends memberOf in these ranges, each with so many values."""
    remaining = iter(parts)

    def reply(number: int, request: bytes) -> Iterable[bytes]:
        nonlocal remaining
        if b"memberOf;range=" not in request:
            remaining = iter(parts)
        shown: list[tuple[bytes, list[bytes]]] = [(b"uid", [b"bob"])]
        if part := next(remaining, None):
            name, count = part
            values = [f"cn=g{place}-{name!r},{GROUPS}".encode() for place in range(count)]
            shown.append((b"memberOf;range=" + name, values))
        yield bob(number, *shown) + result(number)

    return reply


@rows
async def test_ranges_are_whole_or_a_failure(
    resolver: Build, parts: list[tuple[bytes, int]], groups: int | None
) -> None:
    with hostile_directory(binding(ranged(*parts))) as hostile:
        outcome = await (await resolver(hostile.url, **GIVEN)).resolve("bob")
        if groups is None:
            assert isinstance(outcome, LookupFailure), outcome
        else:
            assert isinstance(outcome, KnownUser), outcome
            assert len(outcome.groups) == groups


@pytest.mark.parametrize(
    "shown",
    [
        [(b"memberOf", [TEAM]), (b"memberOf;range=0-*", [TEAM])],
        [(b"memberOf;range=0-0", [TEAM]), (b"memberOf;range=1-*", [TEAM])],
        [(b"memberOf;range=0-*", [TEAM]), (b"memberOf;RANGE=0-*", [TEAM])],
    ],
)
async def test_ranges_beside_other_values(
    resolver: Build, shown: list[tuple[bytes, list[bytes]]]
) -> None:
    attributes = [(b"uid", [b"bob"]), *shown]
    with hostile_directory(binding(lambda n, _: [bob(n, *attributes) + result(n)])) as hostile:
        outcome = await (await resolver(hostile.url, **GIVEN)).resolve("bob")
        assert isinstance(outcome, LookupFailure), outcome


async def test_a_read_has_one_entry(resolver: Build) -> None:
    def reply(number: int, request: bytes) -> Iterable[bytes]:
        if b"memberOf" in request:
            return [bob(number) + result(number)]
        group = entry(number, TEAM, [(b"description", [b"a"])])
        return [group + group + result(number)]

    with hostile_directory(binding(reply)) as hostile:
        opened = await resolver(hostile.url, **GIVEN, group_name_attribute="description")
        assert "several entries" in await lookup_failure(opened, "bob")


@pytest.mark.parametrize(
    "reply",
    [
        lambda n: result(n, DONE),
        lambda n: result(n, EXTENDED_RESPONSE),
        lambda n: result(n + 1, BIND_RESPONSE),
        lambda n: bob(n) + result(n, BIND_RESPONSE),
        lambda n: result(n, BIND_RESPONSE, 14),
    ],
    ids=["end of a search", "extended", "another id", "entry", "bind in progress"],
)
async def test_only_a_bind_response_binds(resolver: Build, reply: Callable[[int], bytes]) -> None:
    def answer(number: int, operation: int, _: bytes) -> Iterable[bytes]:
        return [reply(number) if operation == 0x60 else result(number)]

    with hostile_directory(answer) as hostile:
        opened = await resolver(hostile.url, **GIVEN, connect_timeout=2, retry_after=60)
        outcome = await opened.resolve("bob")
        assert isinstance(outcome, LookupFailure)
        assert hostile.searches == 0


@pytest.mark.parametrize(
    "reply",
    [
        result(1, BIND_RESPONSE),
        result(1, DONE),
        result(2, EXTENDED_RESPONSE),
        result(1, EXTENDED_RESPONSE) + result(1, EXTENDED_RESPONSE),
        result(1, EXTENDED_RESPONSE) + b"\x30",
    ],
)
async def test_only_an_extended_response_starts_tls(resolver: Build, reply: bytes) -> None:
    later: list[bytes] = []

    def answer(number: int, operation: int, request: bytes) -> Iterable[bytes]:
        if operation != 0x77:
            later.append(request)
        return [reply]

    with hostile_directory(answer) as hostile:
        opened = await resolver(
            hostile.url, **(GIVEN | {"start_tls": True}), connect_timeout=60, retry_after=60
        )
        failure = await lookup_failure(opened, "bob")
        assert "took longer" not in failure
        assert later == []


async def test_an_answer_in_single_bytes_is_one(resolver: Build) -> None:
    def reply(number: int, _: bytes) -> Iterable[bytes]:
        whole = bob(number) + result(number)
        return (whole[place : place + 1] for place in range(len(whole)))

    with hostile_directory(binding(reply)) as hostile:
        opened = await resolver(hostile.url, **GIVEN)
        assert await opened.resolve("bob") == KnownUser(("analytics",))
        hostile.reply = binding(lambda n, _: [result(n)])
        assert isinstance(await opened.resolve("bob"), NoSuchUser)
        assert hostile.connections == 1
