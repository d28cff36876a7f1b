"""`queuegate-server source-check`: looks up one user in a resolver of any type."""

import asyncio
import logging
import os
from pathlib import Path

import click

from queuegate_server.cli import EXIT_NO
from queuegate_server.cli.command import Failure, config_option, overrides_option
from queuegate_server.cli.ldap_check import check_ldap
from queuegate_server.cli.lookup_output import show_outcome, show_step
from queuegate_server.identity import registry
from queuegate_server.identity.guarded_resolver import GuardedResolver
from queuegate_server.identity.options import ChainOptions
from queuegate_server.identity.registry import ConfiguredResolver
from queuegate_server.identity.resolver import KnownUser, LookupFailure, Outcome, Resolver
from queuegate_server.identity.resolvers.ldap.options import LdapOptions
from queuegate_server.identity.rest.options import RestOptions
from queuegate_server.settings.load import SettingsError, load_settings


@click.command("source-check")
@config_option(required=True)
@click.argument("name")
@click.argument("user")
@overrides_option
def source_check(config: Path, name: str, user: str, overrides: tuple[str, ...]) -> None:
    """Look up USER in the resolver NAME, and show every step.

    NAME is a key of `resolvers` in the settings. If it is a chain, each of its resolvers is asked.
    If it is of type ldap, every server is asked.

    Exit status: 0 if the user is found and no lookup fails, 1 if not, 2 for incorrect usage or
    configuration.
    """
    try:
        resolvers = load_settings(config, os.environ, overrides).resolvers
    except SettingsError as error:
        raise Failure(f"the settings are not valid\n{error}") from None
    configured = resolvers.get(name)
    if configured is None:
        known = ", ".join(resolvers) or "none"
        raise Failure(f"the settings contain no resolver {name}; they contain {known}")
    options = configured.options
    names = options.resolvers if isinstance(options, ChainOptions) else (name,)
    # The outcome is printed, so it need not be logged as well.
    logging.getLogger("queuegate_server.identity").setLevel(logging.ERROR)
    found = asyncio.run(_check_all({each: resolvers[each] for each in names}, user))
    raise SystemExit(0 if found else EXIT_NO)


async def _check_all(resolvers: dict[str, ConfiguredResolver], user: str) -> bool:
    """Ask each resolver. Return whether one knows the user and none fails."""
    outcomes = [await _check(name, each, user) for name, each in resolvers.items()]
    return True in outcomes and None not in outcomes


async def _check(name: str, configured: ConfiguredResolver, user: str) -> bool | None:
    """Ask a resolver. Return whether it knows the user; None if it fails."""
    click.echo(f"resolver {name} ({configured.type}), user {user!r}")
    if isinstance(configured.options, LdapOptions):
        return await check_ldap(configured.options, user)
    outcome = await _look_up(name, configured, user)
    show_outcome(outcome)
    return None if isinstance(outcome, LookupFailure) else isinstance(outcome, KnownUser)


async def _look_up(name: str, configured: ConfiguredResolver, user: str) -> Outcome:
    options = configured.options
    if isinstance(options, ChainOptions):
        raise TypeError("chains cannot be nested")
    build = registry.resolver_type(configured.type)
    resolver: Resolver
    if isinstance(options, RestOptions):
        resolver = build(options, observe=show_step)  # type: ignore[call-arg]
    else:
        resolver = build(options)
    guarded = GuardedResolver(name, resolver, options)
    try:
        await guarded.open()
    except Exception as error:
        return LookupFailure(f"the resolver cannot be opened: {type(error).__name__}: {error}")
    try:
        return await guarded.resolve(user)
    finally:
        await guarded.close()
