"""Loads the settings from all their sources, and reports all errors at once."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

from pydantic import ValidationError

from queuegate_server.config_fields import MIB
from queuegate_server.files.safe_open import read_regular, remedy
from queuegate_server.formats.diagnostics import Diagnostic, has_errors, sort_diagnostics
from queuegate_server.formats.yaml_reader import YamlDocument, plain_data, read_yaml
from queuegate_server.settings.layers import Overrides, error_in, from_environment, from_options
from queuegate_server.settings.model import Settings
from queuegate_server.settings.source_map import SourceMap, locate

MAX_BYTES: Final = 4 * MIB
"""The size of the file: a message to a worker holds it twice."""


class SettingsError(Exception):
    """The settings are not valid."""

    def __init__(self, diagnostics: Iterable[Diagnostic]) -> None:
        """Sort the diagnostics by their places."""
        self.diagnostics = tuple(sort_diagnostics(diagnostics))
        super().__init__("\n".join(str(diagnostic) for diagnostic in self.diagnostics))


def load_settings(
    file: Path | None = None,
    variables: Mapping[str, str] | None = None,
    options: Iterable[str] = (),
    content: bytes | None = None,
) -> Settings:
    """Return the settings: options override variables, which override the file.

    Args:
        file: A YAML file. It must be a regular file: a pipe cannot be read again on reload.
        variables: The environment, of which variables named `QUEUEGATE_…` are settings.
        options: Texts `key=value` with dots in the key.
        content: The content of the file, if it has been read already.

    Raises:
        SettingsError: With all errors of all sources.
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
    overrides = Overrides()
    for override in (
        *from_environment(variables or {}, Settings.model_fields, tree),
        *from_options(options),
    ):
        error = override if isinstance(override, Diagnostic) else overrides.apply(tree, override)
        if error is not None:
            diagnostics.append(error)
    if document.root is None and has_errors(document.diagnostics):
        # The values of the file are unknown, so the other sources cannot be validated.
        raise SettingsError(diagnostics)
    return _validated(tree, SourceMap(name, document.root, overrides), diagnostics)


def _validated(
    tree: dict[str, Any], source_map: SourceMap, diagnostics: list[Diagnostic]
) -> Settings:
    tree = _without_nulls(tree)
    diagnostics += _unknown_resolvers(tree, source_map)
    try:
        settings = Settings.model_validate(tree)
    except ValidationError as error:
        diagnostics += (locate(each, source_map, tree) for each in error.errors(include_url=False))
        raise SettingsError(diagnostics) from None
    if has_errors(diagnostics):
        raise SettingsError(diagnostics)
    return settings


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
        return YamlDocument(None, (error_in(str(file), message, "is it the file of a policy?"),))
    return read_yaml(content, str(file))


def _without_nulls(tree: dict[str, Any], above: str = "") -> dict[str, Any]:
    """Drop keys without a value, except resolvers, which may have only defaults."""
    return {
        key: _without_nulls(value, key) if isinstance(value, dict) else value
        for key, value in tree.items()
        if value is not None or above == "resolvers"
    }


def _unknown_resolvers(tree: dict[str, Any], source_map: SourceMap) -> Iterable[Diagnostic]:
    """Yield a diagnostic for each partition whose resolver does not exist."""
    resolvers, partitions = tree.get("resolvers", {}), tree.get("partitions", {})
    if not isinstance(resolvers, dict) or not isinstance(partitions, dict):
        return
    for partition, settings in partitions.items():
        name = settings.get("resolver") if isinstance(settings, dict) else None
        if isinstance(name, str) and name not in resolvers:
            known = ", ".join(resolvers) or "no entries"
            yield source_map.diagnostic(
                ("partitions", partition, "resolver"),
                f"there is no resolver named {name}",
                f"add it to resolvers, which has {known}",
            )
