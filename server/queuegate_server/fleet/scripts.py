"""Lua scripts that run in Redis, from the folder lua.

Anyone who can write to Redis can store anything under the fleet's keys. Scripts therefore bound the
number and size of returned values, and delete keys of the wrong type. An oversized value is
truncated to one byte more than the limit, so the caller can reject it. Scripts that use the fleet's
state take `Keys.state` as their keys.

A script consists of one or several files, concatenated. They refer to a limit as `$NAME`.
"""

import re
from pathlib import Path
from string import Template
from typing import Final

from queuegate_server.fleet.connection import Script
from queuegate_server.fleet.events import MAX_STATUS_BYTES
from queuegate_server.fleet.keys import EPOCH_BYTES, NONCE_BYTES

MAX_SEQUENCE_DIGITS: Final = 18
"""The maximum number of digits in an event's number. The number must fit into 64 bits."""
MAX_STATUSES: Final = 2_000
"""The maximum number of statuses in a reply."""
MAX_STATUSES_BYTES: Final = 2 * 1024 * 1024
MAX_ENTRY_BYTES: Final = 128 * 1024
"""The maximum size of an entry. Names take up to 16 KiB, and several times as much in JSON."""
MAX_ENTRY_ITEMS: Final = 16
"""The maximum number of field names and values in a stream entry."""
_MAX_INSTANCE_BYTES: Final = 64

_LIMITS: Final = {
    "EPOCH_BYTES": EPOCH_BYTES,
    "MAX_ENTRY_BYTES": MAX_ENTRY_BYTES,
    "MAX_ENTRY_ITEMS": MAX_ENTRY_ITEMS,
    "MAX_INSTANCE_BYTES": _MAX_INSTANCE_BYTES,
    "MAX_SEQUENCE_DIGITS": MAX_SEQUENCE_DIGITS,
    "MAX_STATUSES": MAX_STATUSES,
    "MAX_STATUSES_BYTES": MAX_STATUSES_BYTES,
    "MAX_STATUS_BYTES": MAX_STATUS_BYTES,
    "NONCE_BYTES": NONCE_BYTES,
}


def _script(*names: str) -> Script:
    folder = Path(__file__).with_name("lua")
    text = "\n".join((folder / f"{name}.lua").read_text(encoding="utf-8") for name in names)
    return Script(Template(text).substitute(_LIMITS))


HEARTBEAT: Final = _script("calls", "state", "heartbeat")
"""Write a replica's status, and return the fleet's state. Arguments: the field, the value, and the
fields of statuses to return first."""
APPEND: Final = _script("calls", "state", "append")
"""Append an event, unless the history has changed or another replica has its turn, and return the
fleet's state and whether the event was appended."""
BEGIN: Final = _script("calls", "state", "begin")
"""Start a new history. Arguments: the epoch to replace, and the new epoch."""
REMOVE: Final = _script("calls", "remove")
"""Remove statuses that have not been rewritten. Arguments: each status's field and SHA-1."""
READ_EVENTS: Final = _script("calls", "read_events")
"""Read entries one by one. Arguments: XRANGE or XREVRANGE, the first and last id, and the maximum
numbers of entries and bytes. An entry too large to have been written by a replica is returned last,
without fields."""
READ_VALUES: Final = _script("calls", "read_values")
"""Read values, then create locks. Arguments: the number of keys to read, the maximum bytes per
value and in total, and the TTL of each lock in milliseconds. A value that is oversized or of the
wrong type is returned as empty; a value beyond the total is returned as missing."""
HOLD_SOURCE: Final = _script("calls", "hold_source")
"""Take, renew or release the lease on a source, unless another replica holds it; then return nil.
Otherwise, store the given position, if any, and return the stored one. Arguments: the replica, the
position, the TTLs of the lease and the position in milliseconds, the maximum size of a position,
and 1 to release the lease."""
PROBE: Final = _script("probe")
"""Try each of PROBED_COMMANDS on a missing key; return their errors, empty for permitted
commands."""
PROBED_COMMANDS: Final = (*re.findall(r"^try\('(\w+)'", PROBE.text, re.MULTILINE),)
"""The commands that scripts use, but not every heartbeat does. Their arguments make them no-ops on
a missing key. DEL comes first, in case the key exists."""
