"""Reads and writes BER elements (X.690) in the values of controls. Lengths are definite."""

from typing import Final

SEQUENCE: Final = 0x30
INTEGER: Final = 0x02
OCTETS: Final = 0x04
BOOLEAN: Final = 0x01
ENUMERATED: Final = 0x0A
_LONG_FORM: Final = 0x80


def element(tag: int, content: bytes) -> bytes:
    """Encode an element."""
    size = len(content)
    if size < _LONG_FORM:
        return bytes((tag, size)) + content
    length = size.to_bytes((size.bit_length() + 7) // 8)
    return bytes((tag, _LONG_FORM | len(length))) + length + content


class BerReader:
    """Reads the elements of a value in order. Methods raise ValueError if the value is invalid."""

    def __init__(self, value: bytes) -> None:
        self._value = value
        self._at = 0

    @property
    def tag(self) -> int | None:
        """The tag of the next element; None at the end."""
        return self._value[self._at] if self._at < len(self._value) else None

    def take(self, tag: int) -> bytes:
        """Read an element with the given tag; return its content."""
        if self.tag != tag:
            raise ValueError("a value has an unexpected element")
        try:
            start = self._at + 2
            length = self._value[self._at + 1]
            if length >= _LONG_FORM:
                count = length - _LONG_FORM
                length = int.from_bytes(self._value[start : start + count])
                start += count
        except IndexError:
            raise ValueError("a value ends within an element") from None
        self._at = start + length
        if self._at > len(self._value):
            raise ValueError("a value ends within an element")
        return self._value[start : self._at]

    def take_if(self, tag: int) -> bytes:
        """Read an element if it has the given tag; return its content, or b""."""
        return self.take(tag) if self.tag == tag else b""

    def open(self, tag: int) -> "BerReader":
        """Read an element with the given tag; return a reader of the elements that it contains."""
        return BerReader(self.take(tag))
