"""The LDAP part of `source-check`, which queries every server."""

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from queuegate_server.cli.lookup_output import show_outcome, show_step
from queuegate_server.identity.resolver import KnownUser, LookupFailure
from queuegate_server.identity.resolvers.ldap.discovery import (
    ServerUrl,
    discover_servers,
    parse_url,
)
from queuegate_server.identity.resolvers.ldap.ldap_faults import LdapFault
from queuegate_server.identity.resolvers.ldap.ldap_options import LdapOptions
from queuegate_server.identity.resolvers.ldap.ldap_statistics import LdapStatistics
from queuegate_server.identity.resolvers.ldap.timed_steps import LdapStep

if TYPE_CHECKING:
    from queuegate_server.identity.resolvers.ldap.examination import Examination


async def check_ldap(options: LdapOptions, user: str, *, is_for_yunikorn: bool) -> bool | None:
    """Query each server and print its result. Return whether all servers know the user; None if a
    lookup fails or the servers disagree.

    For `is_for_yunikorn`, see `show_outcome`.
    """
    if not options.verify_certificate:
        click.echo("WARNING: verify_certificate is off: anyone can impersonate the directory")
    os.environ.setdefault("LDAPNOINIT", "1")
    servers = tuple(map(parse_url, options.urls))
    try:
        if options.discover is not None:
            servers = await discover_servers(
                options.discover, encrypted=not options.start_tls, timeout=options.connect_timeout
            )
    except LdapFault as fault:
        click.echo(f"FAILED: {fault.detail}\n  advice: {fault.advice}")
        return None
    results: set[frozenset[str] | None] = set()
    has_failed = False
    for url in servers:
        click.echo(f"\n{url}")
        statistics = LdapStatistics()
        examination = await _look_up(url, user, options, statistics)
        outcome = examination.outcome
        if isinstance(outcome, LookupFailure):
            has_failed = True
        else:
            results.add(frozenset(outcome.groups) if isinstance(outcome, KnownUser) else None)
        show_outcome(
            outcome,
            (*_notes(statistics), *examination.notes),
            examination.warnings,
            is_for_yunikorn=is_for_yunikorn,
        )
    if len(results) > 1:
        click.echo("\nthe servers disagree")
    return None if has_failed or len(results) != 1 else None not in results


async def _look_up(
    url: ServerUrl, user: str, options: LdapOptions, statistics: LdapStatistics
) -> "Examination":
    # Imported here because it loads the LDAP driver, which `--help` does not need.
    from queuegate_server.identity.resolvers.ldap.examination import (  # noqa: PLC0415
        Examination,
        examine,
    )

    shown_advice: set[str] = set()

    def show(step: LdapStep) -> None:
        if step.is_unfinished and step.name != "connect":
            step.fault = f"timed out after {options.lookup_timeout:g} s (lookup_timeout)"
        shown_advice.add(step.advice)
        show_step(step)

    try:
        return await examine(url, user, options, statistics, show)
    except LdapFault as fault:
        detail = fault.detail if fault.advice in shown_advice else fault.text
        return Examination(LookupFailure(detail))


def _notes(statistics: LdapStatistics) -> Iterator[str]:
    """Yield notes about conditions that `serve` would report only in metrics."""
    if statistics.outside_base:
        yield (
            f"the server returned {statistics.outside_base} entries outside of user_base or "
            "group_base, which are ignored: check how it, or a proxy in front of it, rewrites names"
        )
    if statistics.skipped_names:
        yield f"{statistics.skipped_names} groups have no readable name"
    if statistics.depth_reached:
        yield (
            "nested groups were followed up to nested_depth levels, and deeper ones are left out: "
            "raise nested_depth if there are any"
        )
