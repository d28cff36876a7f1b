"""Decodes objects from an API server. No value is trusted to have the expected type.

An answer is decoded in two parts: first where each object begins and ends, then one object after
another, so that other work can run in between. An object with too many values to decode at once
exists, but grants nothing.
"""

import sys
from collections.abc import Iterator
from typing import Annotated, Final, NamedTuple

import msgspec
from msgspec import Meta, Raw, Struct

from queuegate.policy.named_grants import Kind, ServiceAccount
from queuegate_server.formats.kubernetes_rbac.objects import (
    NAMESPACE,
    SUBJECT_KINDS,
    At,
    Binding,
    Key,
    QueueKey,
    QueueObject,
    RbacRole,
    Rule,
    Subject,
)
from queuegate_server.policystore.kubernetes.api_client import ApiFault, VersionGone

MAX_VALUES: Final = 10_000
"""The maximum number of values in an object that is decoded. Decoding one takes a few milliseconds.
"""
MAX_BYTES: Final = 512 * 1024
"""The maximum size of such an object."""
_LIVE: Final = At(0, 0, "")
_GONE: Final = 410
_ACCOUNT: Final = "ServiceAccount"
_NO_ROLE: Final = ("ClusterRole", "")
Entry = RbacRole | Binding | QueueObject
EntryKey = Key | QueueKey
_Names = tuple[str, ...]


class _Metadata(Struct, rename="camel"):
    name: str = ""
    """Empty in a bookmark."""
    namespace: str = ""
    resource_version: str = ""


class _Named(Struct):
    metadata: _Metadata


class _Rule(Struct, rename="camel"):
    verbs: _Names | None = None
    api_groups: _Names | None = None
    resources: _Names | None = None
    resource_names: _Names | None = None


class _Role(_Named):
    rules: tuple[_Rule, ...] | None = None


class _Subject(Struct):
    kind: str
    name: str
    namespace: str = ""


class _RoleReference(Struct):
    kind: str
    name: str


class _Binding(_Named, rename="camel"):
    role_ref: _RoleReference
    subjects: tuple[_Subject, ...] | None = None


class _ListMetadata(Struct, rename="camel"):
    resource_version: Annotated[str, Meta(min_length=1)]
    continue_: str = msgspec.field(default="", name="continue")


class ListPage(Struct):
    """A part of a list."""

    metadata: _ListMetadata
    items: list[Raw] | None = None


class _PageOfOne(Struct):
    metadata: _ListMetadata
    items: tuple[Raw]


class WatchEvent(Struct):
    """A change that a watch reports."""

    type: str
    """ADDED, MODIFIED, DELETED or BOOKMARK."""
    object: Raw


class _Status(Struct):
    code: int = 0


class _Version(Struct):
    version: str


class _Group(Struct, rename="camel"):
    preferred_version: _Version
    versions: list[_Version]


class Decoded(NamedTuple):
    """An object."""

    key: EntryKey
    entry: Entry
    size: int
    """The number of names in it, plus one for the object itself."""
    is_oversized: bool
    """Whether it has too many values, so that it grants nothing."""


_page = msgspec.json.Decoder(ListPage).decode
_page_of_one = msgspec.json.Decoder(_PageOfOne).decode
_event = msgspec.json.Decoder(WatchEvent).decode
_named = msgspec.json.Decoder(_Named).decode
_role = msgspec.json.Decoder(_Role).decode
_binding = msgspec.json.Decoder(_Binding).decode
_status = msgspec.json.Decoder(_Status).decode
_group = msgspec.json.Decoder(_Group).decode
_FAULTS: Final = (msgspec.DecodeError, msgspec.ValidationError, RecursionError, UnicodeError)


def page(data: bytes, limit: int) -> ListPage:
    """Decode one part of a list, with at most `limit` objects. Raises ApiFault."""
    try:
        if limit == 1 and len(data) > MAX_VALUES:
            # A list of unknown length could have millions of items.
            one = _page_of_one(data)
            return ListPage(one.metadata, [*one.items])
        read = _page(data)
    except _FAULTS as error:
        raise _fault("a list", error) from None
    if len(read.items or ()) > limit:
        raise ApiFault(f"the API server sent more than the {limit} objects that were asked for")
    return read


def event(line: bytes) -> WatchEvent:
    """Decode a line of a watch. Raises ApiFault; VersionGone if the watch cannot be continued."""
    try:
        read = _event(line)
        code = _status(read.object).code if read.type == "ERROR" else 0
    except _FAULTS as error:
        raise _fault("an event", error) from None
    if code == _GONE:
        raise VersionGone("the API server no longer has this version (410)")
    if read.type not in {"ADDED", "MODIFIED", "DELETED", "BOOKMARK"}:
        raise ApiFault(f"the API server ended a watch with status {code}")
    return read


def version_of(item: Raw) -> str:
    """Return the version of an object. Raises ApiFault."""
    return _metadata(item).resource_version


def versions(data: bytes) -> Iterator[str]:
    """Yield the versions of an API group, the preferred one first. Raises ApiFault."""
    try:
        read = _group(data)
    except _FAULTS as error:
        raise _fault("an API group", error) from None
    names = [read.preferred_version, *read.versions]
    yield from dict.fromkeys(each.version for each in names)


def decode(item: Raw, resource: str, queue: Kind | None, *, is_namespaced: bool) -> Decoded:
    """Decode an object.

    Args:
        item: The object.
        resource: The plural name of its resource.
        queue: The kind of queue; None for RBAC.
        is_namespaced: Whether objects of the resource have a namespace.

    Raises:
        ApiFault: The item is not an object of this resource.
    """
    size = len(item)
    is_oversized = size > MAX_BYTES or (size > MAX_VALUES and bytes(item).count(b",") > MAX_VALUES)
    if queue is not None or is_oversized:
        key = _key(_metadata(item), is_namespaced=is_namespaced)
        namespace, name = key
        if queue is not None:
            entry: Entry = QueueObject(queue, namespace, name, _LIVE)
            return Decoded((queue.level, *key), entry, 1, is_oversized=False)
        if resource.endswith("roles"):
            return Decoded(key, RbacRole(namespace, name, (), False, _LIVE), 1, is_oversized=True)
        return Decoded(key, Binding(namespace, name, *_NO_ROLE, (), _LIVE), 1, True)
    try:
        if resource.endswith("roles"):
            return _decoded_role(_role(item), is_namespaced=is_namespaced)
        return _decoded_binding(_binding(item), is_namespaced=is_namespaced)
    except _FAULTS as error:
        raise _fault("an object", error) from None


def _decoded_role(read: _Role, *, is_namespaced: bool) -> Decoded:
    key = _key(read.metadata, is_namespaced=is_namespaced)
    rules = tuple(
        Rule(*map(_interned, (each.verbs, each.api_groups, each.resources, each.resource_names)))
        for each in read.rules or ()
    )
    size = 1 + sum(1 + sum(map(len, rule)) for rule in rules)
    return Decoded(key, RbacRole(*key, rules, False, _LIVE), size, False)


def _decoded_binding(read: _Binding, *, is_namespaced: bool) -> Decoded:
    key = _key(read.metadata, is_namespaced=is_namespaced)
    namespace, name = key
    subjects = tuple(filter(None, (_subject(each, namespace) for each in read.subjects or ())))
    reference = (sys.intern(read.role_ref.kind), sys.intern(read.role_ref.name))
    if reference[0] not in ({"Role", "ClusterRole"} if is_namespaced else {"ClusterRole"}):
        reference = _NO_ROLE
    binding = Binding(namespace, name, *reference, subjects, _LIVE)
    return Decoded(key, binding, 1 + len(subjects), is_oversized=False)


def _subject(read: _Subject, namespace: str) -> Subject | None:
    """Return a subject; None for one that the API server would refuse."""
    kind = SUBJECT_KINDS.get(read.kind)
    home = read.namespace or namespace
    if kind is None or not read.name or (read.kind == _ACCOUNT and not home):
        return None
    is_account = read.kind == _ACCOUNT
    name = ServiceAccount(home, read.name).user if is_account else read.name
    return Subject(kind, sys.intern(name))


def _interned(names: _Names | None) -> _Names:
    return tuple(map(sys.intern, names or ()))


def _metadata(item: Raw) -> _Metadata:
    try:
        return _named(item).metadata
    except _FAULTS as error:
        raise _fault("an object", error) from None


def _key(metadata: _Metadata, *, is_namespaced: bool) -> Key:
    namespace, name = metadata.namespace, metadata.name
    is_valid = NAMESPACE.fullmatch(namespace) is not None if is_namespaced else not namespace
    if not name or not is_valid:
        raise ApiFault("the API server sent an object without a usable name or namespace")
    return sys.intern(namespace), sys.intern(name)


def _fault(what: str, error: Exception) -> ApiFault:
    # msgspec's messages mention fields and types, but never values.
    return ApiFault(f"the API server sent {what} that cannot be used: {error}")
