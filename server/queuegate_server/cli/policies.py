"""Loads policy files for commands that analyze them."""

import os
from dataclasses import replace
from pathlib import Path
from typing import Final

import click
from click.core import ParameterSource

from queuegate_server.analysis.policy_file import PolicyFile
from queuegate_server.cli.command import STDIN, Failure, read_or_fail
from queuegate_server.formats.detection import detect_policy_format
from queuegate_server.formats.diagnostics import has_errors
from queuegate_server.formats.registry import FormatOptions, load_policy
from queuegate_server.identity.resolver_types import types
from queuegate_server.settings.load import SettingsError, load_settings
from queuegate_server.settings.model import PolicySource, Settings
from queuegate_server.settings.source_map import Override

_READING: Final = ("acl_names", "format_name", "semantics", "yarn_site")
"""The options for reading policies."""


def refuse_reading_options(
    beside: str = "--config, whose settings determine how to read policies",
) -> None:
    """Raise click.UsageError if the command line contains options for reading policies.

    `beside` describes the argument with which these options cannot be combined.
    """
    context = click.get_current_context()
    options = [
        parameter.opts[0]
        for parameter in context.command.params
        if parameter.name in _READING
        and context.get_parameter_source(parameter.name) is not ParameterSource.DEFAULT
    ]
    if options:
        message = f"{', '.join(options)}: not allowed with {beside}"
        raise click.UsageError(message, context)


def load(
    file: str, options: FormatOptions, config: Path | None = None, site: Path | None = None
) -> PolicyFile:
    """Load a policy from a file, or from standard input if `file` is `-`. See `parse`."""
    if config is not None and file == STDIN:
        raise Failure("-: not allowed with --config, where a policy must be a file")
    return parse(*read_or_fail(file), None, options, config, site=site)


def parse(
    data: bytes,
    name: str,
    format_name: str | None,
    options: FormatOptions,
    config: Path | None = None,
    *,
    site: Path | None = None,
) -> PolicyFile:
    """Load a policy from text.

    Args:
        data: The text.
        name: The file's name.
        format_name: The format, or None to detect it.
        options: The options for reading the text; ignored if `config` is given.
        config: A settings file with options for reading the text, if any.
        site: A yarn-site.xml that replaces the one in the options or settings.

    Raises:
        Failure: The policy or settings are invalid or cannot be read.
    """
    server = Settings() if config is None else settings(config, name)
    options = options if config is None else reading_options_of(server)
    if site is not None:
        options = replace(options, yarn=replace(options.yarn, site=read_or_fail(site)))
    format_name = format_name or detect_policy_format(data)
    loaded = load_policy(format_name, data, name, options)
    if has_errors(loaded.diagnostics):
        raise Failure.of(f"{name}: not valid", loaded.diagnostics)
    distrusting = frozenset(
        each for each in loaded.partitions if not server.partition(each).trust_provided_groups
    )
    named = str(config) if config else ""
    return PolicyFile(name, data, format_name, options, loaded.partitions, named, distrusting)


def settings(config: Path, policy: str | None = None) -> Settings:
    """Load settings. If `policy` is given, it replaces the policies in them. Raises Failure."""
    options = [] if policy is None else [Override(policy, ("policy", "path"), policy)]
    try:
        return load_settings(config, os.environ, options)
    except SettingsError as error:
        raise Failure.of(f"{config}: not valid", error.diagnostics) from None


def reading_options_of(config: Settings, source: PolicySource | None = None) -> FormatOptions:
    """Return the options with which a server reads `source` (by default, its first policy).

    Raises Failure if the policy's `yarn_site` cannot be read.
    """
    source = source or config.sources[0]
    site = read_or_fail(source.yarn_site) if source.yarn_site else None
    return config.format_options(source, site, types())
