"""Validates the scheduler's ConfigMaps before the scheduler and queuegate load them."""

import asyncio
import base64
import dataclasses
from collections.abc import Mapping
from typing import Final

from queuegate_server.admission.annotations.rules import UPDATE, AdmissionRequest
from queuegate_server.admission.annotations.workloads import UnreadableObject
from queuegate_server.admission.annotations.yunikorn_settings import (
    YuniKornSettingsError,
    read_settings,
)
from queuegate_server.admission.annotations.yunikorn_settings_lint import lint_settings
from queuegate_server.admission.server.review import AdmissionResponse, deny
from queuegate_server.files.configmap import (
    CONFIGS,
    DEFAULTS,
    MAX_BYTES,
    POLICY_GROUP,
    decompress,
    is_compressed,
    queues_key,
)
from queuegate_server.formats.diagnostics import quoted
from queuegate_server.formats.findings.finding import Severity
from queuegate_server.formats.format_names import YUNIKORN
from queuegate_server.formats.registry import FormatOptions
from queuegate_server.policystore import parser_process
from queuegate_server.policystore.parsing import CheckJob, File

_CHECKED_OPERATIONS: Final = frozenset({"CREATE", UPDATE})
_MAX_LINES: Final = 20


def concerns_config_map(request: AdmissionRequest) -> bool:
    """Return whether a request writes one of the scheduler's ConfigMaps. Other ConfigMaps are not
    checked.
    """
    return (
        request.kind == "ConfigMap"
        and request.operation in _CHECKED_OPERATIONS
        and _name(request) in {CONFIGS, DEFAULTS}
    )


async def check_config_map(request: AdmissionRequest, options: FormatOptions) -> AdmissionResponse:
    """Validate a scheduler ConfigMap.

    The options say how to read policies. If there are errors, the response is a denial that lists
    them. Raises OSError if the parser process cannot be started.
    """
    if isinstance(request.new, UnreadableObject):
        return deny(str(request.new))
    config_map = request.new if isinstance(request.new, dict) else {}
    texts = config_map.get("data") or {}
    binary = config_map.get("binaryData") or {}
    if not isinstance(request.new, dict) or not (_is_texts(texts) and _is_texts(binary)):
        return deny("the object is not a valid ConfigMap")
    try:
        data = _values(texts, binary)
    except ValueError as error:
        return deny(str(error))
    if sum(map(len, data.values())) > MAX_BYTES:
        return deny(f"the values of the ConfigMap have more than {MAX_BYTES} bytes; shorten them")
    # Run in a thread, because a malicious pattern can take a full second to compile.
    errors, warnings = await asyncio.to_thread(_check_settings, data)
    if warning := _missing_queues(data, _name(request)):
        warnings.append(warning)
    # Check all keys, because the scheduler's other ConfigMap may select any of them.
    files = tuple(File(key, data[key]) for key in sorted(data) if key.endswith(".yaml"))
    # Reject manifests and gzip data, because the scheduler does not accept them as values.
    options = dataclasses.replace(options, is_bare=True)
    job = CheckJob(YUNIKORN, files, options, with_lint=False)
    for diagnostic in await parser_process.check(job) if files else ():
        (errors if diagnostic.severity is Severity.ERROR else warnings).append(str(diagnostic))
    more = len(errors) - _MAX_LINES
    message = "\n".join([*errors[:_MAX_LINES], *([f"and {more} more"] if more > 0 else [])])
    return AdmissionResponse(allowed=not errors, message=message, warnings=tuple(warnings))


def _missing_queues(data: Mapping[str, bytes], name: object) -> str:
    """Return a warning if the ConfigMap names a policy group but lacks the group's key, else ""."""
    key = queues_key(data)
    if not data.get(POLICY_GROUP) or key in data:
        return ""
    other = DEFAULTS if name == CONFIGS else CONFIGS
    return (
        f"{POLICY_GROUP}: YuniKorn reads the key {quoted(key)}, which this ConfigMap does not have;"
        f" unless {other} has it, YuniKorn opens its queues to everyone"
        f" (add the key, or correct {POLICY_GROUP})"
    )


def _check_settings(data: Mapping[str, bytes]) -> tuple[list[str], list[str]]:
    """Return errors and warnings about the webhook's settings."""
    settings = {key: value.decode("utf-8", "replace") for key, value in data.items()}
    warnings = [*lint_settings(settings)]
    try:
        read_settings(settings)
    except YuniKornSettingsError as error:
        return list(error.faults), warnings
    return [], warnings


def _values(texts: Mapping[str, str], binary: Mapping[str, str]) -> Mapping[str, bytes]:
    """Return the values as they appear when mounted in a pod. Raises ValueError; the message names
    the key.
    """
    values = {key: text.encode() for key, text in texts.items()}
    for key in filter(is_compressed, binary):
        try:
            values[key] = base64.b64decode(binary[key], validate=True)
        except ValueError:
            raise ValueError(f"binaryData.{key} is not base64") from None
    return decompress(values)


def _name(request: AdmissionRequest) -> object:
    if request.name:
        return request.name
    metadata = request.new.get("metadata") if isinstance(request.new, dict) else None
    return metadata.get("name") if isinstance(metadata, dict) else None


def _is_texts(data: object) -> bool:
    return isinstance(data, Mapping) and all(isinstance(value, str) for value in data.values())
