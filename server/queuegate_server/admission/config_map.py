"""Refuses a ConfigMap of the scheduler that the scheduler, or we, could not use."""

import base64
from collections.abc import Mapping
from typing import Any, Final

from queuegate.policy.acl import AclNames
from queuegate_server.admission.review import Review
from queuegate_server.admission.rules import UPDATE, Verdict
from queuegate_server.admission.settings import SettingsError, read_settings
from queuegate_server.files.configmap import CONFIGS, DEFAULTS, expanded, is_compressed
from queuegate_server.formats.diagnostics import Severity
from queuegate_server.formats.registry import load_policy

_CHECKED_OPERATIONS: Final = frozenset({"CREATE", UPDATE})
_SHOWN: Final = 20


def check_config_map(review: Review, acl_names: AclNames) -> tuple[Verdict, tuple[str, ...]]:
    """Return the verdict, with the errors as its message, and warnings for the user.

    ConfigMaps of other names are allowed unread. Takes up to seconds for a large text;
    needs no event loop.
    """
    request = review.request
    if (
        request.kind != "ConfigMap"
        or request.operation not in _CHECKED_OPERATIONS
        or _name(review) not in {CONFIGS, DEFAULTS}
    ):
        return Verdict(allowed=True), ()
    config_map = request.new if isinstance(request.new, dict) else {}
    texts = config_map.get("data") or {}
    binary = config_map.get("binaryData") or {}
    if not isinstance(request.new, dict) or not (_is_texts(texts) and _is_texts(binary)):
        return Verdict(allowed=False, message="the object is no ConfigMap"), ()
    try:
        data = _values(texts, binary)
    except ValueError as error:
        return Verdict(allowed=False, message=str(error)), ()
    errors: list[str] = []
    warnings: list[str] = []
    try:
        read_settings({key: value.decode("utf-8", "replace") for key, value in data.items()})
    except SettingsError as error:
        errors.extend(error.faults)
    # All of them: which one holds the queues, the other ConfigMap may say.
    for key in sorted(name for name in data if name.endswith(".yaml")):
        for problem in load_policy("yunikorn", data[key], key, acl_names=acl_names).diagnostics:
            (errors if problem.severity is Severity.ERROR else warnings).append(str(problem))
    if errors:
        return Verdict(allowed=False, message="\n".join(_first(errors))), _first(warnings)
    return Verdict(allowed=True), _first(warnings)


def _values(texts: Mapping[str, str], binary: Mapping[str, str]) -> Mapping[str, bytes]:
    """Return the keys as they will be mounted. Raises ValueError, which names the key."""
    values = {key: text.encode() for key, text in texts.items()}
    for key in filter(is_compressed, binary):
        try:
            values[key] = base64.b64decode(binary[key], validate=True)
        except ValueError:
            raise ValueError(f"binaryData.{key} is not base64") from None
    return expanded(values)


def _name(review: Review) -> object:
    if review.name:
        return review.name
    # The API server leaves the name out where it is generated.
    metadata: Any = (
        review.request.new.get("metadata") if isinstance(review.request.new, dict) else {}
    )
    return metadata.get("name") if isinstance(metadata, dict) else None


def _is_texts(data: object) -> bool:
    return isinstance(data, Mapping) and all(isinstance(value, str) for value in data.values())


def _first(lines: list[str]) -> tuple[str, ...]:
    if len(lines) <= _SHOWN:
        return tuple(lines)
    return (*lines[:_SHOWN], f"and {len(lines) - _SHOWN} more")
