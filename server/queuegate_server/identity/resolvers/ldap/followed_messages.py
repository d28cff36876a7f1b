"""Decodes the entries and intermediate responses of a search that follows changes, in short steps.

The driver decodes a message in one step, which takes tens of milliseconds for a group with 195,000
members, and holds the GIL meanwhile.
"""

from collections.abc import Collection, Generator, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from ldap.controls import ResponseControl

from queuegate_server.identity.resolvers.ldap.ldap_messages import (
    SEARCH_ENTRY,
    operation_of,
    read_length,
)

_STEP_VALUES: Final = 1_000
"""The number of values that are decoded at once, in a few tenths of a millisecond."""
_LONG_FORM: Final = 0x80
_OCTETS: Final = 0x04
_NAME: Final = 0x80
_VALUE: Final = 0x81


class FollowedMessage(NamedTuple):
    """An entry or an intermediate response."""

    name: str
    """The DN of an entry; the type of an intermediate response."""
    content: Mapping[str, list[bytes]] | bytes
    """The attributes of an entry; the value of an intermediate response."""
    controls: Sequence[ResponseControl]


def decode_message(
    message: bytes, controls: Collection[str]
) -> Generator[None, None, FollowedMessage]:
    """Decode a checked message (see `check_message`). Yields where a step may end.

    Args:
        message: An entry or an intermediate response.
        controls: The types of the controls to decode.

    Raises:
        UnicodeDecodeError: The DN is not UTF-8.
    """
    operation, at, end = operation_of(message)
    if operation == SEARCH_ENTRY:
        start, at = _content(message, at)
        name = message[start:at].decode()
        attributes = yield from _attributes(message, _content(message, at)[0], end)
        content: Mapping[str, list[bytes]] | bytes = attributes
    else:
        parts = {
            message[start]: message[slice(*span)] for start, span in _elements(message, at, end)
        }
        name, content = parts.get(_NAME, b"").decode("ascii", "replace"), parts.get(_VALUE, b"")
    kept = yield from _controls(message, end, controls)
    return FollowedMessage(name, content, kept)


def _attributes(message: bytes, at: int, end: int) -> Generator[None, None, dict[str, list[bytes]]]:
    found: dict[str, list[bytes]] = {}
    while at < end:
        at, stop = _content(message, at)
        start, at = _content(message, at)
        name = message[start:at].decode("ascii")
        found[name] = yield from _values(message, _content(message, at)[0], stop)
        at = stop
    return found


def _values(message: bytes, at: int, end: int) -> Generator[None, None, list[bytes]]:
    """Return a sequence of values. Optimized, because it may be very long."""
    values: list[bytes] = []
    while at < end:
        for _ in range(_STEP_VALUES):
            length = message[at + 1]
            at += 2
            if length >= _LONG_FORM:
                at, length = read_length(message, at - 1)
            values.append(message[at : at + length])
            at += length
            if at >= end:
                break
        yield
    return values


def _controls(
    message: bytes, end: int, known: Collection[str]
) -> Generator[None, None, list[ResponseControl]]:
    found: list[ResponseControl] = []
    if end < len(message):
        start, stop = _content(message, end)
        for _, (at, last) in _elements(message, start, stop):
            (_, (first, after)), *more = _elements(message, at, last)
            kind = message[first:after].decode("ascii", "replace")
            if kind in known:
                values = [message[slice(*span)] for tag, span in more if message[tag] == _OCTETS]
                control = ResponseControl(kind)
                control.decodeControlValue(b"".join(values))
                found.append(control)
            yield
    return found


def _elements(message: bytes, at: int, end: int) -> Iterator[tuple[int, tuple[int, int]]]:
    """Yield the place of each element's tag, and the start and end of its content."""
    while at < end:
        span = _content(message, at)
        yield at, span
        at = span[1]


def _content(message: bytes, at: int) -> tuple[int, int]:
    """Return the start and end of the content of the element at position `at`."""
    start, length = read_length(message, at + 1)
    return start, start + length
