"""Determines a pod's owner and queue as YuniKorn does.

From a pod to a decision:

    >>> pod = {
    ...     "metadata": {
    ...         "labels": {user_info.QUEUE: "root.analytics.reports"},
    ...         "annotations": {user_info.ANNOTATION: '{"user":"sue"}'},
    ...     }
    ... }
    >>> owner = user_info.from_pod(pod["metadata"])
    >>> queue = user_info.queue_of(pod["metadata"])
    >>> client.check(owner.user, queue, groups=owner.groups or None).allowed
    True

The annotation `yunikorn.apache.org/user.info` is parsed exactly as the scheduler parses it, so both
see the same user. This module imports only the standard library.
"""

import json
import logging
import os
import re
import warnings
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

ANNOTATION: Final = "yunikorn.apache.org/user.info"
"""The annotation's key."""
LEGACY_LABEL: Final = "yunikorn.apache.org/username"
"""The key of the user label, the annotation's predecessor."""
LABEL_KEY_VARIABLE: Final = "USER_LABEL_KEY"
"""The environment variable that overrides the key of the user label."""
QUEUE: Final = "yunikorn.apache.org/queue"
"""The key shared by the queue label and the queue annotation."""
OLD_QUEUE_LABEL: Final = "queue"
"""The key of the old queue label, used if neither the label nor the annotation is set."""
DEFAULT_USER: Final = "nobody"
"""The owner of a pod that does not name a user."""
MAX_BYTES: Final = 256 * 1024
"""The annotation's maximum size in bytes of UTF-8. Kubernetes applies this limit to all annotations
on an object."""

_ROOT: Final = "root"
_BELOW_ROOT: Final = "root."
_LOG = logging.getLogger("queuegate.user_info")
_SURROGATES: Final = re.compile("[\ud800-\udfff]")
# Go's encoding/json escapes these characters to make the text safe inside HTML.
_ESCAPED: Final = {ord(c): f"\\u{ord(c):04x}" for c in "&<>\u2028\u2029"}


class InvalidUserInfo(ValueError):
    """An invalid user.info annotation. The message describes the fault."""


@dataclass(frozen=True, slots=True)
class UserInfo:
    """A user name and the user's groups. Both may be empty."""

    user: str
    """The user name."""
    groups: tuple[str, ...] = ()
    """The user's groups in their original order, starting with the primary group."""


def parse(text: str) -> UserInfo:
    """Parse the annotation's value.

    As in the scheduler, member names are case-insensitive, null means absent, and unknown members
    are ignored. If a member is repeated, the last value wins. `username` is accepted in place of
    `user`, as in YuniKorn's documentation.

    Args:
        text: The value: strict JSON of at most 256 KiB.

    Returns:
        The user and the groups; both may be empty.

    Raises:
        InvalidUserInfo: The text is invalid.

    Example:
        >>> user_info.parse('{"user":"sue","groups":["analysts"]}')
        UserInfo(user='sue', groups=('analysts',))
    """
    _check_size(text)
    try:
        pairs = json.loads(
            text,
            object_pairs_hook=_Pairs,
            parse_constant=_refuse_constant,
            # Numbers are unused, and may have thousands of digits, so they are not converted.
            parse_int=_Number,
            parse_float=_Number,
        )
    except json.JSONDecodeError as error:
        raise InvalidUserInfo(_where(error)) from None
    except RecursionError:
        raise InvalidUserInfo("not valid JSON: nested too deeply") from None
    if pairs is None:
        return UserInfo("")
    if not isinstance(pairs, _Pairs):
        raise InvalidUserInfo('must be a JSON object such as {"user":"alice","groups":["dev"]}')
    return _from_pairs(pairs)


def build(user: str, groups: Iterable[str] = ()) -> str:
    """Build the annotation's value.

    The text is identical to the admission controller's: JSON without spaces, in which the user
    precedes the groups, the groups keep their order, and empty members are omitted.

    Args:
        user: The user name.
        groups: The user's groups, starting with the primary group.

    Returns:
        The JSON text.

    Raises:
        InvalidUserInfo: The text would exceed 256 KiB.
        TypeError: `groups` is a single string.

    Example:
        >>> user_info.build("sue", ["analysts"])
        '{"user":"sue","groups":["analysts"]}'
    """
    if isinstance(groups, str):
        raise TypeError("groups must be a list of strings, not one string")
    members: dict[str, object] = {}
    if user:
        members["user"] = _whole(user)
    listed = [_whole(group) for group in groups]
    if listed:
        members["groups"] = listed
    text = json.dumps(members, ensure_ascii=False, separators=(",", ":")).translate(_ESCAPED)
    _check_size(text)
    return text


def from_pod(metadata: Mapping[str, Any] | None, *, legacy_label: bool | str = False) -> UserInfo:
    """Return a pod's owner, given its `metadata` from the Kubernetes API.

    The owner is the user in the annotation. A pod without a user, or with an invalid annotation,
    belongs to `nobody`. Invalid annotations are logged.

    Anyone who may create a pod can set the legacy label to any name. YuniKorn 1.9 calls the label
    unsupported, and later versions ignore it. With `legacy_label`, the label is used if the
    annotation is missing or empty, and a DeprecationWarning is issued.

    Args:
        metadata: The pod's metadata.
        legacy_label: Whether to use the legacy label. If a string, the label's key. If True, the
            key is taken from the environment variable USER_LABEL_KEY, and defaults to
            `yunikorn.apache.org/username`.

    Returns:
        The user, with the groups in the annotation.

    Raises:
        TypeError: The argument is not metadata; it may be the pod itself.

    Example:
        >>> user_info.from_pod({"annotations": {user_info.ANNOTATION: '{"user":"sue"}'}})
        UserInfo(user='sue', groups=())
        >>> user_info.from_pod({"labels": {user_info.LEGACY_LABEL: "sue"}}).user
        'nobody'
    """
    text = _value(metadata, "annotations", ANNOTATION)
    if text:
        try:
            info = parse(text)
        except InvalidUserInfo as error:
            _LOG.warning("the pod belongs to %s: its user.info is %s", DEFAULT_USER, error)
            return UserInfo(DEFAULT_USER)
        return info if info.user else UserInfo(DEFAULT_USER, info.groups)
    if not legacy_label:
        return UserInfo(DEFAULT_USER)
    key = os.environ.get(LABEL_KEY_VARIABLE) or LEGACY_LABEL
    if isinstance(legacy_label, str):
        key = legacy_label
    user = _value(metadata, "labels", key)
    if not user:
        return UserInfo(DEFAULT_USER)
    why = "anyone who creates a pod can set it"
    message = f"the label {key} is deprecated: {why}; use {ANNOTATION}"
    warnings.warn(message, DeprecationWarning, stacklevel=2)
    _LOG.warning("a pod's user was taken from the deprecated label %s", key)
    return UserInfo(user)


def queue_of(metadata: Mapping[str, Any] | None, *, parent: str = "root") -> str:
    """Return the path of a pod's queue, given its `metadata`.

    As in YuniKorn, the label `yunikorn.apache.org/queue` takes precedence over the annotation with
    the same key, and the annotation over the `queue` label. Empty values are ignored.
    `provided_queue` converts the name to a path.

    YuniKorn places an application according to its first pod. Later pods with the same application
    ID join that application, regardless of the queues that they name.

    Args:
        metadata: The pod's metadata.
        parent: As in `provided_queue`.

    Returns:
        The path, or an empty string if the pod does not name a queue. Another placement rule then
        selects the queue.

    Raises:
        TypeError: The argument is not metadata; it may be the pod itself.

    Example:
        >>> user_info.queue_of({"labels": {"queue": "root.sandbox", user_info.QUEUE: "root.etl"}})
        'root.etl'
    """
    name = (
        _value(metadata, "labels", QUEUE)
        or _value(metadata, "annotations", QUEUE)
        or _value(metadata, "labels", OLD_QUEUE_LABEL)
    )
    return provided_queue(name, parent=parent)


def provided_queue(name: str, *, parent: str = "root") -> str:
    """Return the path of the queue selected by YuniKorn's `provided` placement rule.

    A name starting with `root.` is a path. Any other name, even `root`, refers to a queue directly
    below a parent, and dots in it become `_dot_`.

    Args:
        name: The name given by a pod or an application.
        parent: The path of the queue selected by the rule's parent, such as `root.dev` if a `tag`
            rule selects the namespace `dev`. `root.` is prepended if missing.

    Returns:
        The path, or an empty string if `name` is empty. It is not validated; a server rejects
        invalid characters.

    Example:
        >>> user_info.provided_queue("root.etl")
        'root.etl'
        >>> user_info.provided_queue("team.etl", parent="root.dev")
        'root.dev.team_dot_etl'
    """
    if not name or name.startswith(_BELOW_ROOT):
        return name
    if parent not in {"", _ROOT} and not parent.startswith(_BELOW_ROOT):
        parent = _BELOW_ROOT + parent
    return f"{parent or _ROOT}.{name.replace('.', '_dot_')}"


class _Number:
    """A placeholder for a number in an annotation. The number itself is unused."""

    def __init__(self, _text: str) -> None:
        """Discard the digits."""


class _Pairs(list[tuple[str, Any]]):
    """The members of a JSON object, in order and including duplicates."""


def _from_pairs(pairs: _Pairs) -> UserInfo:
    user: str | None = None
    documented: tuple[str, object] = ("username", "")
    groups: tuple[str, ...] = ()
    kept: list[str] = []
    for written, value in pairs:
        member = written.casefold()
        if member == "user" and value is not None:
            user = _text(written, value)
        elif member == "username" and value is not None:
            documented = (written, value)
        elif member == "groups":
            groups = _texts(written, value, kept)
    return UserInfo(_text(*documented) if user is None else user, groups)


def _text(member: str, value: object) -> str:
    if not isinstance(value, str):
        raise InvalidUserInfo(f"{member!a} must be a string")
    return _whole(value)


def _texts(member: str, value: object, kept: list[str]) -> tuple[str, ...]:
    """Parse a list of names. `kept` contains the values of an earlier member with the same name. As
    in Go, a null element keeps the earlier value at its index; an empty or null list clears `kept`.
    """
    if value is None:
        value = []
    if isinstance(value, _Pairs) or not isinstance(value, list):
        raise InvalidUserInfo(f"{member!a} must be a list of strings")
    if not value:
        kept.clear()
    for place, group in enumerate(value):
        text = None if group is None else _text(member, group)
        if place == len(kept):
            kept.append(text or "")
        elif text is not None:
            kept[place] = text
    return tuple(kept[: len(value)])


def _refuse_constant(name: str) -> None:
    raise InvalidUserInfo(f"not valid JSON: {name} is not a JSON number")


def _whole(text: str) -> str:
    """Replace lone surrogates as Go does, because UTF-8 cannot encode them."""
    return _SURROGATES.sub("\ufffd", text)


def _check_size(text: str) -> None:
    if len(text) > MAX_BYTES or len(text.encode("utf-8", "replace")) > MAX_BYTES:
        raise InvalidUserInfo(f"longer than {MAX_BYTES} bytes")


def _where(error: json.JSONDecodeError) -> str:
    if error.pos >= len(error.doc):
        return "not valid JSON: the text ends too early"
    return f"not valid JSON: invalid character {error.doc[error.pos]!a} at position {error.pos + 1}"


def _value(metadata: Mapping[str, Any] | None, part: str, key: str) -> str:
    mapping: object = {} if metadata is None else metadata
    if not isinstance(mapping, Mapping) or "metadata" in mapping:
        raise TypeError('pass the metadata of a pod, pod["metadata"], not another object')
    values = mapping.get(part)
    if values is None:
        return ""
    if not isinstance(values, Mapping):
        raise TypeError(f"metadata.{part} must be a dict, not {type(values).__name__}")
    value = values.get(key)
    if value is not None and not isinstance(value, str):
        raise TypeError(f"metadata.{part}[{key!r}] must be a string, not {type(value).__name__}")
    return value or ""
