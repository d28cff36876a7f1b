"""Decodes the document of a queues.yaml, unless it is a different kind of document."""

from functools import partial
from typing import Final

from queuegate_server.formats.diagnostics import Diagnostics
from queuegate_server.formats.findings.table import finding
from queuegate_server.formats.yaml_nodes import MappingNode, Node, ScalarNode, SequenceNode
from queuegate_server.formats.yunikorn.misplaced_keys import right_place
from queuegate_server.formats.yunikorn.model import DOCUMENT, PartitionConfig, value_of
from queuegate_server.formats.yunikorn.value_readers import Fields

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


def _key_of_settings(root: Node) -> ScalarNode | None:
    """Return the first key that shows that the document is not a policy; None for a policy."""
    if not isinstance(root, MappingNode) or isinstance(root.get("partitions"), SequenceNode):
        return None
    return next((key for key, _ in root.entries.values() if key.text in _NOT_OF_POLICIES), None)


def decode(
    root: Node | None, diagnostics: Diagnostics, *, has_option: bool = False
) -> list[PartitionConfig]:
    """Decode a document's partitions, omitting invalid values.

    `has_option` says whether remedies may suggest --acl-names.
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
    read = value_of("the document", DOCUMENT)
    elsewhere = partial(right_place, has_option=has_option)
    return read(Fields(diagnostics, elsewhere), "the document", root) or []
