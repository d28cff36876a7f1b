"""Encodes positions in a directory's changes as bytes that only the followers interpret."""

import base64
import json
from collections.abc import Mapping


def encode_position(url: str, cookies: Mapping[str, bytes]) -> bytes:
    """Encode a server's cookies, one for each followed part of the directory, as a position."""
    texts = {name: base64.b64encode(cookie).decode() for name, cookie in cookies.items()}
    return json.dumps({"server": url, "cookies": texts}, separators=(",", ":")).encode()


def decode_position(position: bytes, url: str) -> Mapping[str, bytes]:
    """Return the cookies in a position by part; none if it is another server's or unreadable."""
    try:
        value = json.loads(position)
        if value["server"] != url:
            return {}
        return {
            name: base64.b64decode(text, validate=True)
            for name, text in value["cookies"].items()
            if text
        }
    except (ValueError, LookupError, TypeError, AttributeError):
        return {}
