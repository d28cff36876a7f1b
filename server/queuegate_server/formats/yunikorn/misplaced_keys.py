"""Says where a misplaced key in a queues.yaml belongs."""

from collections.abc import Collection, Mapping
from typing import Final

from queuegate.policy.names import ROOT
from queuegate_server.formats.findings.table import phrase
from queuegate_server.formats.yunikorn.model import (
    DOCUMENT,
    LIMIT,
    PARTITION,
    QUEUE,
    RULE,
    SUBJECTS,
)

PARTITION_SETTINGS: Final = frozenset(
    {"acl_names", "cache", "resolver", "semantics", "trust_provided_groups"}
)
_ACLS: Final = frozenset({"adminacl", "submitacl"})
_PLACES: Final[Mapping[str, Collection[str]]] = {
    "a queue": QUEUE,
    "resources": ("guaranteed", "max"),
    "a limit": LIMIT,
    "a filter": ("type", *SUBJECTS),
    "a placement rule": RULE,
    "a partition": PARTITION,
    "the document": DOCUMENT,
}
"""The keys that belong in each place, used to look up keys found elsewhere. The first place with
the key applies.
"""
_INSIDE: Final = {
    "the document": ("a partition",),
    "a limit": ("a queue", "resources"),
    "a placement rule": ("a filter",),
    "a filter": ("a placement rule",),
}
"""The places that take precedence over the first place, by the mapping that contains the key."""
_IN_MANY_PLACES: Final = frozenset({"name", "type"})


def right_place(key: str, what: str, partition: str, *, has_option: bool) -> str:
    """Return the remedy for a key in the wrong place; "" if it belongs nowhere.

    Args:
        key: The key.
        what: The mapping that contains the key, such as "a queue".
        partition: The name of the partition.
        has_option: Whether the user may pass --acl-names.
    """
    if key in PARTITION_SETTINGS:
        remedy = phrase("setting-of-server", setting=f"partitions.{partition}.{key}")
        return remedy + (phrase("or-option") if key == "acl_names" and has_option else "")
    if what in {"a partition", "the document"} and key in _ACLS:
        return phrase("acl-of-partition", root=ROOT)
    if what == "a child template" and key in _ACLS:
        return phrase("acl-of-template")
    nearby = _INSIDE.get(what, ())
    for place in (*nearby, *_PLACES):
        if key in _PLACES[place] and (place in nearby or key not in _IN_MANY_PLACES):
            return phrase("move-to", place=place)
    return phrase("move-amounts") if what == "resources" else ""
