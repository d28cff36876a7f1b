"""The names of users and groups in requests. Pure."""

from typing import Final

from queuegate.policy.names import CONTROL_CHARACTER
from queuegate_server.admission.server.webhook_limits import MAX_NAME_BYTES

_MAX_SHORT: Final = 256
"""Printable names of up to this length are valid. Nearly all names are."""


def name_fault(text: str) -> str:
    """Return why a string cannot be the name of a user or group, such as `is empty`, or ""."""
    if len(text) <= _MAX_SHORT and text.isprintable():
        return "" if text else "is empty"
    if len(text.encode("utf-8", "surrogatepass")) > MAX_NAME_BYTES:
        return f"has more than {MAX_NAME_BYTES} bytes"
    return "has a control character" if CONTROL_CHARACTER.search(text) else ""
