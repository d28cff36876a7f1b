"""`queuegate-server source-check`: looks up one user in a resolver."""

import asyncio
import logging
import os
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Final, NoReturn

import click

from queuegate.cli.documented_command import DocumentedCommand
from queuegate_server.cli import EXIT_FAILURE, EXIT_NO
from queuegate_server.cli.command import Failure, config_option, overrides_option
from queuegate_server.cli.ldap_check import check_ldap
from queuegate_server.cli.lookup_output import show_outcome, show_step
from queuegate_server.files.safe_open import read_regular
from queuegate_server.formats.detection import detect_policy_format
from queuegate_server.formats.diagnostics import printable
from queuegate_server.formats.format_names import YUNIKORN
from queuegate_server.formats.source_text import MAX_BYTES
from queuegate_server.identity import resolver_types
from queuegate_server.identity.guarded_resolver import GuardedResolver
from queuegate_server.identity.options import ChainOptions
from queuegate_server.identity.resolver import (
    CannotFollow,
    Following,
    KnownUser,
    LookupFailure,
)
from queuegate_server.identity.resolver_types import ConfiguredResolver
from queuegate_server.identity.resolvers.ldap.ldap_options import LdapOptions
from queuegate_server.identity.rest.provider_options import RestOptions
from queuegate_server.identity.rest.rest_resolver import RestResolver
from queuegate_server.settings.load import SettingsError, load_settings
from queuegate_server.settings.model import PolicySource, Settings

FOLLOW_SECONDS: Final = 30.0
"""The maximum time until a source is followed, in seconds."""


@click.command(
    "source-check",
    cls=DocumentedCommand,
    example="queuegate-server source-check ldap sue --config queuegate.yaml",
    exit_statuses={
        0: "the user was found, no lookup failed, and changes can be followed, if the settings"
        " require that",
        EXIT_NO: "otherwise",
        EXIT_FAILURE: "incorrect usage or configuration",
    },
)
@config_option(required=True)
@click.argument("name")
@click.argument("user")
@overrides_option
def source_check(config: Path, name: str, user: str, overrides: tuple[str, ...]) -> None:
    """Look up USER in the resolver NAME, and show every step.

    NAME is a key of `resolvers` in the settings. If it is a chain, each of its resolvers is
    queried; if it is of type ldap, every server is. If the resolver is set to follow its source's
    changes, checks that this works.
    """
    settings = _settings(config, overrides)
    resolvers = settings.resolvers
    configured = resolvers.get(name)
    if configured is None:
        known = ", ".join(resolvers) or "none"
        raise Failure(f"the settings have no resolver {name}, only {known}")
    options = configured.options
    names = options.resolvers if isinstance(options, ChainOptions) else (name,)
    _run({each: resolvers[each] for each in names}, user, settings)


def _settings(config: Path, overrides: tuple[str, ...]) -> Settings:
    try:
        return load_settings(config, os.environ, overrides)
    except SettingsError as error:
        raise Failure(f"the settings are not valid\n{error}") from None


def _is_yunikorn(source: PolicySource) -> bool:
    """Return whether a policy named in the settings is for YuniKorn; False if it is unreadable."""
    if source.format is not None or source.path is None:
        return source.is_set and source.format in {None, YUNIKORN}
    try:
        return detect_policy_format(read_regular(source.path, MAX_BYTES)) == YUNIKORN
    except OSError:
        return False


def _run(resolvers: Mapping[str, ConfiguredResolver], user: str, settings: Settings) -> NoReturn:
    """Check resolvers, and exit with the status."""
    # The outcome is printed, so it need not be logged as well.
    logging.getLogger("queuegate_server.identity").setLevel(logging.ERROR)
    is_for_yunikorn = any(map(_is_yunikorn, settings.sources))
    checks = _check_all(resolvers, user, is_for_yunikorn=is_for_yunikorn)
    raise SystemExit(0 if asyncio.run(checks) else EXIT_NO)


async def _check_all(
    resolvers: Mapping[str, ConfiguredResolver], user: str, *, is_for_yunikorn: bool
) -> bool:
    """Query each resolver. Return whether one knows the user and none fails."""
    outcomes = [
        await _check(name, each, user, is_for_yunikorn=is_for_yunikorn)
        for name, each in resolvers.items()
    ]
    return True in outcomes and None not in outcomes


async def _check(
    name: str, configured: ConfiguredResolver, user: str, *, is_for_yunikorn: bool
) -> bool | None:
    """Query a resolver. Return whether it knows the user, or None if it fails."""
    click.echo(f"resolver {name} ({configured.type}), user {user!r}")
    options = configured.options
    if isinstance(options, ChainOptions):
        raise TypeError("chains cannot be nested")
    build = resolver_types.resolver_type(configured.type)
    observe = {"observe": show_step} if isinstance(options, RestOptions) else {}
    resolver = build(options, **observe)
    changes: Following | None = getattr(resolver, "changes", None)
    found: bool | None = None
    if isinstance(options, LdapOptions):
        found = await check_ldap(options, user, is_for_yunikorn=is_for_yunikorn)
        if changes is None:
            return found
    guarded = GuardedResolver(name, resolver, options)
    try:
        await guarded.open()
    except Exception as error:
        message = f"the resolver cannot be opened: {type(error).__name__}: {error}"
        show_outcome(LookupFailure(message))
        return None
    try:
        if not isinstance(options, LdapOptions):
            outcome = await guarded.resolve(user)
            notes: Collection[str] = ()
            if isinstance(outcome, KnownUser) and isinstance(resolver, RestResolver):
                notes = await resolver.notes(user)
            show_outcome(outcome, notes, is_for_yunikorn=is_for_yunikorn)
            found = None if isinstance(outcome, LookupFailure) else isinstance(outcome, KnownUser)
        return found if changes is None or await _can_follow(changes) else None
    finally:
        await guarded.close()


class _Confirmation:
    """A sink that waits until the source is followed. Implements `ChangeSink`."""

    position = None

    def __init__(self) -> None:
        self.is_followed = asyncio.Event()

    def invalidate(self, users: Collection[str]) -> None:
        """Ignore the changes."""

    def invalidate_all(self) -> None:
        """Ignore the changes."""

    def reached(self, _position: bytes | None = None) -> None:
        """Record that the source is followed."""
        self.is_followed.set()


async def _can_follow(changes: Following) -> bool:
    """Follow a source until it confirms that it is followed. Print the result, and return whether
    this succeeded.
    """
    sink = _Confirmation()
    following = asyncio.ensure_future(changes(sink))
    confirmed = asyncio.create_task(sink.is_followed.wait())
    done, _ = await asyncio.wait(
        {following, confirmed}, timeout=FOLLOW_SECONDS, return_when=asyncio.FIRST_COMPLETED
    )
    for task in (following, confirmed):
        task.cancel()
    error, _ = await asyncio.gather(following, confirmed, return_exceptions=True)
    if confirmed in done:
        result = "can be followed"
    elif following not in done:
        result = f"not followed within {FOLLOW_SECONDS:g} s"
    elif isinstance(error, CannotFollow):
        result = f"cannot be followed: {printable(str(error))}"
    elif error is None:
        result = "cannot be followed: the resolver stopped without an error"
    else:
        result = f"cannot be followed: the resolver failed: {type(error).__name__}"
    click.echo(f"  changes: {result}")
    return confirmed in done
