"""Requests as bytes: the same as protobuf reads them, and faults that name fields."""

from collections.abc import Callable
from typing import Final

import pytest
from google.protobuf.message import DecodeError, Message
from hypothesis import given
from hypothesis import strategies as st

from queuegate.v1 import access_pb2, sync_pb2, user_group_information_pb2
from queuegate.v1.user_group_information_pb2 import UserGroupInformation
from queuegate_server.rpc import wire
from queuegate_server.rpc.errors import InvalidRequest, UnreadableRequest

UNKNOWN = b"\xf8\x01\x01"

Split = Callable[[bytes], list[bytes]]
SPLITS: tuple[Split, ...] = (wire.first_field_items, wire._items_one_by_one)
"""The split of most messages, and that of very long ones."""


def item(user: str, queue: str) -> access_pb2.CheckQueueAccessRequest:
    information = user_group_information_pb2.UserGroupInformation(user=user)
    return access_pb2.CheckQueueAccessRequest(user=information, queue=queue)


ITEMS = st.lists(st.builds(item, st.text(max_size=5), st.text(max_size=300)), max_size=6)


@given(ITEMS, st.booleans())
def test_items_are_those_that_protobuf_reads(
    items: list[access_pb2.CheckQueueAccessRequest], with_unknown: bool
) -> None:
    data = access_pb2.BatchCheckQueueAccessRequest(checks=items).SerializeToString()
    if with_unknown:
        data = UNKNOWN + data + UNKNOWN
    for split in SPLITS:
        parts = split(data)
        assert [access_pb2.CheckQueueAccessRequest.FromString(part) for part in parts] == items


@pytest.mark.parametrize("split", SPLITS)
@given(data=st.binary(max_size=40))
def test_any_bytes_are_split_or_refused(split: Split, data: bytes) -> None:
    """Where protobuf reads a batch, splitting reads the same; nothing else happens."""
    try:
        expected = access_pb2.BatchCheckQueueAccessRequest.FromString(data)
    except DecodeError:
        expected = None
    try:
        items = split(data)
    except InvalidRequest:
        assert expected is None
        return
    if expected is not None:
        assert [access_pb2.CheckQueueAccessRequest.FromString(part) for part in items] == list(
            expected.checks
        )


@pytest.mark.parametrize("size", [1, 300])
def test_no_more_items_than_one_too_many(size: int) -> None:
    part = wire.embed(1, bytes(size))
    assert len(wire.first_field_items(part * 10_000)) == 10_000
    assert len(wire.first_field_items(part * 20_000)) == 10_001


@given(st.integers(0, 300))
def test_embedded_message(results: int) -> None:
    information = UserGroupInformation(user="u", groups=["g"] * results)
    data = wire.embed(1, information.SerializeToString())
    assert access_pb2.CheckQueueAccessRequest.FromString(
        data
    ) == access_pb2.CheckQueueAccessRequest(user=information)


@pytest.mark.parametrize(
    ("data", "fields"),
    [
        (b"\x0a\x03\x0a\x01\xff", ["user.user"]),
        (b"\x0a\x08\x12\x01a\x12\x01\xff\x0a\x00", ["user.groups[1]"]),
        (b"\x12\x01\xfe\x1a\x01\xff", ["partition", "queue"]),
        (b"\x0a\x05\x0a", ["request"]),
    ],
)
def test_faults_name_their_fields(data: bytes, fields: list[str]) -> None:
    with pytest.raises(InvalidRequest) as caught:
        wire.parse(access_pb2.CheckQueueAccessRequest, data)
    assert [field for field, _ in caught.value.violations] == fields


def user_with(groups: bytes) -> bytes:
    return wire.embed(1, groups)


@pytest.mark.parametrize(
    "data",
    [
        b"\x28\x01" * 5_000 + b"\x12\x01\xff",
        user_with(b"\x12\x00" * 10) * 500 + b"\x12\x01\xff",
        user_with(b"\x12\x00" * 5_000) + b"\x12\x01\xff",
    ],
    ids=["fields", "fields of many messages", "fields of one message"],
)
def test_a_fault_is_searched_for_among_so_many_fields(data: bytes) -> None:
    """All levels share one budget; what it does not reach is not named."""
    with pytest.raises(UnreadableRequest) as caught:
        wire.parse(access_pb2.CheckQueueAccessRequest, data)
    assert caught.value.violations == [("request", "the bytes are not a message of this type")]


def test_the_parts_of_a_request_share_a_budget() -> None:
    budget = wire.search_budget()
    named = []
    for _ in range(10):
        with pytest.raises(UnreadableRequest) as caught:
            wire.parse(
                access_pb2.CheckQueueAccessRequest,
                b"\x28\x01" * 400 + b"\x12\x01\xff",
                budget,
            )
        named += [field for field, _ in caught.value.violations]
    assert named == ["partition"] * 4 + ["request"] * 6


def test_fields_are_bounded_before_they_are_parsed() -> None:
    users = [f"u{number}" for number in range(50)]
    data = sync_pb2.SyncRequest(want=sync_pb2.SyncWant(users=users)).SerializeToString()
    wire.bound_fields(sync_pb2.SyncRequest, data, 51)
    with pytest.raises(InvalidRequest, match="has more than 50 fields"):
        wire.bound_fields(sync_pb2.SyncRequest, data, 50)


GROUPS = access_pb2.CheckQueueAccessRequest(
    user=UserGroupInformation(user="u", groups=["", "é" * 100, "g"])
)
COUNTED: Final[tuple[tuple[Message, int], ...]] = (
    (GROUPS, 5),
    (access_pb2.BatchCheckQueueAccessRequest(checks=[GROUPS]), 6),
    (access_pb2.CheckQueueAccessColumnsRequest(user_indexes=[1, 300, 70_000], queues=["q"]), 5),
    (
        access_pb2.CheckApplicationAccessRequest(
            spark=access_pb2.SparkApplication(properties={"a": "b", "c": "d"})
        ),
        1 + 2 * 3,
    ),
)


@pytest.mark.parametrize(("message", "fields"), COUNTED)
def test_fields_are_counted_at_all_levels(message: Message, fields: int) -> None:
    data = message.SerializeToString() + b"\x79" + bytes(8) + b"\x7b\x78\x01\x7c\x78\x01"
    more = 5  # unknown ones: a number of a fixed size, another one, and a group of a third
    wire.bound_fields(type(message), data, fields + more)
    with pytest.raises(InvalidRequest, match=f"has more than {fields + more - 1} fields"):
        wire.bound_fields(type(message), data, fields + more - 1)


EMPTY_GROUPS: Final = user_with(b"\x12\x00" * 1_000)
UNCOUNTED: Final = {
    "a message in a group": b"\xa3\x06" + b"\x0a\x02\x00\x00" + b"\xa4\x06" + EMPTY_GROUPS,
    "a message of a group's first byte": b"\xa3\x06" + b"\x0a\x01\xa3" + b"\xa4\x06" + EMPTY_GROUPS,
    "a group that ends the message": b"\x0a\x02\x7b\x7c" + EMPTY_GROUPS,
    "a group in a group": b"\x7b\x73\x0a\x01\xff\x74\x7c" + EMPTY_GROUPS,
}


@pytest.mark.parametrize("data", UNCOUNTED.values(), ids=UNCOUNTED)
def test_the_fields_after_a_group_are_counted(data: bytes) -> None:
    access_pb2.CheckQueueAccessRequest.FromString(data)
    with pytest.raises(UnreadableRequest, match="has more than 1000 fields"):
        wire.bound_fields(access_pb2.CheckQueueAccessRequest, data, 1_000)


PARTS: Final = (
    *(b"\x7b", b"\x7c", b"\x73", b"\x74", b"\xa3\x06", b"\xa4\x06", b"\x78\x01", b"\x75\0\0\0\0"),
    *(
        b"\x0a\x00",
        b"\x0a\x02\x0a\x00",
        b"\x0a\x01",
        b"\x12\x01a",
        b"\x0a\x02\x00\x00",
        b"\x0a\x81\x00",
    ),
    *(
        b"\x2a\x02\x01\x02",
        b"\x2a\x03",
        b"\x28\x01",
        b"\xfa\x01\x01\xff",
        b"\x22\x02",
        b"\x1a\x01q",
    ),
)
"""Fields and beginnings of fields: known and unknown ones, and groups."""
PIECES = st.one_of(st.sampled_from(PARTS), st.binary(max_size=3))
GROUPED = st.recursive(
    PIECES,
    lambda inner: st.lists(inner, max_size=5).map(lambda each: b"\x7b" + b"".join(each) + b"\x7c"),
)
MESSAGES = st.lists(GROUPED, max_size=8).map(b"".join)


@pytest.mark.parametrize(
    "message",
    [access_pb2.BatchCheckQueueAccessRequest, access_pb2.CheckQueueAccessColumnsRequest],
)
@given(data=MESSAGES)
def test_what_protobuf_reads_is_counted_to_the_end(message: type[Message], data: bytes) -> None:
    """Fields that are appended to a message that protobuf reads are counted as well."""
    more = len(data) + 1
    try:
        message.FromString(data)
    except DecodeError:
        return
    wire.bound_fields(message, data + b"\x78\x01" * more, 2 * more)
    with pytest.raises(UnreadableRequest, match=f"has more than {more - 1} fields"):
        wire.bound_fields(message, data + b"\x78\x01" * more, more - 1)


@pytest.mark.parametrize(
    "data",
    [b"\xff" * 60, b"\x12\x7f" * 100, b"\x0a\xff" * 90, b"\x7b\x12\x3a" + bytes(58), b"\x7f" * 60],
)
def test_what_cannot_be_counted_is_not_parsed(data: bytes) -> None:
    with pytest.raises(UnreadableRequest, match="the bytes are not a message of this type"):
        wire.bound_fields(access_pb2.CheckQueueAccessRequest, data, 20)


def test_a_request_of_empty_groups_is_not_parsed() -> None:
    data = wire.embed(1, b"\x12\x00" * wire.MAX_FIELDS)
    with pytest.raises(InvalidRequest, match=f"has more than {wire.MAX_FIELDS} fields"):
        wire.parse(access_pb2.CheckQueueAccessRequest, data)
