"""Who a pod belongs to: the annotation `yunikorn.apache.org/user.info`.

From a pod to a decision:

    owner = user_info.from_pod(pod["metadata"])
    decision = client.check(owner.user, queue, groups=owner.groups)

The text is read as the scheduler reads it, so that both see the same user. Uses the
standard library only.
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
DEPRECATED_LABEL: Final = "yunikorn.apache.org/username"
"""The key of the label that named the user before there was the annotation."""
LABEL_KEY_VARIABLE: Final = "USER_LABEL_KEY"
"""The variable of the environment that names another label."""
DEFAULT_USER: Final = "nobody"
"""Who owns a pod that names no user."""
MOST_BYTES: Final = 256 * 1024
"""How long the text may be in UTF-8: what Kubernetes grants all annotations of an object."""

_LOG = logging.getLogger("queuegate.user_info")
_SURROGATES: Final = re.compile("[\ud800-\udfff]")
# Go's encoding/json writes these as escapes, so that the text is safe inside HTML.
_ESCAPED: Final = {ord(c): f"\\u{ord(c):04x}" for c in "&<>\u2028\u2029"}


class InvalidUserInfo(ValueError):
    """The text is no user.info annotation; the message says what is wrong and where."""


@dataclass(frozen=True, slots=True)
class UserInfo:
    """A user and her groups. Both may be empty; groups keep their order and repetitions."""

    user: str
    groups: tuple[str, ...] = ()


def parse(text: str) -> UserInfo:
    """Read the value of the annotation. Raises InvalidUserInfo.

    Strict JSON. As in the scheduler, names of members match without regard to case, the
    last of several wins, null counts as not given, and unknown members are ignored. Where
    there is no `user`, the name may stand under `username`, as in the documents' examples.
    """
    _check_size(text)
    try:
        pairs = json.loads(
            text,
            object_pairs_hook=_Pairs,
            parse_constant=_refuse_constant,
            # Not made into numbers: none is used, and one may have thousands of digits.
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
    """Write the value of the annotation. Raises InvalidUserInfo if it gets too long.

    The text is the one that the scheduler's admission controller writes: user before
    groups, groups in the order given, no blanks, what is empty left out.
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


def from_pod(metadata: Mapping[str, Any] | None, *, label_key: str | None = None) -> UserInfo:
    """Say who a pod belongs to, from its `metadata` as Kubernetes writes it in JSON.

    The annotation decides. If it is missing or empty, the deprecated label does, with a
    DeprecationWarning; its key is `label_key`, else what the variable USER_LABEL_KEY
    says, else `yunikorn.apache.org/username`. An annotation that is not valid is logged
    and the label is not asked. A pod that names no user belongs to `nobody`. Raises
    TypeError for what is no metadata, such as the whole pod.
    """
    text = _value(metadata, "annotations", ANNOTATION)
    if text:
        try:
            info = parse(text)
        except InvalidUserInfo as error:
            _LOG.warning("the pod belongs to %s: its user.info is %s", DEFAULT_USER, error)
            return UserInfo(DEFAULT_USER)
        return info if info.user else UserInfo(DEFAULT_USER, info.groups)
    key = label_key or os.environ.get(LABEL_KEY_VARIABLE) or DEPRECATED_LABEL
    user = _value(metadata, "labels", key)
    if not user:
        return UserInfo(DEFAULT_USER)
    message = f"the label {key} is deprecated: whoever makes a pod can write it; use {ANNOTATION}"
    warnings.warn(message, DeprecationWarning, stacklevel=2)
    _LOG.warning("the user of a pod was taken from the deprecated label %s", key)
    return UserInfo(user)


class _Number:
    """Stands for a number."""

    def __init__(self, _text: str) -> None:
        """Forget the digits."""


class _Pairs(list[tuple[str, Any]]):
    """The members of a JSON object in their order, repetitions included."""


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
    """Read a list of names. `kept` has those of earlier lists: as in Go, a null leaves what
    was at its place, until a list is empty or null.
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
    raise InvalidUserInfo(f"not valid JSON: {name} is no number there")


def _whole(text: str) -> str:
    """Replace halves of surrogate pairs as Go does: UTF-8 cannot carry them."""
    return _SURROGATES.sub("\ufffd", text)


def _check_size(text: str) -> None:
    if len(text) > MOST_BYTES or len(text.encode("utf-8", "replace")) > MOST_BYTES:
        raise InvalidUserInfo(f"longer than {MOST_BYTES} bytes")


def _where(error: json.JSONDecodeError) -> str:
    if error.pos >= len(error.doc):
        return "not valid JSON: the text ends too early"
    return f"not valid JSON: invalid character {error.doc[error.pos]!a} at position {error.pos + 1}"


def _value(metadata: Mapping[str, Any] | None, part: str, key: str) -> str:
    found: object = {} if metadata is None else metadata
    if not isinstance(found, Mapping) or "metadata" in found:
        raise TypeError('give the metadata of a pod, pod["metadata"], and not something else')
    values = found.get(part)
    if values is None:
        return ""
    if not isinstance(values, Mapping):
        raise TypeError(f"metadata.{part} must be a dict, not {type(values).__name__}")
    value = values.get(key)
    if value is not None and not isinstance(value, str):
        raise TypeError(f"metadata.{part}[{key!r}] must be a string, not {type(value).__name__}")
    return value or ""
