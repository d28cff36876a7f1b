"""Loads the settings from all sources and reports all errors at once.

Command-line options override environment variables, which override the file.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from enum import Enum
from pathlib import Path
from typing import Any, Final, Literal, get_args, get_origin

from pydantic import BaseModel, ValidationError

from queuegate.policy.names import similar_name
from queuegate_server.config_fields import MIB
from queuegate_server.files.safe_open import read_regular, remedy
from queuegate_server.formats.detection import detect_file_format
from queuegate_server.formats.diagnostics import (
    Diagnostic,
    has_errors,
    quoted,
    sort_diagnostics,
)
from queuegate_server.formats.envelope import SETTINGS_KEY, is_manifest
from queuegate_server.formats.format_names import CAPACITY_SCHEDULER, YUNIKORN
from queuegate_server.formats.yaml_nodes import MappingNode, Node, SequenceNode, plain_data
from queuegate_server.formats.yaml_reader import YamlDocument, read_yaml
from queuegate_server.identity.resolver_types import CHAIN
from queuegate_server.settings.admission import Admission
from queuegate_server.settings.model import RESOLVER_TYPE, Settings
from queuegate_server.settings.places import fields_by_key
from queuegate_server.settings.removed import explained, removed_setting
from queuegate_server.settings.source_map import (
    OPTION,
    SET,
    KeyPath,
    Location,
    Override,
    SourceMap,
    error_in,
    locate,
)

MAX_BYTES: Final = 4 * MIB
"""The maximum size of the file. A message to a worker contains the file twice."""
PREFIX: Final = "QUEUEGATE_"
NESTING: Final = "__"

_CLIENT_VARIABLES: Final = frozenset(
    {
        "QUEUEGATE_ADDRESS",
        "QUEUEGATE_CA_FILE",
        "QUEUEGATE_CERTIFICATE_FILE",
        "QUEUEGATE_CONFIG",
        "QUEUEGATE_KEY_FILE",
        "QUEUEGATE_SERVER_NAME",
        "QUEUEGATE_TOKEN_FILE",
    }
)
"""Variables of the client and the command line. They are not settings."""

# Kubernetes sets variables in every pod for each service in its namespace. Variables for a service
# named queuegate or queuegate-… start with our prefix and are ignored.
_SERVICE_LINK: Final = re.compile(
    r"QUEUEGATE_(?:[A-Z0-9_]+_)?"
    r"(?:SERVICE_HOST|SERVICE_PORT(?:_[A-Z0-9_]+)?|PORT(?:_[0-9]+_(?:TCP|UDP|SCTP)(?:_[A-Z]+)?)?)"
)

_BRACKETS_AND_QUOTES: Final = ("[", "{", '"', "'")
"""Values that start with one of these characters are YAML; all others are plain text."""
_FOLDER_KEYS: Final = frozenset({"configs", "defaults", "group"})
"""The keys of a policy in ConfigMaps. A policy file on the command line replaces them."""
_RBAC: Final = "kubernetes"
"""The key of a policy that is RBAC. A policy file on the command line replaces its manifests."""
_YAML_REMEDY: Final = "write [a, b] for a list, {key: value} for a section, 'text' for a string"
_STRICT: Final = "admission"
"""The section where a key without a value is an error, because a default might switch off a
check."""
_IPV6_ADDRESS: Final = re.compile(r"\[[0-9A-Fa-f:.]+\]:")


class SettingsError(Exception):
    """Raised for invalid settings."""

    def __init__(self, diagnostics: Iterable[Diagnostic]) -> None:
        self.diagnostics = tuple(sort_diagnostics(dict.fromkeys(diagnostics)))
        super().__init__("\n".join(str(diagnostic) for diagnostic in self.diagnostics))


def load_settings(
    file: Path | None = None,
    variables: Mapping[str, str] | None = None,
    options: Iterable[str | Override] = (),
    content: bytes | None = None,
) -> Settings:
    """Load the settings. Options override variables, which override the file.

    Args:
        file: A YAML file. It must be a regular file because a pipe cannot be read again on reload.
        variables: The environment. Variables named `QUEUEGATE_…` are settings.
        options: Strings `key=value` with dotted keys, and overrides from other options.
        content: The contents of the file, if already read.

    Raises:
        SettingsError: The settings are invalid. The exception contains the errors from all sources.
    """
    return load_with_origins(file, variables, options, content)[0]


def load_with_origins(
    file: Path | None = None,
    variables: Mapping[str, str] | None = None,
    options: Iterable[str | Override] = (),
    content: bytes | None = None,
    absent_files: set[Path] | None = None,
) -> tuple[Settings, SourceMap]:
    """Return the settings and the origin of each value. See `load_settings`.

    If `absent_files` is given, files named in the settings that do not exist are added to it
    instead of causing errors.
    """
    document = _read(file, content)
    tree_or_text = plain_data(document.root)
    diagnostics = list(document.diagnostics)
    name = "settings" if file is None else str(file)
    tree: dict[str, Any] = {}
    if isinstance(tree_or_text, dict):
        tree = tree_or_text
    elif tree_or_text is not None:
        diagnostics.append(
            error_in(name, "contains no keys", "write keys and values, such as `listen: …`")
        )
    source_map = SourceMap(name, document.root)
    for override in (
        *from_environment(variables or {}, Settings.model_fields, tree),
        *from_options(options),
    ):
        error = override if isinstance(override, Diagnostic) else source_map.apply(tree, override)
        if error is not None:
            diagnostics.append(error)
    if document.root is None and has_errors(document.diagnostics):
        # The file's values are unknown, so the other sources cannot be validated.
        raise SettingsError(diagnostics)
    tree = _without_nulls(tree)
    if tree.get(_STRICT, {}) is None:
        tree[_STRICT] = {}
    diagnostics += _missing_values(tree.get(_STRICT), Admission, (_STRICT,), source_map)
    diagnostics += _replace_policy(tree, source_map)
    diagnostics += _wrong_names(tree, source_map)
    try:
        settings = Settings.model_validate(tree, context=absent_files)
    except ValidationError as error:
        diagnostics += (locate(each, source_map, tree) for each in error.errors(include_url=False))
    if has_errors(diagnostics):
        raise SettingsError(diagnostics)
    return settings, source_map


def _replace_policy(tree: dict[str, Any], source_map: SourceMap) -> list[Diagnostic]:
    """Replace a policy in ConfigMaps with a policy file named on the command line.

    Returns an error if the settings contain `policies`, which a policy file cannot replace.
    """
    origins = source_map.origins
    origin = origins.get(("policy", "path"), PREFIX)
    if origin.startswith(PREFIX):
        return []
    if not tree.get("policies"):
        tree["policy"] = {
            key: value
            for key, value in tree["policy"].items()
            if key not in _FOLDER_KEYS or origins.get(("policy", key), "").startswith(OPTION)
        }
        if isinstance(rbac := tree["policy"].get(_RBAC), dict):
            path = tree["policy"].pop("path")
            tree["policy"][_RBAC] = {**rbac, "manifests": path}
            origins["policy", _RBAC, "manifests"] = origins.pop(("policy", "path"))
    elif not origin.startswith(SET):
        del tree["policy"]
        file = origin if origin.startswith(OPTION) else "the policy file"
        remedy = f"use settings with a single `policy`, or omit {file} to use these policies"
        return [source_map.diagnostic(("policies",), f"cannot be combined with {file}", remedy)]
    return []


def _read(file: Path | None, content: bytes | None) -> YamlDocument:
    if file is None:
        return YamlDocument(None, ())
    if content is None:
        try:
            content = read_regular(file, MAX_BYTES)
        except OSError as error:
            message = f"cannot be read: {error.strerror or error}"
            return YamlDocument(None, (error_in(str(file), message, remedy(error)),))
    if len(content) > MAX_BYTES:
        message = f"the file is larger than {MAX_BYTES // MIB} MiB"
        return YamlDocument(None, (error_in(str(file), message, "is it a policy file?"),))
    document = read_yaml(content, str(file))
    if other := _other_file(content, document.root):
        message, instead = other
        message += ", not the settings of queuegate-server"
        return YamlDocument(None, (error_in(str(file), message, instead),))
    return document


def _other_file(content: bytes, root: Node | None) -> tuple[str, str] | None:
    """If a file clearly contains no settings, return what it contains and a remedy, else None."""
    if is_manifest(root):
        instead = f"save the value of its key {SETTINGS_KEY} as a file, or check it with"
        instead += " `queuegate-server validate --settings`, which reads manifests"
        return "this is a Kubernetes manifest", instead
    kind = detect_file_format(content)
    if kind == CAPACITY_SCHEDULER and b"yarn.scheduler." not in content:
        return "this is a Hadoop configuration file", "write the settings in YAML"
    is_queues_yaml = (
        isinstance(root, MappingNode)
        and isinstance(root.get("partitions"), SequenceNode)
        and root.entries.keys() & Settings.model_fields == {"partitions"}
    )
    if kind != YUNIKORN or is_queues_yaml:
        instead = "it is a FILE for validate and lint; other commands take it as --policy"
        return f"this is a scheduler file ({kind})", instead
    return None


def _without_nulls(tree: dict[str, Any], above: str = "") -> dict[str, Any]:
    """Drop keys without a value, except under `resolvers`, where they may be valid, and in the
    strict section.
    """
    return {
        key: value
        if not isinstance(value, dict) or (above, key) == ("", _STRICT)
        else _without_nulls(value, key)
        for key, value in tree.items()
        if value is not None or above == "resolvers" or (above, key) == ("", _STRICT)
    }


def _missing_values(
    tree: object, model: type[BaseModel], location: Location, source_map: SourceMap
) -> Iterator[Diagnostic]:
    """Yield a diagnostic for each known key without a value, and drop the key.

    A section may be empty: `kueue:` becomes `kueue: {}`.
    """
    if not isinstance(tree, dict):
        return
    for key, field in fields_by_key(model).items():
        if key not in tree:
            continue
        value, here = tree[key], (*location, key)
        section = _section(field.annotation)
        is_list = get_origin(field.annotation) is tuple
        if value is not None and section is not None:
            for position, item in enumerate(value if isinstance(value, list) else ()):
                yield from _missing_values(item, section, (*here, position), source_map)
            yield from _missing_values(value, section, here, source_map)
        elif value is None and section is not None and not is_list:
            tree[key] = {}
        elif value is None:
            del tree[key]
            choices = " or ".join(_choices(field.annotation))
            remedy = f"write {choices or ('[]' if is_list else 'a value')}, or remove the key"
            yield source_map.diagnostic(here, "has no value", remedy)


def _section(annotation: Any) -> type[BaseModel] | None:
    """Return the type of the section, or of the sections in a list, that a key contains, if any."""
    kinds = get_args(annotation) or (annotation,)
    return next((each for each in kinds if _is_kind_of(each, BaseModel)), None)


def _choices(annotation: Any) -> list[str]:
    """Return the only values that a key may have; empty if they are not enumerated."""
    if get_origin(annotation) is Literal:
        return [str(value) for value in get_args(annotation)]
    if _is_kind_of(annotation, Enum):
        return [str(value) for value in annotation]
    return [choice for each in get_args(annotation) for choice in _choices(each)]


def _is_kind_of(kind: Any, base: type) -> bool:
    return isinstance(kind, type) and issubclass(kind, base)


def _wrong_names(tree: dict[str, Any], source_map: SourceMap) -> Iterable[Diagnostic]:
    """Yield a diagnostic for each reference to an undefined resolver and each nested chain."""
    resolvers, partitions = tree.get("resolvers", {}), tree.get("partitions", {})
    if not isinstance(resolvers, dict) or not isinstance(partitions, dict):
        return
    for location, name in _resolver_names(resolvers, partitions):
        if not isinstance(name, str):
            continue
        if name not in resolvers:
            message = f"there is no resolver named {name}"
            advice = f"add it to resolvers, which contains {', '.join(resolvers) or 'nothing'}"
            yield source_map.diagnostic(location, message, advice)
        elif location[0] == "resolvers" and _is_chain(resolvers[name]):
            message = f"{name} is a chain, and chains cannot be nested"
            yield source_map.diagnostic(location, message, "name its resolvers instead")


def _resolver_names(
    resolvers: dict[str, Any], partitions: dict[str, Any]
) -> Iterator[tuple[Location, object]]:
    """Yield the locations and names of the resolvers listed in chains and partitions."""
    for chain, settings in resolvers.items():
        members = settings.get("resolvers") if _is_chain(settings) else None
        for position, name in enumerate(members if isinstance(members, list) else ()):
            yield ("resolvers", chain, "resolvers", position), name
    for partition, settings in partitions.items():
        if isinstance(settings, dict):
            yield ("partitions", partition, "resolver"), settings.get("resolver")


def _is_chain(settings: object) -> bool:
    return isinstance(settings, dict) and settings.get(RESOLVER_TYPE) == CHAIN


def from_environment(
    variables: Mapping[str, str], top_level: Iterable[str], tree: Mapping[str, Any]
) -> Iterator[Override | Diagnostic]:
    """Yield the settings in the environment, sorted by variable name.

    `QUEUEGATE_DRAIN__GRACE` sets `drain.grace`. Keys that the file contains are matched ignoring
    case, with underscores for hyphens; all others are converted to lower case.
    """
    top_level = set(top_level)
    for name in sorted(variables):
        if not name.startswith(PREFIX) or name in _CLIENT_VARIABLES:
            continue
        keys = name.removeprefix(PREFIX).split(NESTING)
        if keys[0].lower() in top_level and all(keys):
            yield _override(name, _spelled_as_in(tree, keys), variables[name])
        elif removed := removed_setting([key.lower() for key in keys], ""):
            yield error_in(name, *explained(removed))
        elif not _SERVICE_LINK.fullmatch(name):
            yield error_in(name, "is not a setting", _remedy(name, top_level))


def from_options(options: Iterable[str | Override]) -> Iterator[Override | Diagnostic]:
    """Yield the settings and errors in options such as `--set key=value`, in order."""
    for option in options:
        if isinstance(option, Override):
            yield option
            continue
        key, equals, text = option.partition("=")
        path = tuple(key.strip().split("."))
        if not equals or not all(path):
            yield error_in(
                f"{SET} {option}", "must have the form key=value, such as drain.grace=30s"
            )
        else:
            yield _override(f"{SET} {key.strip()}", path, text)


def _override(origin: str, path: KeyPath, text: str) -> Override | Diagnostic:
    """Return an override whose value is parsed from `text`.

    Lists, mappings and quoted strings are parsed as YAML. All other text is kept as a string, which
    the settings model converts.
    """
    if not text.startswith(_BRACKETS_AND_QUOTES) or _IPV6_ADDRESS.match(text):
        return Override(origin, path, text)
    # Parse the text as a list item, so that anything after the value causes an error instead of
    # being ignored.
    document = read_yaml(f"- {text}".encode(errors="surrogateescape"), origin)
    values = plain_data(document.root)
    is_whole = not document.diagnostics and document.second is None
    if isinstance(values, list) and len(values) == 1 and is_whole:
        return Override(origin, path, values[0])
    # The YAML reader's messages may quote the text, which may be a secret if it is from a variable.
    message = "begins with a bracket or a quote, but is not a single YAML value"
    if origin.startswith(SET):
        reason = next((each.message for each in document.diagnostics), "more than one value")
        message = f"{reason}; got {quoted(text)}"
    return error_in(origin, message, _YAML_REMEDY)


def _spelled_as_in(tree: object, keys: list[str]) -> KeyPath:
    path = []
    for key in keys:
        spelling = key.lower()
        if isinstance(tree, Mapping):
            known = {each.lower().replace("-", "_"): each for each in tree}
            known |= {each.lower(): each for each in tree}
            spelling = known.get(spelling, spelling)
            tree = tree.get(spelling)
        path.append(spelling)
    return tuple(path)


def _remedy(name: str, top_level: set[str]) -> str:
    """Suggest a known variable. The most common mistake is one underscore instead of two."""
    words = name.removeprefix(PREFIX).lower()
    for key in sorted(top_level):
        if words.startswith(f"{key}_") and not words.startswith(f"{key}{NESTING}"):
            rest = words.removeprefix(f"{key}_").upper()
            return f"did you mean {PREFIX}{key.upper()}{NESTING}{rest}?"
    if similar := similar_name(words.split(NESTING)[0], top_level):
        return f"did you mean {PREFIX}{similar.upper()}?"
    return f"known variables are {', '.join(PREFIX + key.upper() for key in sorted(top_level))}"
