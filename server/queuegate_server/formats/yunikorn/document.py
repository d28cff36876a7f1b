"""Decodes the document of a queues.yaml, and says where a misplaced key belongs."""

from collections.abc import Collection, Mapping
from functools import partial
from typing import Final

from queuegate.policy.names import ROOT
from queuegate_server.formats.diagnostics import Diagnostics
from queuegate_server.formats.findings.table import finding, phrase
from queuegate_server.formats.yaml_nodes import MappingNode, Node, ScalarNode, SequenceNode
from queuegate_server.formats.yunikorn.model import (
    LIMIT,
    PARTITION,
    QUEUE,
    RULE,
    SUBJECTS,
    PartitionConfig,
    read_partitions,
    value_of,
)
from queuegate_server.formats.yunikorn.value_readers import Fields, Readers

_DOCUMENT: Final[Readers] = {
    "partitions": ("value", read_partitions),
    "checksum": ("", Fields.text),
}
SETTINGS_KEYS: Final = frozenset({
    "admission", "audit", "callers", "console", "drain", "fleet", "http", "limits", "listen", "log",
    "ops", "policies", "policy", "reflection", "resolvers", "sync", "tracing", "transport",
    "workers",
})  # fmt: skip
"""The top-level keys of the server's settings, except `partitions`, since policies also have it."""
_OTHER_DOCUMENTS: Final = {
    "policy tests": ("tests", "test FILE"),
    "claims about a policy": ("claims", "prove POLICY CLAIMS"),
}
"""Documents other than policies, each with an identifying key and the command that reads it."""
_NOT_OF_POLICIES: Final = SETTINGS_KEYS | {key for key, _ in _OTHER_DOCUMENTS.values()}
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
    "the document": _DOCUMENT,
}
"""The keys that belong in each place, for keys found elsewhere. The first place with the key
applies."""
_INSIDE: Final = {
    "the document": ("a partition",),
    "a limit": ("a queue", "resources"),
    "a placement rule": ("a filter",),
    "a filter": ("a placement rule",),
}
"""The places where a key is more likely to belong than in the first one, by the mapping that
contains it."""
_IN_MANY_PLACES: Final = frozenset({"name", "type"})


def _elsewhere(key: str, what: str, partition: str, *, has_option: bool) -> str:
    """Return where a key that is unknown in a place belongs; "" if it belongs nowhere."""
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


def _key_of_settings(root: Node) -> ScalarNode | None:
    """Return the first key that shows that the document is not a policy; None for a policy."""
    if not isinstance(root, MappingNode) or isinstance(root.get("partitions"), SequenceNode):
        return None
    return next((key for key, _ in root.entries.values() if key.text in _NOT_OF_POLICIES), None)


def decode(
    root: Node | None, diagnostics: Diagnostics, *, has_option: bool = False
) -> list[PartitionConfig]:
    """Decode a document's partitions, omitting invalid values.

    `has_option` is whether the user may pass --acl-names, for remedies.
    """
    if root is None:
        return []
    if (key := _key_of_settings(root)) is not None:
        found = finding("settings-instead-of-policy")
        for kind, (own_key, command) in _OTHER_DOCUMENTS.items():
            if isinstance(root, MappingNode) and own_key in root.entries:
                found = finding("other-document", kind=kind, command=command)
        diagnostics.add(key, found)
        return []
    read = value_of("the document", _DOCUMENT)
    elsewhere = partial(_elsewhere, has_option=has_option)
    return read(Fields(diagnostics, elsewhere), "the document", root) or []
