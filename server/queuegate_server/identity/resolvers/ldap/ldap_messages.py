"""Splits a server's stream into messages (RFC 4511, section 4.1.1) and checks them.

libldap waits for messages of any size, accepts any final response regardless of its type, and
treats malformed entries as entries without attributes. Therefore, it receives only messages checked
here.
"""

import io
import re
from collections.abc import Callable, Generator, Iterator
from typing import Final, NamedTuple

from queuegate_server.identity.resolvers.ldap.ldap_faults import ServerFault, UnusableData

BIND_RESPONSE: Final = 0x61
SEARCH_ENTRY: Final = 0x64
SEARCH_DONE: Final = 0x65
SEARCH_REFERENCE: Final = 0x73
EXTENDED_RESPONSE: Final = 0x78
INTERMEDIATE_RESPONSE: Final = 0x79
MAX_MESSAGE_BYTES: Final = 64 * 2**20
"""The maximum size of any message, in bytes."""
MAX_CONTROL_MESSAGE_BYTES: Final = 65_536
"""The maximum size of messages other than entries, such as results with text or referrals."""
LONG_BYTES: Final = 65_536
"""The size above which data is received and handled in steps."""

_SEQUENCE: Final = 0x30
_SET: Final = 0x31
_INTEGER: Final = 0x02
_OCTETS: Final = 0x04
_BOOLEAN: Final = 0x01
_ENUMERATED: Final = 0x0A
_CONTROLS: Final = 0xA0
_REFERRAL: Final = 0xA3
_RESULT_ENDS: Final = {BIND_RESPONSE: (0x87,), SEARCH_DONE: (), EXTENDED_RESPONSE: (0x8A, 0x8B)}
"""The tags allowed after a result's common fields, in order: credentials in bind responses; name
and value in extended responses."""
_INTERMEDIATE_TAGS: Final = (0x80, 0x81)
"""The tags of an intermediate response's name and value (RFC 4511, section 4.13)."""
_LONG_FORM: Final = 0x80
_MAX_LENGTH_BYTES: Final = 4
_MAX_ID: Final = 2**31 - 1
_REFERRAL_CODE: Final = 10
_ATTRIBUTE: Final = re.compile(rb"[A-Za-z0-9._-]+(?:;[A-Za-z0-9._=*+-]+)*")
"""An attribute description (RFC 4512, 2.5), with the common extensions `_` in names, and range
bounds in options."""
_SHOWN_BYTES: Final = 100
MAX_ATTRIBUTES: Final = 1_000
"""The maximum number of attributes of an entry, all of which are examined in one step. Only a few
are requested, but the entry may have each of them with several options, and a proxy may send other
attributes.
"""
_STEP_VALUES: Final = 2_000
"""The number of values that are checked at once, in a few tenths of a millisecond."""
_SMALLEST_CONTENT: Final = 5
"""The minimum content size: a one-byte message id and an empty operation, each with tag and
length."""


class MalformedMessage(ServerFault):
    """The server sent data that is not a valid LDAP message."""

    def __init__(self, reason: str = "") -> None:
        detail = "the server sent a response that is not LDAP"
        super().__init__(f"{detail}: {reason}" if reason else detail)


class TooManyElements(Exception):
    """The message has more elements than allowed (see `check_message`)."""


class MessageHead(NamedTuple):
    """The start of a message, decoded before the rest has arrived."""

    id: int
    operation: int
    size: int
    """The size of the message in bytes, including the head."""


class LdapReply(NamedTuple):
    """The result of a request."""

    code: int
    """The result code; 0 means success."""
    text: str


class MessageReader:
    """Splits a stream into messages.

    `admit` is called with each message head, and returns False if the message must be discarded as
    it arrives. It may raise ServerFault.
    """

    def __init__(self, admit: Callable[[MessageHead], bool]) -> None:
        self._admit = admit
        self._buffer = bytearray()
        self._head: MessageHead | None = None
        self._long: io.BytesIO | None = None
        """The part of a long message that has arrived. `getvalue` returns the whole message without
        copying it; a copy of 46 MiB took 26 ms."""
        self._dropping = 0

    @property
    def is_between_messages(self) -> bool:
        """Whether the data added so far ends at a message boundary."""
        return self._long is None and not self._buffer and not self._dropping

    @property
    def size(self) -> int:
        """The number of buffered bytes."""
        return len(self._buffer) + (self._long.tell() if self._long is not None else 0)

    def add(self, data: bytes) -> None:
        """Add bytes to the stream."""
        if self._head is not None and self._long is not None:
            missing = self._head.size - self._long.tell()
            self._long.write(data[:missing])
            data = data[missing:]
        self._buffer += data

    def messages(self) -> Iterator[tuple[MessageHead, bytes | None]]:
        """Yield the head and content of each message; the content is None if it was discarded.
        Raises ServerFault.

        The caller may stop iterating at any time and call this method again to continue.
        """
        buffer = self._buffer
        while True:
            if self._dropping:
                dropped = min(self._dropping, len(buffer))
                del buffer[:dropped]
                self._dropping -= dropped
            head = self._head
            if head is None:
                head = _read_head(buffer)
                if head is None:
                    return
                if not self._admit(head):
                    self._dropping = head.size
                    yield head, None
                    continue
                self._head = head
                if head.size > LONG_BYTES:
                    self._long = io.BytesIO()
                    self._long.write(buffer[: head.size])
                    del buffer[: head.size]
            if self._long is not None:
                if self._long.tell() < head.size:
                    return
                message = self._long.getvalue()
                self._long = None
            elif len(buffer) < head.size:
                return
            else:
                message = bytes(memoryview(buffer)[: head.size])
                del buffer[: head.size]
            self._head = None
            yield head, message


def _read_head(buffer: bytearray) -> MessageHead | None:
    """Return the message head at the start of a buffer; None if incomplete. Raises ServerFault."""
    if not buffer:
        return None
    if buffer[0] != _SEQUENCE:
        raise ServerFault(
            "the server does not speak LDAP",
            "check the port: it may be an ldaps port, or belong to another service",
        )
    try:
        start, size = read_length(buffer, 1)
        if size > MAX_MESSAGE_BYTES:
            raise ServerFault("the server announced a response of more than 64 MiB")
        if size < _SMALLEST_CONTENT:
            raise MalformedMessage
        number, at = _read_id(buffer, start)
        operation = buffer[at]
    except IndexError:
        return None
    if at >= start + size:
        raise MalformedMessage
    return MessageHead(number, operation, start + size)


def _read_id(data: bytes | bytearray, at: int) -> tuple[int, int]:
    """Read the message id at position `at`; return the id and the position after it."""
    if data[at] != _INTEGER:
        raise MalformedMessage
    length = data[at + 1]
    if not 1 <= length <= _MAX_LENGTH_BYTES + 1:
        raise MalformedMessage
    end = at + 2 + length
    if end > len(data):
        raise IndexError
    number = int.from_bytes(data[at + 2 : end], "big", signed=True)
    if not 0 <= number <= _MAX_ID:
        raise MalformedMessage
    return number, end


def read_length(data: bytes | bytearray, at: int) -> tuple[int, int]:
    """Read the length field at position `at`; return the start and length of the content."""
    length = data[at]
    at += 1
    if length < _LONG_FORM:
        return at, length
    count = length - _LONG_FORM
    if not 1 <= count <= _MAX_LENGTH_BYTES:
        raise MalformedMessage
    end = at + count
    if end > len(data):
        raise IndexError
    return end, int.from_bytes(data[at:end], "big")


def check_message(message: bytes, max_elements: int) -> Generator[None, None, int]:
    """Check a complete message; return the number of elements. Yields where a step may end.

    Elements are entries, attributes, values, referrals and controls.

    Raises:
        MalformedMessage: The message does not conform to RFC 4511.
        TooManyElements: The message has more than `max_elements` elements.
        UnusableData: The message is an entry with more than `MAX_ATTRIBUTES` attributes.
    """
    check = _Check(message, max_elements)
    try:
        yield from check.message()
    except IndexError:
        raise MalformedMessage from None
    return check.elements


def dn_bytes(entry: bytes) -> int:
    """Return the length in bytes of the DN in a checked entry message."""
    _, at, _ = operation_of(entry)
    return read_length(entry, at + 1)[1]


def read_result(message: bytes) -> LdapReply:
    """Decode a checked result message."""
    _, at, _ = operation_of(message)
    at, length = read_length(message, at + 1)
    code = int.from_bytes(message[at : at + length], "big", signed=True)
    at, length = read_length(message, at + length + 1)
    at, length = read_length(message, at + length + 1)
    return LdapReply(code, message[at : at + length].decode("utf-8", "replace"))


def operation_of(message: bytes) -> tuple[int, int, int]:
    """Return the type of a checked message's operation, and the start and end of its content."""
    _, at = _read_id(message, read_length(message, 1)[0])
    start, length = read_length(message, at + 1)
    return message[at], start, start + length


class _Check:
    """Checks one message. Raises IndexError if a read goes beyond the message's end."""

    def __init__(self, message: bytes, max_elements: int) -> None:
        self._message = message
        self._max_elements = max_elements
        self.elements = 0

    def message(self) -> Iterator[None]:
        at, end = self._open(_SEQUENCE, 0, len(self._message))
        if end != len(self._message):
            raise MalformedMessage
        _, at = _read_id(self._message, at)
        operation = self._message[at]
        at, stop = self._open(operation, at, end)
        if operation == SEARCH_ENTRY:
            yield from self._entry(at, stop)
        elif operation == SEARCH_REFERENCE:
            if at == stop:
                raise MalformedMessage
            yield from self._texts(at, stop)
        elif operation == INTERMEDIATE_RESPONSE:
            self._intermediate(at, stop)
        elif operation in _RESULT_ENDS:
            yield from self._result(at, stop, _RESULT_ENDS[operation])
        else:
            raise MalformedMessage
        if stop < end:
            at, stop = self._open(_CONTROLS, stop, end)
            if stop != end:
                raise MalformedMessage
            yield from self._controls(at, stop)

    def _entry(self, at: int, end: int) -> Iterator[None]:
        start, at = self._open(_OCTETS, at, end)
        dn = self._message[start:at]
        # Reject NULs, because libldap would truncate the DN there.
        if 0 in dn:
            raise MalformedMessage(f"the DN {_escape(dn)} has a NUL")
        at, stop = self._open(_SEQUENCE, at, end)
        if stop != end:
            raise MalformedMessage
        names: set[bytes] = set()
        self._count()
        while at < end:
            self._count()
            at, stop = self._open(_SEQUENCE, at, end)
            start, at = self._open(_OCTETS, at, stop)
            name = self._message[start:at]
            if not _ATTRIBUTE.fullmatch(name):
                raise MalformedMessage(f"{_escape(name)} is not an attribute name")
            # Attributes must not be repeated (RFC 4511, 4.5.2).
            if name.lower() in names:
                raise MalformedMessage(f"an entry has the attribute {_escape(name)} twice")
            names.add(name.lower())
            if len(names) > MAX_ATTRIBUTES:
                raise UnusableData(
                    f"the entry {_escape(dn)} has more than {MAX_ATTRIBUTES} attributes",
                    "only a few were requested: remove attributes with options, such as "
                    "cn;lang-en, from the entry, or correct the proxy that sends attributes "
                    "without being asked for them",
                )
            at, last = self._open(_SET, at, stop)
            if last != stop:
                raise MalformedMessage
            yield from self._texts(at, stop)
            at = stop

    def _result(self, at: int, end: int, tags: tuple[int, ...]) -> Iterator[None]:
        start, at = self._open(_ENUMERATED, at, end)
        encoded = self._message[start:at]
        code = int.from_bytes(encoded, "big", signed=True)
        # Integers are encoded in the fewest possible bytes (X.690, 8.3.2).
        if code < 0 or len(encoded) != code.bit_length() // 8 + 1:
            raise MalformedMessage(f"a result code is encoded as {_escape(encoded)}")
        if len(encoded) > _MAX_LENGTH_BYTES:
            raise MalformedMessage
        at = self._skip(_OCTETS, at, end)
        at = self._skip(_OCTETS, at, end)
        if at < end and self._message[at] == _REFERRAL:
            if code != _REFERRAL_CODE:
                raise MalformedMessage(
                    f"it has a referral and the result code {code}, and only code "
                    f"{_REFERRAL_CODE} has referrals"
                )
            at, stop = self._open(_REFERRAL, at, end)
            yield from self._texts(at, stop)
            at = stop
        for tag in tags:
            if at < end and self._message[at] == tag:
                at = self._skip(tag, at, end)
        if at != end:
            raise MalformedMessage

    def _intermediate(self, at: int, end: int) -> None:
        for tag in _INTERMEDIATE_TAGS:
            if at < end and self._message[at] == tag:
                at = self._skip(tag, at, end)
        if at != end:
            raise MalformedMessage

    def _controls(self, at: int, end: int) -> Iterator[None]:
        while at < end:
            yield
            self._count()
            at, stop = self._open(_SEQUENCE, at, end)
            at = self._skip(_OCTETS, at, stop)
            for tag in (_BOOLEAN, _OCTETS):
                if at < stop and self._message[at] == tag:
                    at = self._skip(tag, at, stop)
            if at != stop:
                raise MalformedMessage

    def _texts(self, at: int, end: int) -> Iterator[None]:
        """Check a sequence of values. Optimized, because it may be very long."""
        message = self._message
        left = self._max_elements - self.elements
        while at < end:
            pause = max(0, left - _STEP_VALUES)
            while at < end and left > pause:
                if message[at] != _OCTETS:
                    raise MalformedMessage
                length = message[at + 1]
                at += 2
                if length >= _LONG_FORM:
                    at, length = read_length(message, at - 1)
                at += length
                left -= 1
            if at < end and left == 0:
                raise TooManyElements
            yield
        if at != end:
            raise MalformedMessage
        self.elements = self._max_elements - left

    def _open(self, tag: int, at: int, end: int) -> tuple[int, int]:
        """Return the start and end of the content of the element at position `at`."""
        if at >= end or self._message[at] != tag:
            raise MalformedMessage
        start, length = read_length(self._message, at + 1)
        if start + length > end:
            raise MalformedMessage
        return start, start + length

    def _skip(self, tag: int, at: int, end: int) -> int:
        """Return the position after the element at position `at`."""
        return self._open(tag, at, end)[1]

    def _count(self) -> None:
        self.elements += 1
        if self.elements > self._max_elements:
            raise TooManyElements


def _escape(data: bytes) -> str:
    """Return the first bytes of `data` as printable ASCII, with all other bytes escaped."""
    return ascii(data[:_SHOWN_BYTES].decode("latin-1"))
