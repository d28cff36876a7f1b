"""The people of `--users-from`: from files, with groups from the files or from a resolver."""

import asyncio
import logging
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

import click

from queuegate_server.analysis.access_changes import GroupsByUser
from queuegate_server.analysis.policy_file import PolicyFile
from queuegate_server.cli.command import Failure, read_or_fail
from queuegate_server.cli.policies import settings
from queuegate_server.formats.diagnostics import Diagnostics, quoted
from queuegate_server.formats.people import read_people
from queuegate_server.identity.group_resolver import GroupResolver
from queuegate_server.identity.resolver import Found, LookupFailed

_AT_ONCE: Final = 32
"""Lookups under way."""

users_from_option: Final[Callable[[Any], Any]] = click.option(
    "--users-from",
    "users_from",
    multiple=True,
    metavar="FILE",
    help="The people: a CSV with lines USER,GROUP,GROUP…, or names alone or an audit log, whose"
    " groups the resolver of --config knows. Repeatable.",
)


def read_users(
    files: Sequence[str], config: Path | None, policy: PolicyFile
) -> dict[str, GroupsByUser]:
    """Return the people of each partition of a policy.

    Args:
        files: The files of `--users-from`.
        config: The settings with the resolvers; needed if the files do not have the groups.
        policy: The policy.

    Raises:
        Failure: A file cannot be read or is not valid, or a lookup fails.
    """
    people: dict[str, tuple[str, ...] | None] = {}
    for file in files:
        data, name = read_or_fail(file)
        diagnostics = Diagnostics(name)
        for user, groups in read_people(data, diagnostics).items():
            if groups is not None or user not in people:
                people[user] = groups
        if diagnostics.error_count:
            raise Failure.of(f"{name}: not valid", diagnostics.sorted())
    if not people:
        raise Failure(f"{', '.join(files)}: no users")
    unknown = [user for user, groups in people.items() if groups is None]
    known = {user: groups for user, groups in people.items() if groups is not None}
    if not unknown:
        return dict.fromkeys(policy.partitions, known)
    if config is None:
        message = f"the groups of {len(unknown)} users, such as {quoted(unknown[0])}, are not known"
        raise Failure(f"{message}: add them to the CSV, or name the settings with --config")
    logging.getLogger("queuegate_server").setLevel(logging.ERROR)
    return asyncio.run(_resolved(config, policy, known, unknown))


async def _resolved(
    config: Path, policy: PolicyFile, known: GroupsByUser, unknown: Sequence[str]
) -> dict[str, GroupsByUser]:
    """Return the people with the groups that the resolver of each partition finds."""
    from queuegate_server.server.offline import (  # noqa: PLC0415 - slow, and seldom needed
        CannotServe,
        OfflineServices,
    )

    turns = asyncio.Semaphore(_AT_ONCE)

    async def groups_of(user: str, resolver: GroupResolver) -> tuple[str, ...]:
        async with turns:
            outcome = (await resolver.resolve(user)).entry.outcome
        if isinstance(outcome, LookupFailed):
            raise Failure(f"the groups of {quoted(user)} cannot be looked up: {outcome.detail}")
        # A user that no directory knows gets in where everybody or the user is listed.
        return outcome.groups if isinstance(outcome, Found) else ()

    services = OfflineServices(settings(config, policy.name))
    try:
        snapshot = await services.load()
        found: dict[str, GroupsByUser] = {}
        for name, served in snapshot.served.items():
            groups = await asyncio.gather(*(groups_of(user, served.groups) for user in unknown))
            found[name] = {**known, **dict(zip(unknown, groups, strict=True))}
    except CannotServe as error:
        raise Failure.of(f"{config}: cannot be used", error.diagnostics) from None
    else:
        return found
    finally:
        await services.close()
