"""The webhook's settings, from the scheduler's ConfigMaps and legacy environment variables.

Names and defaults follow YuniKorn's documentation. Pure; the caller reads files and variables.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from queuegate.policy.acl import WHITE_SPACE
from queuegate.user_info import LABEL_KEY_VARIABLE, LEGACY_LABEL
from queuegate_server.formats.yunikorn import go_regexp

MAX_PATTERN_CHARACTERS: Final = 64 * 1024
MAX_PATTERNS: Final = 1_000
"""The maximum number of patterns per list. Limited, because each name is matched against all of
them.
"""
_ACCESS: Final = "admissionController.accessControl."
_FILTER: Final = "admissionController.filtering."
_VARIABLE: Final = "ADMISSION_CONTROLLER_"

BOOLEANS: Final = {
    "bypass_auth": (f"{_ACCESS}bypassAuth", f"{_VARIABLE}BYPASS_AUTH", False),
    "trust_controllers": (f"{_ACCESS}trustControllers", f"{_VARIABLE}BYPASS_CONTROLLERS", True),
    "generate_unique_app_id": (f"{_FILTER}generateUniqueAppId", "", False),
}
"""The key, the environment variable if any, and the default, by field."""
LISTS: Final = {
    "system_users": (
        f"{_ACCESS}systemUsers",
        f"{_VARIABLE}SYSTEM_USERS",
        "^system:serviceaccount:kube-system:",
    ),
    "external_users": (f"{_ACCESS}externalUsers", f"{_VARIABLE}EXTERNAL_USERS", ""),
    "external_groups": (f"{_ACCESS}externalGroups", f"{_VARIABLE}EXTERNAL_GROUPS", ""),
    "process_namespaces": (f"{_FILTER}processNamespaces", f"{_VARIABLE}PROCESS_NAMESPACES", ""),
    "bypass_namespaces": (
        f"{_FILTER}bypassNamespaces",
        f"{_VARIABLE}BYPASS_NAMESPACES",
        "^kube-system$",
    ),
    "label_namespaces": (f"{_FILTER}labelNamespaces", f"{_VARIABLE}LABEL_NAMESPACES", ""),
    "no_label_namespaces": (f"{_FILTER}noLabelNamespaces", f"{_VARIABLE}NO_LABEL_NAMESPACES", ""),
}
# The values accepted by Go's ParseBool.
_TRUE: Final = frozenset({"1", "t", "T", "TRUE", "true", "True"})
_FALSE: Final = frozenset({"0", "f", "F", "FALSE", "false", "False"})


class InvalidPattern(ValueError):
    """The pattern does not compile; the message quotes it and states the reason."""


@dataclass(frozen=True, slots=True)
class Patterns:
    """A list of compiled patterns."""

    text: str
    _compiled: tuple[Any, ...]

    def __bool__(self) -> bool:
        return bool(self._compiled)

    def match(self, text: str) -> bool:
        """Return whether any pattern matches anywhere in the text, like Go's MatchString."""
        return any(pattern.search(text) is not None for pattern in self._compiled)


def compile_patterns(text: str) -> Patterns:
    """Compile a comma-separated list of patterns, skipping empty ones. Raises InvalidPattern.

    As in YuniKorn, every comma is a separator, even in `{1,2}`.
    """
    if len(text) > MAX_PATTERN_CHARACTERS:
        raise InvalidPattern(f"longer than {MAX_PATTERN_CHARACTERS} characters")
    patterns = split_patterns(text)
    if len(patterns) > MAX_PATTERNS:
        raise InvalidPattern(f"more than {MAX_PATTERNS} patterns")
    return Patterns(text, tuple(map(_compile, patterns)))


def split_patterns(text: str) -> tuple[str, ...]:
    """Return the nonempty patterns in a comma-separated list."""
    parts = (part.strip(WHITE_SPACE) for part in text.split(","))
    return tuple(filter(None, parts))


def _compile(pattern: str) -> Any:
    try:
        return go_regexp.compile_pattern(pattern)
    except go_regexp.BadPattern as error:
        raise InvalidPattern(f"the pattern {pattern!r} is not valid: {error}") from None


class YuniKornSettingsError(ValueError):
    """The settings are invalid. `faults` contains one line per fault."""

    def __init__(self, faults: tuple[str, ...]) -> None:
        super().__init__("; ".join(faults))
        self.faults = faults


@dataclass(frozen=True, slots=True)
class YuniKornSettings:
    """Settings for the rules: who may set the annotation, and where it is added."""

    bypass_auth: bool
    """Whether anyone may set the annotation."""
    trust_controllers: bool
    """Whether system users may set the annotation."""
    generate_unique_app_id: bool
    """Whether each pod without an application ID becomes its own application. If not, all such pods
    in a namespace form a single application. Used if `admission.yunikorn.enabled` is set.
    """
    system_users: Patterns
    """The accounts of Kubernetes controllers."""
    external_users: Patterns
    """Users who may set the annotation."""
    external_groups: Patterns
    """Groups whose members may set the annotation."""
    process_namespaces: Patterns
    """Namespaces to process; all if empty."""
    bypass_namespaces: Patterns
    """Namespaces to skip, even if processNamespaces matches them."""
    label_namespaces: Patterns
    """Namespaces in which workloads without an application ID are processed; all if empty."""
    no_label_namespaces: Patterns
    """Namespaces in which only workloads with an application ID are processed."""
    user_labels: tuple[str, ...] = (LEGACY_LABEL,)
    """The labels from which a scheduler may take the user."""

    def processes(self, namespace: str) -> bool:
        """Return whether the patterns select a namespace. Its annotations may override them."""
        return is_selected(namespace, self.process_namespaces, self.bypass_namespaces)


def is_selected(namespace: str, wanted: Patterns, unwanted: Patterns) -> bool:
    """Return whether patterns select a namespace. If there are no `wanted` patterns, all namespaces
    are wanted.
    """
    return (not wanted or wanted.match(namespace)) and not unwanted.match(namespace)


def decode_settings(values: Mapping[str, bytes]) -> Mapping[str, str]:
    """Decode the values in the ConfigMaps. Raises YuniKornSettingsError."""
    try:
        return {key: value.decode("utf-8") for key, value in values.items()}
    except UnicodeDecodeError:
        raise YuniKornSettingsError(("a ConfigMap key is not valid UTF-8",)) from None


def read_settings(
    values: Mapping[str, str], environment: Mapping[str, str] | None = None
) -> YuniKornSettings:
    """Parse the settings in the ConfigMaps. Raises YuniKornSettingsError.

    A key takes precedence over its environment variable. An empty value means an empty list or, for
    a boolean, the default.
    """
    environment = environment or {}
    faults: list[str] = []
    fields: dict[str, Any] = {}
    for field, (key, variable, preset) in BOOLEANS.items():
        name, text = given_setting(key, variable, values, environment)
        if text and text not in _TRUE | _FALSE:
            faults.append(f"{name}: {text!r} is not a boolean: write true or false")
        fields[field] = text in _TRUE if text else preset
    for field, (key, variable, default) in LISTS.items():
        name, text = given_setting(key, variable, values, environment)
        try:
            fields[field] = compile_patterns(default if text is None else text)
        except InvalidPattern as error:
            faults.append(f"{name}: {error}")
    if faults:
        raise YuniKornSettingsError(tuple(faults))
    labels = dict.fromkeys(filter(None, (LEGACY_LABEL, environment.get(LABEL_KEY_VARIABLE))))
    return YuniKornSettings(**fields, user_labels=tuple(labels))


def given_setting(
    key: str, variable: str, values: Mapping[str, str], environment: Mapping[str, str]
) -> tuple[str, str | None]:
    """Return a setting's key and value if the key is set, otherwise the name and value of its
    environment variable.

    The value is None if the variable is not set either.
    """
    if key in values:
        return key, values[key]
    return variable, environment.get(variable)
