"""For `validate`, finds errors that would keep a server from starting."""

import asyncio
import dataclasses
import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final

from queuegate_server.cli.command import read_file, unreadable
from queuegate_server.files.safe_open import open_regular
from queuegate_server.formats.diagnostics import Diagnostic, Severity
from queuegate_server.formats.registry import YUNIKORN, FormatOptions, load_policy
from queuegate_server.formats.yaml_reader import read_yaml
from queuegate_server.identity.manager import unusable_resolvers
from queuegate_server.identity.options import ResolverOptions
from queuegate_server.identity.registry import RESOLVER_TYPES
from queuegate_server.runtime.tcp import CannotListen
from queuegate_server.settings.load import SettingsError, load_settings
from queuegate_server.settings.model import Settings
from queuegate_server.settings.source_map import Override, Overrides, SourceMap
from queuegate_server.transports.registry import choose

Checked = tuple[str, Iterable[Diagnostic] | OSError]
"""A file by name, with its diagnostics or the reason why it cannot be read."""

RESOLVER_KEY: Final = b"usergroupresolver"
"""Present in every policy that names a resolver."""


def unusable_resolver_errors(
    data: bytes, name: str, options: FormatOptions
) -> Iterator[Diagnostic]:
    """Yield an error for each resolver that a valid queues.yaml names but that needs settings,
    unless the options list the resolver.
    """
    partitions = {
        key: partition
        for key, partition in load_policy(YUNIKORN, data, name, options).partitions.items()
        if partition.resolver_type in RESOLVER_TYPES.keys() - options.resolver_types
    }
    for each in unusable_resolvers(Settings(), partitions):
        line, column = each.partition.resolver_place
        remedy = (
            "if the server has settings for it, check with --config queuegate.yaml, or without "
            f"them with --resolver-type {each.partition.resolver_type}"
        )
        yield Diagnostic(name, line, column, Severity.ERROR, each.message, remedy)


def check_start(config: Path, policies: Sequence[str]) -> Iterator[Checked]:
    """Yield the diagnostics of everything that a server with these settings loads.

    Args:
        config: The settings.
        policies: Files to check in turn instead of the policies that the settings name. If empty,
            the settings' own policies.
    """
    try:
        content = read_file(config)
    except OSError as error:
        yield str(config), error
        return
    known: set[Diagnostic] = set()
    for policy in policies or (None,):
        name = str(config) if policy is None else policy
        try:
            open_regular(Path(name)).close()
        except OSError as error:
            yield name, error
            continue
        found, settings = _settings(config, content, policy)
        # An error in the settings is reported once.
        diagnostics = [each for each in found if each not in known]
        known.update(diagnostics)
        if settings is not None:
            # Slow and seldom needed.
            from queuegate_server.policystore.reloader import check  # noqa: PLC0415

            diagnostics += asyncio.run(check(settings))
        yield name, diagnostics


def _settings(
    config: Path, content: bytes, policy: str | None
) -> tuple[Sequence[Diagnostic], Settings | None]:
    """Return the diagnostics of settings, and the settings if they are valid."""
    options = [] if policy is None else [Override(policy, ("policy", "path"), policy)]
    try:
        settings = load_settings(config, os.environ, options, content)
    except SettingsError as error:
        return error.diagnostics, None
    name = str(config)
    return _cannot_listen(settings, name) + _contradictions(settings, content, name), settings


def check_settings(data: bytes, name: str) -> Iterable[Diagnostic]:
    """Return the diagnostics of a settings file."""
    try:
        settings = load_settings(Path(name), content=data)
    except SettingsError as error:
        return error.diagnostics
    return (
        _cannot_listen(settings, name)
        + _contradictions(settings, data, name)
        + [unreadable(str(path), error) for path, error in _missing_policies(settings)]
    )


def _missing_policies(settings: Settings) -> Iterator[tuple[Path, OSError]]:
    """Yield the policy files that cannot be read."""
    for source in settings.sources:
        for path in (source.path, source.yarn_site, source.spark_defaults):
            if path is not None:
                try:
                    open_regular(path).close()
                except OSError as error:
                    yield path, error


def _contradictions(settings: Settings, content: bytes, file: str) -> list[Diagnostic]:
    """Return warnings about resolver settings that contradict each other."""
    source_map = SourceMap(file, read_yaml(content, file).root, Overrides())
    return [
        dataclasses.replace(
            source_map.diagnostic(
                ("resolvers", name, key), message, "raise lookup_timeout, or lower this setting"
            ),
            severity=Severity.WARNING,
        )
        for name, resolver in settings.resolvers.items()
        if isinstance(resolver.options, ResolverOptions)
        for key, message in resolver.options.contradictions().items()
    ]


def _cannot_listen(settings: Settings, file: str) -> list[Diagnostic]:
    """Return why a server with these settings could not listen."""
    return [Diagnostic(file, 0, 0, Severity.ERROR, text) for text in _listener_faults(settings)]


def _listener_faults(settings: Settings) -> Iterator[str]:
    try:
        choose(settings.transport, settings.listen, settings.limits.connections)
    except CannotListen as error:
        yield str(error)
    has_tls = settings.ops.tls or any(each.tls for each in settings.listen)
    if settings.callers.token_file or has_tls:
        # Slow and seldom needed.
        from queuegate_server.server.listeners import unusable_files  # noqa: PLC0415

        yield from unusable_files(settings)
