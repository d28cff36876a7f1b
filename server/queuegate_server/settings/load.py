"""Reads the settings from all their sources and tells every fault at once."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from queuegate_server.files.safe_open import read_regular, remedy
from queuegate_server.formats.diagnostics import Diagnostic, Severity, has_errors, sort_diagnostics
from queuegate_server.formats.yaml_nodes import plain_data
from queuegate_server.formats.yaml_text import MAX_BYTES
from queuegate_server.formats.yaml_tree import Document, read
from queuegate_server.settings.faults import Places, located
from queuegate_server.settings.model import Settings
from queuegate_server.settings.overrides import Overrides, from_environment, from_options


class SettingsError(Exception):
    """The settings are wrong."""

    def __init__(self, problems: Iterable[Diagnostic]) -> None:
        """Keep all findings, in the order of their places."""
        self.problems = tuple(sort_diagnostics(problems))
        super().__init__("\n".join(str(problem) for problem in self.problems))


def load_settings(
    file: Path | None = None,
    variables: Mapping[str, str] | None = None,
    options: Iterable[str] = (),
    content: bytes | None = None,
) -> Settings:
    """Return the settings: those of the file, under those of the variables, under the options.

    `file` is YAML; without one, everything that nothing else sets has its default.
    `variables` are those of the environment, of which `QUEUEGATE_…` count, and `options`
    are texts `key=value` with dots in the key. With `content`, the file is not read: it is
    what was in it. Raises SettingsError with all faults, also for what is no regular file:
    to read a pipe again would never end.
    """
    document = _read(file) if content is None else read(content, str(file))
    tree_or_text = plain_data(document.root)
    problems = list(document.diagnostics)
    name = "settings" if file is None else str(file)
    tree: dict[str, Any] = {}
    if isinstance(tree_or_text, dict):
        tree = tree_or_text
    elif tree_or_text is not None:
        problems.append(
            _of_file(name, "holds no keys", "write keys and values, such as `listen: …`")
        )
    overrides = Overrides()
    for override in (
        *from_environment(variables or {}, Settings.model_fields, tree),
        *from_options(options),
    ):
        fault = override if isinstance(override, Diagnostic) else overrides.lay_over(tree, override)
        if fault is not None:
            problems.append(fault)
    if document.root is None and has_errors(document.diagnostics):
        # What the file would have set is not known, so the rest cannot be judged.
        raise SettingsError(problems)
    return _checked(tree, Places(name, document.root, overrides), problems)


def _checked(tree: dict[str, Any], places: Places, problems: list[Diagnostic]) -> Settings:
    tree = _without_nulls(tree)
    problems += _unknown_resolvers(tree, places)
    try:
        settings = Settings.model_validate(tree)
    except ValidationError as error:
        problems += (located(fault, places, tree) for fault in error.errors(include_url=False))
        raise SettingsError(problems) from None
    if has_errors(problems):
        raise SettingsError(problems)
    return settings


def _read(file: Path | None) -> Document:
    if file is None:
        return Document(None, ())
    try:
        return read(read_regular(file, MAX_BYTES), str(file))
    except OSError as error:
        message = f"cannot be read: {error.strerror or error}"
        return Document(None, (_of_file(str(file), message, remedy(error)),))


def _of_file(file: str, message: str, what_to_do: str) -> Diagnostic:
    return Diagnostic(file, 0, 0, Severity.ERROR, message, what_to_do)


def _without_nulls(tree: dict[str, Any], above: str = "") -> dict[str, Any]:
    """Take a key without a value for one that is not set; a resolver is one all the same."""
    return {
        key: _without_nulls(value, key) if isinstance(value, dict) else value
        for key, value in tree.items()
        if value is not None or above == "resolvers"
    }


def _unknown_resolvers(tree: dict[str, Any], places: Places) -> Iterable[Diagnostic]:
    """Yield the partitions' resolvers that are not there, also if the rest is wrong."""
    resolvers, partitions = tree.get("resolvers", {}), tree.get("partitions", {})
    if not isinstance(resolvers, dict) or not isinstance(partitions, dict):
        return
    for partition, settings in partitions.items():
        name = settings.get("resolver") if isinstance(settings, dict) else None
        if isinstance(name, str) and name not in resolvers:
            known = ", ".join(resolvers) or "none so far"
            yield places.problem(
                ("partitions", partition, "resolver"),
                f"no resolver is named {name}",
                f"add it to resolvers, which has {known}",
            )
