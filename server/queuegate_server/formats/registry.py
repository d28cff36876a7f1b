"""The formats of policies, by name."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from queuegate.policy.acl import AclNames
from queuegate.policy.tree import Partition
from queuegate_server.formats.diagnostics import Diagnostic
from queuegate_server.formats.yarn import load as yarn
from queuegate_server.formats.yarn.model import DEFAULT_OPTIONS, YarnOptions
from queuegate_server.formats.yunikorn import load as yunikorn


@dataclass(frozen=True, slots=True)
class Loaded:
    """What a configuration text says."""

    partitions: Mapping[str, Partition]
    """By name; empty if a diagnostic is an error."""
    diagnostics: tuple[Diagnostic, ...]
    """All diagnostics, by position."""


YUNIKORN: Final = "yunikorn"
FORMATS: Final = frozenset({YUNIKORN, *yarn.STATES})
"""The names of all formats."""

# What may stand before the first tag: a byte order mark, a declaration, comments. Nothing
# is tried twice: a text of comments must not take time without end.
_FIRST_TAG: Final = re.compile(
    rb"(?:\xef\xbb\xbf)?+(?>\s++|<\?.*?\?>|<!--.*?-->|<!(?!--)[^>]*+>)*+<([\w:.-]++)", re.DOTALL
)
_FIRST_TAGS: Final = {
    b"allocations": "fair-scheduler",
    b"configuration": "capacity-scheduler",
}
_SOME_XML: Final = "fair-scheduler"
_MARKUP: Final = re.compile(rb"(?:\xef\xbb\xbf)?\s*+<[!?]")
_LOOKED_AT: Final = 65_536


def detect_format(data: bytes) -> str:
    """Return the name of the format that a text seems to have: XML by its top element, also
    where that is not found, as behind a document type; everything else is YuniKorn's.
    """
    start = data[:_LOOKED_AT]
    if found := _FIRST_TAG.match(start):
        return _FIRST_TAGS.get(found[1], _SOME_XML)
    return _SOME_XML if _MARKUP.match(start) else YUNIKORN


def load_policy(
    format_name: str,
    data: bytes,
    file: str,
    *,
    acl_names: Callable[[str], AclNames] | AclNames = AclNames.YUNIKORN,
    resolver_types: frozenset[str] = yunikorn.RESOLVER_TYPES,
    yarn_options: YarnOptions = DEFAULT_OPTIONS,
) -> Loaded:
    """Read a policy; find everything that is wrong in it in one go.

    `file` is the name that the diagnostics show. `acl_names` says which names ACLs may
    list, in all partitions or by the name of the partition. `resolver_types` are the
    types of group resolvers that a partition may ask for beside those that the format
    knows itself. `yarn_options` matter to the formats of YARN, the others to YuniKorn's.
    May take seconds for a large text; needs no event loop.

    Raises ValueError if the format is not known.
    """
    if format_name not in FORMATS:
        raise ValueError(unknown_format(format_name))
    if format_name in yarn.STATES:
        partitions, diagnostics = yarn.load(yarn.STATES[format_name], data, file, yarn_options)
    else:
        partitions, diagnostics = yunikorn.load(
            data, file, acl_names=names_chooser(acl_names), resolver_types=resolver_types
        )
    return Loaded(MappingProxyType(dict(partitions)), diagnostics)


def names_chooser(acl_names: Callable[[str], AclNames] | AclNames) -> Callable[[str], AclNames]:
    """Return which names the ACLs of a partition may list, by the name of the partition."""
    if isinstance(acl_names, AclNames):
        return lambda _: acl_names
    return acl_names


def unknown_format(name: str) -> str:
    """Say that a format is not known, and which ones are."""
    return f"{name!r} is not a format of policies; known are {', '.join(sorted(FORMATS))}"
