"""What a caller says a call is: its request id and its place in a trace.

Both come from callers, go into the log and back into answers; so they are taken only
if they are what they should be, and nothing else of them is repeated.
"""

import re
import secrets
from collections.abc import Iterable
from typing import Any, Final, NamedTuple

REQUEST_ID: Final = "x-request-id"
TRACEPARENT: Final = "traceparent"

_ID: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/+=@-]{0,127}")
# https://www.w3.org/TR/trace-context/#traceparent-header; later versions may add parts.
_PARENT: Final = re.compile(
    r"(?!ff)[0-9a-f]{2}-(?!0{32})([0-9a-f]{32})-(?!0{16})([0-9a-f]{16})-[0-9a-f]{2}(.*)"
)


class RequestContext(NamedTuple):
    """What is known of a call beside its method; empty texts if nothing."""

    request_id: str = ""
    trace_id: str = ""
    parent_id: str = ""

    def fields(self) -> dict[str, str]:
        """Return what there is, as fields of a log line."""
        return {name: value for name, value in self._asdict().items() if value}


def call_identity(metadata: Iterable[tuple[str, Any]] | None) -> RequestContext:
    """Read the metadata of a call; what is malformed counts as absent."""
    request_id = trace_id = parent_id = ""
    for key, value in metadata or ():
        if not isinstance(value, str):
            continue
        if key == REQUEST_ID and not request_id and _ID.fullmatch(value):
            request_id = value
        elif key == TRACEPARENT and not trace_id:
            trace_id, parent_id = _parent(value)
    return RequestContext(request_id, trace_id, parent_id)


def new_request_id() -> str:
    """Return an id for a call whose caller gave none."""
    return secrets.token_hex(8)


def _parent(text: str) -> tuple[str, str]:
    match = _PARENT.fullmatch(text)
    if match is None:
        return "", ""
    trace_id, parent_id, rest = match.groups()
    if rest and (text.startswith("00") or not rest.startswith("-")):
        return "", ""
    return trace_id, parent_id
