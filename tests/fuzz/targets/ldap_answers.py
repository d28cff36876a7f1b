"""Answers of a directory: groups or a defined failure, and no group that the answers do not name.

The first byte of an input selects the options. Then come the answers to the searches of one
lookup in their order, either as the driver returns them or, if the first byte is 128 or more,
as bytes on the connection, which ends after them.
"""

import asyncio
import random
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from typing import Any, Final

import ldap
from ldap.controls import SimplePagedResultsControl
from pyasn1_modules import rfc2251

from queuegate_server.identity.resolver import KnownUser, NoSuchUser
from queuegate_server.identity.resolvers.ldap.bridge import Bridge
from queuegate_server.identity.resolvers.ldap.discovery import ServerUrl
from queuegate_server.identity.resolvers.ldap.ldap_connection import LdapConnection
from queuegate_server.identity.resolvers.ldap.ldap_faults import (
    LdapFault,
    NoSuchEntry,
    ServerFault,
    TooManyEntries,
    to_fault,
)
from queuegate_server.identity.resolvers.ldap.ldap_messages import MessageHead, MessageReader
from queuegate_server.identity.resolvers.ldap.ldap_options import LdapOptions
from queuegate_server.identity.resolvers.ldap.ldap_statistics import LdapStatistics
from queuegate_server.identity.resolvers.ldap.pending import SearchResult
from queuegate_server.identity.resolvers.ldap.user_lookup import UserLookup
from tests.fuzz.targets.event_loop import run
from tests.support.fakes import ldap_server
from tests.support.oracles.requests import is_control

USER: Final = "alice"
_RAW: Final = 128
_ANSWER, _ENTRY, _ATTRIBUTE, _VALUE = b"\x1c", b"\x1d", b"\x1e", b"\x1f"
"""The separators of parts of answers in the first form. No value contains these characters."""
_REFERRAL: Final = b"\x00"
_FAULT: Final = b"!"
_PAGE: Final = b"+"
_ERRORS: Final = (
    ldap.SIZELIMIT_EXCEEDED, ldap.NO_SUCH_OBJECT, ldap.REFERRAL, ldap.SERVER_DOWN, ldap.BUSY,
    ldap.INVALID_CREDENTIALS, ldap.INSUFFICIENT_ACCESS, ldap.TIMEOUT, ldap.PARTIAL_RESULTS,
)  # fmt: skip
_DN_SPACE: Final = " \t\n\r"
"""The characters that libldap skips around the values in a DN."""
_ALICE: Final = b"uid=alice,ou=people,dc=x"
TOKENS: Final = (
    *(_ANSWER, _ENTRY, _ATTRIBUTE, _VALUE, b"\x1euid\x1falice", _ALICE, b",ou=groups,dc=x"),
    *(b"\x1ecn\x1f", b"\x1ememberOf\x1f", b"\x1ememberOf;range=0-1\x1f", b"\x1ememberOf;range=2-*"),
    *(b"\x1egidNumber\x1f100", b"\x1eprimaryGroupID\x1f513", b"\x1eobjectSid\x1f", b"\\00", b"\\,"),
    *(b"\x1dcn=a,ou=groups,dc=x", b"cn=#0401", b"+cn=b", b"\xff", b"\xc3", b"9" * 30, b"\xd9\xa1"),
    *(b"\x1esupportedCapabilities\x1f1.2.840.113556.1.4.800", b"*", b"-", b"\x00", b'"', b";"),
)


def _options(**changes: Any) -> LdapOptions:
    return LdapOptions.model_validate(
        {
            "urls": ["ldaps://directory.example"],
            "bind": "anonymous",
            "user_base": "ou=people,dc=x",
            "user_filter": "(uid={user})",
            "group_base": "ou=groups,dc=x",
            "max_groups": 20,
            "page_size": 5,
            **changes,
        }
    )


_OPTIONS: Final = (
    _options(groups_from="member_of", nested="walk"),
    _options(groups_from="member_of", group_name_from="rdn", primary_group="user_name"),
    _options(groups_from="member_dn", nested="walk", name_case="lower", user_match="casefold"),
    _options(groups_from="member_dn", primary_group="gid_number"),
    _options(groups_from="member_uid", member_attribute="memberUid", primary_group="gid_number"),
    _options(groups_from="member_of", primary_group="active_directory", nested="walk"),
    _options(groups_from="member_of", primary_group="active_directory", nested="in_chain"),
    _options(groups_from="member_of", nested="walk", more_groups=[{"preset": "posix"}, {}]),
)
_LOOKUPS: Final = [UserLookup(options, LdapStatistics()) for options in _OPTIONS]


def target(data: bytes) -> None:
    """Look up one user."""
    if not data:
        return
    number = data[0] % _RAW % len(_OPTIONS)
    if data[0] >= _RAW:
        outcome = run(_look_up_on_bytes(number, data[1:]))
    else:
        connection = _ScriptedConnection(_OPTIONS[number], data[1:].split(_ANSWER))
        outcome = run(_look_up(number, connection))
        if isinstance(outcome, KnownUser):
            _judge(outcome.groups, connection)
    assert isinstance(outcome, KnownUser | NoSuchUser | LdapFault)
    if isinstance(outcome, KnownUser):
        limit = _OPTIONS[number].max_groups + 1
        assert len(set(outcome.groups)) == len(outcome.groups) <= limit
        for group in outcome.groups:
            assert group.encode()
            assert not any(map(is_control, group)), f"{group!r} is not a valid name"


def _judge(groups: Sequence[str], connection: "_ScriptedConnection") -> None:
    """The user was there, nothing that failed was passed over, and each group was named."""
    dns, values = _texts(connection.asked)
    assert any(value.casefold() == USER for value in values), "the user was not there"
    assert all(isinstance(fault, NoSuchEntry | TooManyEntries) for fault in connection.faults)
    user, options = connection.asked[0].lower(), connection.options
    has_range = b"\x1ememberof;range=" in user and _ENTRY not in user
    if has_range and options.groups_from == "member_of" and options.nested != "in_chain":
        assert any(b"-*" in answer for answer in connection.asked), "a range was not read"
    names = {USER, *values, *_first_values(dns | values)}
    if options.name_case == "lower":
        names = {name.lower() for name in names}
    for group in groups:
        assert group in names, f"{group!r} is not one of {names}"


def seeds() -> Iterable[bytes]:
    """A user with groups of each kind, as answers and as bytes."""
    entry: dict[bytes, list[bytes]] = {
        b"uid": [b"alice"],
        b"memberOf": [b"cn=a,ou=groups,dc=x", b"cn=b\\2cc,ou=groups,dc=x", b"ou=d,ou=groups,dc=x"],
        b"gidNumber": [b"100"],
        b"primaryGroupID": [b"513"],
        b"objectSid": [bytes.fromhex("010500000000000515000000010203040506070801020304f4010000")],
    }
    group = {b"cn": [b"a", b"first"], b"gidNumber": [b"100"]}
    capabilities = {b"supportedCapabilities": [b"1.2.840.113556.1.4.800"]}
    answers: list[list[tuple[bytes, dict[bytes, list[bytes]]]]] = [
        [(_ALICE, entry)],
        [(b"ou=d,ou=groups,dc=x", group)],
        [(b"cn=z,ou=groups,dc=x", {b"cn": [b"z"]}), (b"cn=y,dc=elsewhere", {b"cn": [b"y"]})],
        [],
    ]
    ranged = {**entry, b"memberOf": [], b"memberOf;range=0-0": [b"cn=a,ou=groups,dc=x"]}
    rest = {b"memberOf;range=1-*": [b"cn=b,ou=groups,dc=x"]}
    in_ranges = [[(_ALICE, ranged)], [(_ALICE, rest)], []]
    for number in range(len(_OPTIONS)):
        several = [answers, in_ranges, [[(_ALICE, entry)], answers[1], [(b"", capabilities)]]]
        for each in several:
            yield bytes([number]) + _ANSWER.join(_written(answer) for answer in each)
            yield bytes([number + _RAW]) + b"".join(
                _encoded(place, answer) for place, answer in enumerate(each, start=1)
            )
    yield b"\0" + _ANSWER.join([_FAULT + b"\0", _PAGE + b"x" + _ENTRY + _written(answers[0])])


@cache
def _known_answers() -> Sequence[bytes]:
    return [answer for seed in seeds() if seed[0] < _RAW for answer in seed[1:].split(_ANSWER)]


def mutated(data: bytes, rng: random.Random) -> bytes | None:
    """Return the input with one answer added, removed or replaced by that of a seed or a fault;
    None if it is bytes on a connection.
    """
    if not data or data[0] >= _RAW:
        return None
    answers = data[1:].split(_ANSWER)
    fault = _FAULT + bytes([rng.randrange(len(_ERRORS))])
    new = rng.choice([[], [rng.choice(_known_answers())], [fault]])
    place = rng.randrange(len(answers) + 1)
    answers[place : place + rng.randrange(2)] = new
    return data[:1] + _ANSWER.join(answers)


def _written(answer: Sequence[tuple[bytes, dict[bytes, list[bytes]]]]) -> bytes:
    return _ENTRY.join(
        _ATTRIBUTE.join([dn, *(_VALUE.join([name, *of]) for name, of in values.items())])
        for dn, values in answer
    )


def _encoded(number: int, answer: Sequence[tuple[bytes, dict[bytes, list[bytes]]]]) -> bytes:
    """Return the messages of one search."""
    entries = [
        ldap_server._entry(number, dn.decode(), {name.decode(): of for name, of in values.items()})
        for dn, values in answer
    ]
    done = ldap_server._result(rfc2251.SearchResultDone(), 0, "")
    return b"".join([*entries, ldap_server._message(number, "searchResDone", done)])


async def _look_up(number: int, connection: Any) -> object:
    try:
        return await _LOOKUPS[number].look_up(USER, connection)
    except LdapFault as fault:
        return fault


async def _look_up_on_bytes(number: int, data: bytes) -> object:
    bridge = Bridge(ServerUrl("ldaps", "directory.example", 636))
    bridge.encrypted = True
    server: Any = _ServerOfBytes(bridge, data)
    bridge.connection_made(server)
    connection = LdapConnection(
        bridge, await bridge.hand_over(), _OPTIONS[number], lambda _step: None
    )
    try:
        return await _look_up(number, connection)
    finally:
        connection.close()


class _ServerOfBytes:
    """The transport to a server that answers each request with what is left of some bytes, up to
    a message with a higher number than that of the request, and then closes the connection.
    """

    def __init__(self, bridge: Bridge, data: bytes) -> None:
        self._bridge = bridge
        self._data = data
        self._requests = 0

    def write(self, _request: bytes) -> None:
        self._requests += 1
        at = 0
        while at < len(self._data):
            head = _read_head(self._data[at:])
            if head is None:
                at = len(self._data)
            elif head.id > self._requests:
                break
            else:
                at += head.size
        now, self._data = self._data[:at], self._data[at:]
        self._bridge.data_received(now)
        if not self._data:
            self._bridge.connection_lost(None)

    def pause_reading(self) -> None:
        pass

    def resume_reading(self) -> None:
        pass

    def is_closing(self) -> bool:
        return False

    def close(self) -> None:
        pass

    def abort(self) -> None:
        pass


def _read_head(data: bytes) -> MessageHead | None:
    """Return the head of the first message; None if that is none."""
    reader = MessageReader(lambda _head: False)
    reader.add(data)
    try:
        return next((head for head, _ in reader.messages()), None)
    except ServerFault:
        return None


class _ScriptedConnection:
    """Returns one answer after the other, and nothing after the last."""

    server = "ldaps://directory.example"
    is_active_directory: bool | None = None

    def __init__(self, options: LdapOptions, answers: list[bytes]) -> None:
        self.options = options
        self.observe: Callable[..., None] = lambda _step: None
        self.long_work = asyncio.Lock()
        # The schema takes no answer: no lookup depends on it unless it finds nothing.
        self.schema_lock = asyncio.Lock()
        self.known_attributes: frozenset[str] = frozenset()
        self.users = 0
        self.quiet = asyncio.Event()
        self._answers = iter(answers)
        self.asked: list[bytes] = []
        """The answers that were taken."""
        self.faults: list[LdapFault] = []

    async def search(self, *_asked: object, **_options: object) -> SearchResult:
        answer = next(self._answers, b"")
        self.asked.append(answer)
        if answer.startswith(_FAULT):
            error = _ERRORS[answer[1] % len(_ERRORS)] if answer[1:] else ldap.OTHER
            text = answer[2:].decode("latin-1")
            self.faults.append(to_fault(error({"desc": "failed", "info": text, "result": 1})))
            raise self.faults[-1]
        controls = []
        if answer.startswith(_PAGE):
            cookie, _, answer = answer[1:].partition(_ENTRY)
            controls = [SimplePagedResultsControl(criticality=True, size=5, cookie=cookie)]
        try:
            entries = [
                _entry(text)
                for text in answer.split(_ENTRY)
                # The connection leaves out references to other servers.
                if text and text.partition(_ATTRIBUTE)[0] != _REFERRAL
            ]
        except UnicodeDecodeError:
            # The driver cannot return them, and then the connection ends.
            raise ServerFault("the server sent an unreadable response") from None
        return SearchResult(entries, controls)


def _entry(text: bytes) -> tuple[str, Any]:
    dn, *attributes = text.split(_ATTRIBUTE)
    found: dict[str, list[bytes]] = {}
    for attribute in attributes:
        name, *values = attribute.split(_VALUE)
        found[name.decode()] = values
    return dn.decode(), found


def _texts(answers: Iterable[bytes]) -> tuple[set[str], set[str]]:
    """Return the DNs and the values in answers."""
    dns, values = set(), set()
    for answer in answers:
        for entry in answer.split(_ENTRY):
            dn, *attributes = entry.split(_ATTRIBUTE)
            dns.add(dn.decode(errors="replace"))
            for attribute in attributes:
                values |= {each.decode(errors="replace") for each in attribute.split(_VALUE)[1:]}
    return dns, values


def _first_values(dns: Iterable[str]) -> Iterator[str]:
    """Yield texts that the driver may read as a value in a DN."""
    for dn in dns:
        for part in re.split(r"(?<!\\)[+,;]", dn):
            value = part.partition("=")[2].strip(_DN_SPACE)
            yield from map(_unescaped, (value, f"{value} ", value.strip('"')))


def _unescaped(value: str) -> str:
    whole = re.sub(
        rb"\\([0-9A-Fa-f]{2})|\\(.)|#(?=(?:[0-9A-Fa-f]{2})+$)",
        lambda match: bytes.fromhex(match[1].decode()) if match[1] else match[2] or b"#",
        value.encode(),
        flags=re.DOTALL,
    )
    return whole.decode(errors="replace")
