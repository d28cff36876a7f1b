"""`queuegate-server ldap-check`."""

import asyncio
import os
from pathlib import Path

import click

from queuegate_server.cli.command import Failure
from queuegate_server.formats.diagnostics import printable
from queuegate_server.identity.resolver import Found, NoSuchUser
from queuegate_server.identity.resolvers.ldap.instrumentation import LdapStep
from queuegate_server.identity.resolvers.ldap.options import LdapOptions
from queuegate_server.settings.load import SettingsError, load_settings
from queuegate_server.settings.model import Settings

_FAILED = 1


@click.command("ldap-check")
@click.option(
    "--config",
    required=True,
    type=click.Path(dir_okay=False, path_type=Path),
    envvar="QUEUEGATE_CONFIG",
    help="The server's own configuration (queuegate.yaml).",
)
@click.option("--user", required=True, help="The user to look up.")
@click.option("--resolver", help="The name of the resolver, if there are several of type ldap.")
@click.option(
    "--set", "overrides", multiple=True, metavar="KEY=VALUE", help="Set any key; repeatable."
)
def ldap_check(config: Path, user: str, resolver: str | None, overrides: tuple[str, ...]) -> None:
    """Look up one user at every server of a directory, and show every step.

    Exit status: 0 if every server knows the user, 1 if one does not or fails, 2 for wrong usage or
    configuration.
    """
    try:
        settings = load_settings(config, os.environ, overrides)
    except SettingsError as error:
        raise Failure("\n".join(str(diagnostic) for diagnostic in error.diagnostics)) from None
    name, options = _chosen(settings, resolver)
    click.echo(f"resolver {name}, user {user!r}")
    if not options.verify_certificate:
        click.echo("WARNING: verify_certificate is off: anyone can pose as the directory")
    os.environ.setdefault("LDAPNOINIT", "1")
    try:
        found = asyncio.run(_check(options, user))
    except ImportError as error:
        raise Failure(
            f"the LDAP driver cannot be loaded ({error}): pip install 'queuegate[ldap]'"
        ) from None
    raise SystemExit(0 if found else _FAILED)


def _chosen(settings: Settings, name: str | None) -> tuple[str, LdapOptions]:
    known = {
        key: configured.options
        for key, configured in settings.resolvers.items()
        if isinstance(configured.options, LdapOptions)
    }
    if name is None and len(known) == 1:
        return next(iter(known.items()))
    if name in known:
        return name, known[name]
    names = ", ".join(known) or "none"
    raise Failure(f"choose a resolver of type ldap with --resolver; there are: {names}")


async def _check(options: LdapOptions, user: str) -> bool:
    """Print what every server returns; return whether all know the user and agree."""
    # These modules load the driver, which `--help` does not need.
    from queuegate_server.identity.resolvers.ldap.diagnose import (  # noqa: PLC0415
        diagnose,
        servers_of,
    )
    from queuegate_server.identity.resolvers.ldap.errors import LdapFault  # noqa: PLC0415

    try:
        servers = await servers_of(options)
    except LdapFault as fault:
        click.echo(f"FAILED: {fault.detail}\n  advice: {fault.advice}")
        return False
    answers: set[frozenset[str] | None] = set()
    all_answered = True
    for url in servers:
        click.echo(f"\n{url}")
        outcome, notes = await diagnose(url, user, options, _show)
        if isinstance(outcome, Found):
            answers.add(frozenset(outcome.groups))
            names = printable(", ".join(outcome.groups)) or "none"
            click.echo(f"  groups ({len(outcome.groups)}): {names}")
        elif isinstance(outcome, NoSuchUser):
            answers.add(None)
            click.echo(f"  no such user: {outcome.detail}")
        else:
            all_answered = False
            click.echo(f"  could not ask: {printable(outcome.detail)}")
        for note in notes:
            click.echo(f"  note: {note}")
    if len(answers) > 1:
        click.echo("\nthe servers do not agree")
    return all_answered and None not in answers and len(answers) == 1


def _show(step: LdapStep) -> None:
    mark = "FAIL" if step.fault else "ok"
    detail = printable(step.fault or step.detail)
    click.echo(f"  {mark:<4}  {step.name:<13}  {step.seconds * 1000:7.1f} ms  {detail}")
    if step.fault and step.advice:
        click.echo(f"        advice: {step.advice}")
