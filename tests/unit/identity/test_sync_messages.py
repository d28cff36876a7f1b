"""Messages of content synchronization (RFC 4533), and the BER elements in them."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st
from ldap.controls import ResponseControl

from queuegate_server.identity.resolvers.ldap import ldap_messages
from queuegate_server.identity.resolvers.ldap.ber import OCTETS, BerReader, element
from queuegate_server.identity.resolvers.ldap.ldap_messages import MalformedMessage, check_message
from queuegate_server.identity.resolvers.ldap.sync_messages import (
    EntryState,
    SyncInfo,
    SyncMode,
    SyncState,
    decode_info,
    decode_state,
    is_change_number,
    lists_deletions,
    sync_request,
)
from tests.support.long_work import finish
from tests.support.rows import rows

UUID = bytes(range(16))
OTHER_UUID = bytes(range(1, 17))
STATE = "1.3.6.1.4.1.4203.1.9.1.2"
DONE = "1.3.6.1.4.1.4203.1.9.1.3"


def control(kind: str, value: str) -> list[ResponseControl]:
    found = ResponseControl(kind)
    found.decodeControlValue(bytes.fromhex(value))
    return [ResponseControl("1.2.3"), found]


@pytest.mark.parametrize(
    ("mode", "cookie", "value"),
    [
        (SyncMode.REFRESH_AND_PERSIST, b"", "30030a0103"),
        (SyncMode.REFRESH_ONLY, b"ab", "30070a010104026162"),
    ],
)
def test_requests(mode: SyncMode, cookie: bytes, value: str) -> None:
    request = sync_request(mode, cookie)
    assert (request.controlType, request.criticality) == ("1.3.6.1.4.1.4203.1.9.1.1", True)
    assert request.encodeControlValue().hex() == value


def test_states_of_entries() -> None:
    assert decode_state(control(STATE, f"30150a01020410{UUID.hex()}")) == SyncState(
        EntryState.MODIFY, UUID, b""
    )
    assert decode_state(control(STATE, f"30180a01030410{UUID.hex()}040163")) == SyncState(
        EntryState.DELETE, UUID, b"c"
    )


@pytest.mark.parametrize(
    "value", ["", "3003", "30150a01090410" + UUID.hex(), "30060a0102040161", "30150a0102"]
)
def test_states_that_are_invalid(value: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        decode_state(control(STATE, value))
    with pytest.raises(ValueError, match="missing"):
        decode_state([])


@pytest.mark.parametrize(
    ("value", "lists"),
    [("3000", False), ("3003040163", False), ("3003010100", False), ("30060401630101ff", True)],
)
def test_ends_of_a_refresh(value: str, *, lists: bool) -> None:
    assert lists_deletions(control(DONE, value)) is lists


@pytest.mark.parametrize(
    ("value", "info"),
    [
        ("800163", SyncInfo(b"c")),
        ("a100", SyncInfo(b"", ends_refresh=True)),
        ("a203040163", SyncInfo(b"c", ends_refresh=True)),
        ("a106040163010100", SyncInfo(b"c", ends_refresh=False)),
        # Entries that are present, and entries that have been deleted.
        (f"a3143112{'0410' + UUID.hex()}", SyncInfo(b"")),
        (f"a3170101003112{'0410' + UUID.hex()}", SyncInfo(b"")),
        (f"a3170101ff3112{'0410' + UUID.hex()}", SyncInfo(b"", deleted=(UUID,))),
        (
            f"a32c0401630101ff3124{'0410' + UUID.hex()}{'0410' + OTHER_UUID.hex()}",
            SyncInfo(b"c", deleted=(UUID, OTHER_UUID)),
        ),
    ],
)
def test_infos(value: str, info: SyncInfo) -> None:
    assert decode_info(bytes.fromhex(value)) == info


@pytest.mark.parametrize("value", ["", "a300", "a3053103040161", "a403040163"])
def test_infos_that_are_invalid(value: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        decode_info(bytes.fromhex(value))


@rows
def test_cookies_that_contain_a_change_number(cookie: bytes, expected: bool) -> None:
    assert is_change_number(cookie) is expected


@given(st.binary(max_size=64))
def test_any_other_info_is_a_value_error(value: bytes) -> None:
    with contextlib.suppress(ValueError):
        assert isinstance(decode_info(value), SyncInfo)


@given(st.lists(st.binary(max_size=300), max_size=4))
def test_elements_are_read_as_they_were_written(contents: list[bytes]) -> None:
    reader = BerReader(b"".join(element(OCTETS, each) for each in contents))
    assert [reader.take(OCTETS) for _ in contents] == contents
    assert reader.tag is None
    assert reader.take_if(OCTETS) == b""


def response(operation: bytes) -> bytes:
    return element(
        0x30, element(0x02, b"\x05") + element(ldap_messages.INTERMEDIATE_RESPONSE, operation)
    )


@pytest.mark.parametrize("content", ["", "8003312e32", "810163", "8003312e32810163"])
def test_intermediate_responses(content: str) -> None:
    assert finish(check_message(response(bytes.fromhex(content)), 10)) == 0


@pytest.mark.parametrize("content", ["82", "810163 8003312e32", "8005312e32", "0401630400"])
def test_intermediate_responses_that_are_malformed(content: str) -> None:
    with pytest.raises(MalformedMessage):
        finish(check_message(response(bytes.fromhex(content)), 10))
