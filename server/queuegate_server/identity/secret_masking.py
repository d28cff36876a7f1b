"""Masks secrets in text that others have written, such as a provider's error messages.

A server may repeat a part of the request that it refuses, in the encoding in which it was sent.
"""

import base64
import re
from collections.abc import Iterable, Iterator
from typing import Final
from urllib.parse import quote, quote_plus

MASK: Final = "…"
MIN_ENCODED: Final = 4
"""The minimum number of Base64 characters that are treated as a secret. Fewer occur in words."""
_BITS: Final = 6
"""The number of bits in a character of Base64."""
_END: Final = r"(?:[\w+/-](?![\w+/-]))?(?:=|%3[Dd]){0,2}"
"""The last Base64 character, which holds the rest of a secret, and the padding."""
_ENTITIES: Final = {"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;"}
_URL_SAFE: Final = {"+": "-", "/": "_"}


def mask(text: str, secrets: Iterable[str]) -> str:
    """Return the string with each secret replaced by a mark.

    Secrets are found as they are, with each byte escaped as in URLs, with some or all of their
    special characters escaped as in URLs, forms (RFC 1866, section 8.2.1), JSON or HTML, and in
    either alphabet of Base64 (RFC 4648), alone or within a longer text, as in the header for HTTP
    Basic (RFC 7617).

    Args:
        text: The text, in any encoding of its parts.
        secrets: The secrets. Empty ones are ignored.
    """
    for secret in filter(None, secrets):
        for spelling in _spellings(secret):
            text = spelling.sub(MASK, text)
    return text


def _spellings(secret: str) -> Iterator[re.Pattern[str]]:
    """Yield patterns that match a secret in an encoding, the longest matches first."""
    # OAuth encodes a client's secret like a form before Base64 (RFC 6749, section 2.3.1).
    for plain in dict.fromkeys((secret, quote(secret, safe=""), quote_plus(secret))):
        for before in range(3):
            encoded = base64.b64encode(bytes(before) + plain.encode()).decode()
            bits = 8 * before, 8 * (before + len(plain.encode()))
            # A character at either end may depend on the text around the secret, too.
            inside = encoded[-(-bits[0] // _BITS) : bits[1] // _BITS]
            if len(inside) >= MIN_ENCODED:
                yield re.compile("".join(map(_of_base64, inside)) + _END)
    # Letters and digits are escaped only together, because a pattern for any of them is slow.
    yield re.compile(f"(?i:{''.join(f'%{byte:02x}' for byte in secret.encode())})")
    yield re.compile("".join(map(_of_text, secret)))


def _of_base64(character: str) -> str:
    """Return a pattern for a character of Base64 in either alphabet, escaped or not."""
    other = _URL_SAFE.get(character)
    return character if other is None else f"(?:{_of_text(character)}|{other})"


def _of_text(character: str) -> str:
    """Return a pattern for a character, escaped or not."""
    if character.isascii() and character.isalnum():
        return character
    forms = [
        re.escape(character),
        f"(?i:{quote(character.encode(), safe='')})",
        f"(?i:{''.join(f'%{byte:02x}' for byte in character.encode())})",
        "".join(rf"(?i:\\u{unit.hex()})" for unit in _utf16(character)),
        rf"&\#0*{ord(character)};",
        f"(?i:&\\#x0*{ord(character):x};)",
    ]
    if character == " ":
        forms.append(r"\+")
    if character in '"\\/':
        forms.append(re.escape(f"\\{character}"))
    if character in _ENTITIES:
        forms.append(_ENTITIES[character])
    # Longer forms first, because an escape may begin with the character itself.
    return f"(?:{'|'.join(sorted(dict.fromkeys(forms), key=len, reverse=True))})"


def _utf16(character: str) -> Iterator[bytes]:
    encoded = character.encode("utf-16-be")
    return (encoded[start : start + 2] for start in range(0, len(encoded), 2))
