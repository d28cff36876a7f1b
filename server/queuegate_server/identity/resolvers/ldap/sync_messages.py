"""Encodes and decodes the controls and messages of LDAP content synchronization (RFC 4533)."""

import re
from collections.abc import Iterator, Sequence
from enum import IntEnum
from typing import Final, NamedTuple

from ldap.controls import RequestControl, ResponseControl

from queuegate_server.identity.resolvers.ldap.ber import (
    BOOLEAN,
    ENUMERATED,
    OCTETS,
    SEQUENCE,
    BerReader,
    element,
)

SYNC_REQUEST: Final = "1.3.6.1.4.1.4203.1.9.1.1"
_SYNC_STATE: Final = "1.3.6.1.4.1.4203.1.9.1.2"
_SYNC_DONE: Final = "1.3.6.1.4.1.4203.1.9.1.3"
SYNC_INFO: Final = "1.3.6.1.4.1.4203.1.9.1.4"
_NEW_COOKIE: Final = 0x80
_REFRESH_DELETE: Final = 0xA1
_REFRESH_PRESENT: Final = 0xA2
_ID_SET: Final = 0xA3
_SET: Final = 0x31
_UUID_BYTES: Final = 16
_CHANGE_NUMBER: Final = re.compile(rb"[^#=,]*:[^#=,]*#.*#[0-9]*", re.DOTALL)


class SyncMode(IntEnum):
    """The mode of a synchronization (section 2.2)."""

    REFRESH_ONLY = 1
    REFRESH_AND_PERSIST = 3


class EntryState(IntEnum):
    """What has happened to an entry (section 2.3)."""

    PRESENT = 0
    ADD = 1
    MODIFY = 2
    DELETE = 3


def sync_request(mode: SyncMode, cookie: bytes = b"") -> RequestControl:
    """Return a Sync Request Control (section 2.2). `cookie` is empty for all entries."""
    content = element(ENUMERATED, bytes((mode,)))
    if cookie:
        content += element(OCTETS, cookie)
    return RequestControl(SYNC_REQUEST, True, element(SEQUENCE, content))


class SyncState(NamedTuple):
    """The state of an entry (section 2.3)."""

    state: EntryState
    uuid: bytes
    cookie: bytes
    """The newest position; empty if it was not sent."""


def decode_state(controls: Sequence[ResponseControl]) -> SyncState:
    """Decode the Sync State Control of an entry. Raises ValueError if it is invalid or missing."""
    content = BerReader(_value(controls, _SYNC_STATE)).open(SEQUENCE)
    state = EntryState(int.from_bytes(content.take(ENUMERATED)))
    return SyncState(state, _uuid(content), content.take_if(OCTETS))


def lists_deletions(controls: Sequence[ResponseControl]) -> bool:
    """Return whether a refresh listed all deletions, according to its result's controls.

    Otherwise, entries that it did not list have been deleted (section 2.4). Raises ValueError.
    """
    content = BerReader(_value(controls, _SYNC_DONE)).open(SEQUENCE)
    content.take_if(OCTETS)
    return any(content.take_if(BOOLEAN))


def _value(controls: Sequence[ResponseControl], kind: str) -> bytes:
    for control in controls:
        if control.controlType == kind:
            return bytes(control.encodedControlValue or b"")
    raise ValueError("the synchronization control is missing")


def is_change_number(cookie: bytes) -> bool:
    """Return whether a cookie is a number in the changelog of 389 Directory Server.

    Such a cookie contains the server's address, the search and the number. It does not show whether
    anything has changed: the changelog need not contain all changes (FreeIPA's contains only
    changes to DNS; see its `install/updates/20-syncrepl.update`), and the server does not notice
    that it has removed the changes after the number (`sync_cookie_isvalid` in its `sync_util.c`).
    """
    return bool(_CHANGE_NUMBER.fullmatch(cookie))


class SyncInfo(NamedTuple):
    """A Sync Info Message (section 2.5)."""

    cookie: bytes
    ends_refresh: bool = False
    """Whether the message ends the refresh, so that changes follow."""
    deleted: tuple[bytes, ...] = ()
    """The entryUUIDs of deleted entries."""


def decode_info(value: bytes) -> SyncInfo:
    """Decode the value of a Sync Info Message. Raises ValueError."""
    reader = BerReader(value)
    if reader.tag == _NEW_COOKIE:
        return SyncInfo(reader.take(_NEW_COOKIE))
    tag = reader.tag
    if tag not in (_REFRESH_DELETE, _REFRESH_PRESENT, _ID_SET):
        raise ValueError("a Sync Info Message is of an unknown kind")
    content = reader.open(tag)
    cookie = content.take_if(OCTETS)
    flag = content.take_if(BOOLEAN)
    if tag == _ID_SET:
        uuids = tuple(_uuids(content.open(_SET)))
        # Without the flag, the entries are present.
        return SyncInfo(cookie, deleted=uuids if any(flag) else ())
    return SyncInfo(cookie, ends_refresh=not flag or any(flag))


def _uuids(content: BerReader) -> Iterator[bytes]:
    while content.tag is not None:
        yield _uuid(content)


def _uuid(content: BerReader) -> bytes:
    uuid = content.take(OCTETS)
    if len(uuid) != _UUID_BYTES:
        raise ValueError("an entryUUID does not have 16 bytes")
    return uuid


RESPONSE_CONTROLS: Final = (_SYNC_STATE, _SYNC_DONE)
"""The types of the response controls to keep."""
