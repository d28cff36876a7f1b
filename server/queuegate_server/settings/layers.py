"""Layers of settings: environment variables and command-line options override the file."""

import difflib
import json
import re
from collections.abc import Iterable, Iterator, Mapping, MutableMapping
from dataclasses import dataclass, field
from typing import Any, Final

from queuegate_server.formats.diagnostics import Diagnostic, Severity

Path = tuple[str, ...]

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
"""Variables that the client and the command line read; they are not settings."""

# Kubernetes adds variables for each service of the namespace to every pod. Those of a service
# named queuegate, or queuegate-…, begin with our prefix.
_SERVICE_LINK: Final = re.compile(
    r"QUEUEGATE_(?:[A-Z0-9_]+_)?"
    r"(?:SERVICE_HOST|SERVICE_PORT(?:_[A-Z0-9_]+)?|PORT(?:_[0-9]+_(?:TCP|UDP|SCTP)(?:_[A-Z]+)?)?)"
)


@dataclass(frozen=True, slots=True)
class Override:
    """One value from outside the file."""

    origin: str
    """The variable, or the option with its key; diagnostics name it instead of a file."""
    path: Path
    value: object


@dataclass(slots=True)
class Overrides:
    """The values that override the file, and where each of them came from."""

    origins: dict[Path, str] = field(default_factory=dict)

    def apply(self, tree: MutableMapping[str, Any], override: Override) -> Diagnostic | None:
        """Set one value in the tree; return a diagnostic if the tree has no place for it."""
        *sections, last = override.path
        node = tree
        for depth, key in enumerate(sections):
            below = node.get(key)
            if below is None:
                below = node[key] = {}
            if not isinstance(below, MutableMapping):
                above = ".".join(override.path[: depth + 1])
                return error_in(override.origin, f"{above} is a single value, not a section")
            node = below
        node[last] = override.value
        for path in [path for path in self.origins if path[: len(override.path)] == override.path]:
            del self.origins[path]
        self.origins[override.path] = override.origin
        return None

    def origin(self, path: Path) -> str | None:
        """Return where the value at a path came from; None for the file."""
        for length in range(len(path), 0, -1):
            if path[:length] in self.origins:
                return self.origins[path[:length]]
        return None

    def nearest(self, path: Path) -> str | None:
        """Return the origin of the override that is closest to a path, if there is one."""
        for length in range(len(path), 0, -1):
            for known, origin in self.origins.items():
                if known[:length] == path[:length]:
                    return origin
        return None


def from_environment(
    variables: Mapping[str, str], top_level: Iterable[str], tree: Mapping[str, Any]
) -> Iterator[Override | Diagnostic]:
    """Yield the settings among the variables, sorted by name.

    `QUEUEGATE_DRAIN__GRACE` sets `drain.grace`. Names that are in the file match in any case;
    all others are lower case.
    """
    top_level = set(top_level)
    for name in sorted(variables):
        if not name.startswith(PREFIX) or name in _CLIENT_VARIABLES:
            continue
        keys = name.removeprefix(PREFIX).split(NESTING)
        if keys[0].lower() in top_level and all(keys):
            path = _spelled_as_in(tree, keys)
            yield Override(name, path, _value(variables[name]))
        elif not _SERVICE_LINK.fullmatch(name):
            yield error_in(name, "is not a setting", _remedy(name, top_level))


def from_options(options: Iterable[str]) -> Iterator[Override | Diagnostic]:
    """Yield the settings of the options `--set key=value`, in their order."""
    for option in options:
        key, equals, text = option.partition("=")
        path = tuple(key.strip().split("."))
        if not equals or not all(path):
            yield error_in(
                f"--set {option}", "must have the form key=value, such as drain.grace=30s"
            )
        else:
            yield Override(f"--set {key.strip()}", path, _value(text))


def _value(text: str) -> object:
    """Return the value that a text stands for: JSON lists, mappings and strings are decoded.

    Everything else stays text, as in the file: the model converts it.
    """
    if text.startswith(("[", "{", '"')):
        try:
            return json.loads(text)
        except ValueError:  # `[::1]:50051` is an address
            return text
    return text


def _spelled_as_in(tree: object, keys: list[str]) -> Path:
    path = []
    for key in keys:
        spelling = key.lower()
        if isinstance(tree, Mapping):
            spelling = next((known for known in tree if known.lower() == spelling), spelling)
            tree = tree.get(spelling)
        path.append(spelling)
    return tuple(path)


def _remedy(name: str, top_level: set[str]) -> str:
    """Suggest a variable: the most frequent mistake is one underscore instead of two."""
    words = name.removeprefix(PREFIX).lower()
    for key in sorted(top_level):
        if words.startswith(f"{key}_") and not words.startswith(f"{key}{NESTING}"):
            rest = words.removeprefix(f"{key}_").upper()
            return f"did you mean {PREFIX}{key.upper()}{NESTING}{rest}?"
    near = difflib.get_close_matches(words.split(NESTING)[0], top_level, 1)
    if near:
        return f"did you mean {PREFIX}{near[0].upper()}?"
    return f"known variables are {', '.join(PREFIX + key.upper() for key in sorted(top_level))}"


def error_in(origin: str, message: str, remedy: str = "") -> Diagnostic:
    """Return an error in a file as a whole, a variable or an option."""
    return Diagnostic(origin, 0, 0, Severity.ERROR, message, remedy)
