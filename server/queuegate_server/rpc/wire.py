"""Parses serialized requests, naming invalid fields in errors, and splits batches into items.

Handlers receive bytes so that errors can name fields that are not UTF-8, and batch items can be
looked up in the response cache without being parsed.
"""

import contextlib
import itertools
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any, Final, Protocol, TypeVar, cast

from google.protobuf import descriptor_pb2
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import DecodeError, Message
from google.protobuf.message_factory import GetMessageClass

from queuegate_server.rpc.errors import WHOLE_REQUEST, InvalidRequest, UnreadableRequest

M = TypeVar("M", bound=Message)

MAX_BATCH: Final = 10_000
MAX_SHORT_REQUEST: Final = 16 * 1024
"""The maximum size of a short request, in bytes. Longer requests are processed in a separate
thread, one at a time."""
MAX_FIELDS: Final = 50_000
"""The maximum number of fields in a request and its submessages, more than a valid one has. Parsing
a field takes 30 ns, during which nothing else runs."""

_VARINT: Final = 0
_LENGTH_DELIMITED: Final = 2
_FIXED_SIZES: Final = {1: 8, 5: 4}
"""The sizes of fixed-size values in bytes, by wire type."""
_GROUP_START: Final = 3
_GROUP_END: Final = 4
_MAX_DEPTH: Final = 100
_MAX_VARINT_BYTES: Final = 10
_MAX_UINT64: Final = 2**64 - 1
_MAX_TAG_BYTES: Final = 5
_MAX_TAG: Final = 2**32 - 1
_MAX_FIELDS: Final = 4 * MAX_BATCH
"""The maximum number of fields in a batch, far more than a valid batch has."""
_MAX_SEARCHED_FIELDS: Final = 2_000
"""The maximum number of fields searched for faults in one request, at all nesting levels."""
_MAX_VIOLATIONS: Final = 100
_MAX_SPLIT_BYTES: Final = 1024 * 1024
"""Longer messages may contain far too many items, so they are split one item at a time. Protobuf
splits half a million empty items, or other fields of two bytes, in less than 10 ms."""
_CONTINUATION: Final = 0x80
_SHORT_TAG: Final = _CONTINUATION | 7
"""The bits of a tag that show whether it has one byte, and its wire type."""
_CONTINUING_BYTES: Final = bytes(range(_CONTINUATION, 256))
_NEVER_PACKED: Final = frozenset({FieldDescriptor.TYPE_STRING, FieldDescriptor.TYPE_BYTES})
_NOT_A_MESSAGE: Final = "the bytes are not a message of this type"


class _Items(Protocol):
    """A message with `repeated bytes items = 1`. Parsing a batch as this type splits it."""

    @property
    def items(self) -> list[bytes]: ...
    @staticmethod
    def FromString(data: bytes, /) -> "_Items": ...


def _items_class() -> type[_Items]:
    file = descriptor_pb2.FileDescriptorProto(name="items.proto", package="items")
    file.message_type.add(name="Items").field.add(
        name="items",
        number=1,
        type=descriptor_pb2.FieldDescriptorProto.TYPE_BYTES,
        label=descriptor_pb2.FieldDescriptorProto.LABEL_REPEATED,
    )
    pool = DescriptorPool()
    pool.AddSerializedFile(file.SerializeToString())
    return cast("type[_Items]", GetMessageClass(pool.FindMessageTypeByName("items.Items")))


_ITEMS: Final = _items_class()


def shallow_class(message: type[Message]) -> Any:
    """Return a class that parses a message but leaves its submessages as bytes.

    It keeps only the last value of a field that occurs several times, and drops default values.
    `ByteSize` is then smaller than the serialized message, unless an enum value is negative.
    """
    file = descriptor_pb2.FileDescriptorProto(name="shallow.proto", syntax="proto3")
    shallow = file.message_type.add(name="Shallow")
    for field in message.DESCRIPTOR.fields:
        kind = field.type
        if kind == FieldDescriptor.TYPE_MESSAGE:
            kind = FieldDescriptor.TYPE_BYTES
        elif kind == FieldDescriptor.TYPE_ENUM:
            kind = FieldDescriptor.TYPE_INT32
        shallow.field.add(
            name=field.name,
            number=field.number,
            type=kind,
            label=descriptor_pb2.FieldDescriptorProto.LABEL_OPTIONAL,
        )
    pool = DescriptorPool()
    pool.AddSerializedFile(file.SerializeToString())
    return GetMessageClass(pool.FindMessageTypeByName("Shallow"))


Budget = Iterator[None]
"""An iterator that limits the number of fields read. Each field consumes one item."""


def search_budget() -> Budget:
    """Return a budget for searching the fields of a request and its items for faults."""
    return itertools.repeat(None, _MAX_SEARCHED_FIELDS)


def parse(
    message: type[M], data: bytes, budget: Budget | None = None, max_fields: int = MAX_FIELDS
) -> M:
    """Parse a request. Raises UnreadableRequest if it is malformed or has too many fields.

    The exception names the fields found not to be UTF-8 before the search budget runs out. Callers
    pass the same budget for all items of a request.
    """
    if len(data) > MAX_SHORT_REQUEST:
        bound_fields(message, data, max_fields, budget)
    try:
        return message.FromString(data)
    except DecodeError:
        raise UnreadableRequest(_violations(message, data, budget or search_budget())) from None


def first_field_items(data: bytes) -> list[bytes]:
    """Return the serialized items of a message's repeated field 1, at most MAX_BATCH + 1.

    Ignores other fields. Raises InvalidRequest if the message is malformed.
    """
    if len(data) > _MAX_SPLIT_BYTES:
        return _items_one_by_one(data)
    try:
        return _ITEMS.FromString(data).items[: MAX_BATCH + 1]
    except DecodeError:
        raise InvalidRequest([(WHOLE_REQUEST, _NOT_A_MESSAGE)]) from None


def batch_items(data: bytes) -> list[bytes]:
    """Return the items of a batch. Raises InvalidRequest if there are none or too many."""
    items = first_field_items(data)
    if not items:
        raise InvalidRequest([("checks", "is empty")])
    if len(items) > MAX_BATCH:
        raise InvalidRequest([("checks", f"has more than {MAX_BATCH} items")])
    return items


def bound_fields(
    message: type[Message], data: bytes, most: int, budget: Budget | None = None
) -> None:
    """Raise UnreadableRequest if a message has more than `most` fields, or cannot be counted.

    The fields of submessages and groups, and the elements of packed fields, count as well. The
    bound limits memory, because a parsed item may use a hundred times the memory of its serialized
    form, and time, because protobuf's parser holds the interpreter's lock until it has read all
    fields. Nothing that this function has not counted is passed to that parser.
    """
    if len(data) <= most:
        return
    try:
        left = _count_down(_nested(message.DESCRIPTOR), data, 0, len(data), most)
    except (IndexError, InvalidRequest):
        raise UnreadableRequest(_violations(message, data, budget or search_budget())) from None
    if left < 0:
        raise UnreadableRequest([(WHOLE_REQUEST, f"has more than {most} fields")])


def _count_down(fields: "_Nested", data: bytes, position: int, end: int, left: int) -> int:
    """Subtract the number of fields in a part of a message from `left`, until it is below zero.

    Raises InvalidRequest and IndexError if the message is malformed.
    """
    groups: list[int] = []
    while position < end and left >= 0:
        left -= 1
        tag = data[position]
        if tag & _SHORT_TAG == _LENGTH_DELIMITED and data[position + 1] < _CONTINUATION:
            # This branch is for speed. Nearly all fields of large messages are short.
            number, size, position = tag >> 3, data[position + 1], position + 2
        else:
            number, wire_type, position = _tag(data, position)
            if wire_type != _LENGTH_DELIMITED:
                position = _skip(data, position, number, wire_type, groups)
                continue
            size, position = _varint(data, position)
        stop = position + size
        if stop > end:
            raise IndexError("the length of a field is wrong")
        # Protobuf does not parse what is in an unknown group, and our messages define no groups.
        if size and not groups and number in fields:
            nested = fields[number]
            if nested is None:
                left -= len(data[position:stop].translate(None, _CONTINUING_BYTES))
            else:
                left = _count_down(nested, data, position, stop, left)
        position = stop
    if left >= 0 and (groups or position > end):
        raise IndexError("the message ends within a field")
    return left


_Nested = Mapping[int, Any]
"""The types of a message's submessages by field number, and None for packed numbers."""


@cache
def _nested(descriptor: Descriptor) -> _Nested:
    fields: dict[int, Any] = {}
    for field in descriptor.fields:
        if field.message_type is not None:
            fields[field.number] = _nested(field.message_type)
        elif field.is_repeated and field.type not in _NEVER_PACKED:
            fields[field.number] = None
    return fields


def embed(field_number: int, message: bytes) -> bytes:
    """Encode `message` as a field of another message. `field_number` must be below 16."""
    size = len(message)
    if size < _CONTINUATION:
        return bytes((field_number << 3 | _LENGTH_DELIMITED, size)) + message
    head = bytearray([field_number << 3 | _LENGTH_DELIMITED])
    while size >= _CONTINUATION:
        head.append(size & (_CONTINUATION - 1) | _CONTINUATION)
        size >>= 7
    head.append(size)
    return bytes(head) + message


def _items_one_by_one(data: bytes) -> list[bytes]:
    items = (
        cast("bytes", value)
        for field, wire_type, value in _fields(data, itertools.repeat(None, _MAX_FIELDS))
        if field == 1 and wire_type == _LENGTH_DELIMITED
    )
    return [*itertools.islice(items, MAX_BATCH + 1)]


def _fields(data: bytes, budget: Budget) -> Iterator[tuple[int, int, int | bytes]]:
    """Yield the number, wire type and value of each field, skipping protobuf groups.

    Raises InvalidRequest if the message is malformed or the budget is exhausted.
    """
    position, end = 0, len(data)
    groups: list[int] = []
    for _ in budget:
        if position == end and not groups:
            return
        number, wire_type, position = _tag(data, position)
        value: int | bytes = 0
        if wire_type == _VARINT:
            value, position = _varint(data, position)
        elif wire_type == _LENGTH_DELIMITED:
            size, position = _varint(data, position)
            value = data[position : position + size]
            position += size
        else:
            position = _skip(data, position, number, wire_type, groups)
        if position > end:
            break
        if not groups and wire_type not in {_GROUP_START, _GROUP_END}:
            yield number, wire_type, value
    raise InvalidRequest([(WHOLE_REQUEST, _NOT_A_MESSAGE)])


def _skip(data: bytes, position: int, number: int, wire_type: int, groups: list[int]) -> int:
    """Return where the value of a field ends, and update the numbers of the groups around it.

    Raises InvalidRequest if the field is malformed, or its value is length-delimited.
    """
    if wire_type == _VARINT:
        return _varint(data, position)[1]
    if wire_type in _FIXED_SIZES:
        return position + _FIXED_SIZES[wire_type]
    if wire_type == _GROUP_START and len(groups) < _MAX_DEPTH:
        groups.append(number)
    elif wire_type != _GROUP_END or not groups or groups.pop() != number:
        raise InvalidRequest([(WHOLE_REQUEST, _NOT_A_MESSAGE)])
    return position


def _tag(data: bytes, position: int) -> tuple[int, int, int]:
    """Parse a tag; return its field number, wire type and end position. Raises InvalidRequest."""
    tag, end = _varint(data, position)
    if tag > _MAX_TAG or end - position > _MAX_TAG_BYTES or not tag >> 3:
        raise InvalidRequest([(WHOLE_REQUEST, _NOT_A_MESSAGE)])
    return tag >> 3, tag & 7, end


def _varint(data: bytes, position: int) -> tuple[int, int]:
    """Return a varint's value and end position. Raises InvalidRequest."""
    number = shift = 0
    for byte in data[position : position + _MAX_VARINT_BYTES]:
        number |= (byte & (_CONTINUATION - 1)) << shift
        shift += 7
        if byte < _CONTINUATION:
            return number & _MAX_UINT64, position + shift // 7
    raise InvalidRequest([(WHOLE_REQUEST, _NOT_A_MESSAGE)])


def _violations(message: type[Message], data: bytes, budget: Budget) -> list[tuple[str, str]]:
    descriptor = cast("Descriptor", message.DESCRIPTOR)
    paths = itertools.islice(_not_utf8(descriptor, data, "", budget), _MAX_VIOLATIONS)
    return [(path, "must be UTF-8") for path in paths] or [(WHOLE_REQUEST, _NOT_A_MESSAGE)]


def _not_utf8(descriptor: Descriptor, data: bytes, prefix: str, budget: Budget) -> Iterator[str]:
    """Yield the paths of string fields that are not UTF-8. The message need not be parsable."""
    seen: dict[int, int] = {}
    with contextlib.suppress(InvalidRequest):
        for number, wire_type, value in _fields(data, budget):
            field = descriptor.fields_by_number.get(number)
            if field is None or wire_type != _LENGTH_DELIMITED:
                continue
            path = f"{prefix}{field.name}"
            if field.is_repeated:
                index = seen.get(number, 0)
                seen[number] = index + 1
                path = f"{path}[{index}]"
            if field.type == FieldDescriptor.TYPE_MESSAGE and field.message_type:
                part = cast("bytes", value)
                yield from _not_utf8(field.message_type, part, f"{path}.", budget)
            elif field.type == FieldDescriptor.TYPE_STRING and not _is_utf8(cast("bytes", value)):
                yield path


def _is_utf8(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True
