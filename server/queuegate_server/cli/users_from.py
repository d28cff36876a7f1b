"""Reads users and their groups for `--users-from`, from files or a directory."""

import asyncio
import logging
from collections.abc import Callable, Iterable, Sequence
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
from queuegate_server.identity.members import MAX_USERS, CannotListUsers
from queuegate_server.identity.resolver import KnownUser, LookupFailure
from queuegate_server.settings.model import Settings

DIRECTORY: Final = "directory"
"""The value of `--users-from` that stands for all users in the directory."""
_AT_ONCE: Final = 32
"""The maximum number of concurrent lookups."""

users_from_option: Final[Callable[[Any], Any]] = click.option(
    "--users-from",
    "users_from",
    multiple=True,
    metavar="SOURCE",
    help="The people: a CSV with lines USER,GROUP,GROUP…; names alone or an audit log, with groups"
    f" from the resolver in --config; or `{DIRECTORY}`: all users of that resolver. Repeatable.",
)


def read_users(
    sources: Sequence[str],
    config: Path | None,
    policy: PolicyFile,
    *,
    server: Settings | None = None,
) -> dict[str, GroupsByUser]:
    """Return the users and their groups for each partition of the policy.

    Args:
        sources: The values of `--users-from`.
        config: The settings that define the resolvers; required unless the sources contain all
            groups.
        policy: The policy.
        server: The settings of the server that loads the policy; by default, `config` with only
            this policy.

    Raises:
        Failure: A file cannot be read or is invalid, or a lookup failed.
    """
    people: dict[str, tuple[str, ...] | None] = {}
    for file in sources:
        if file == DIRECTORY:
            continue
        data, name = read_or_fail(file)
        diagnostics = Diagnostics(name)
        for user, groups in read_people(data, diagnostics).items():
            if groups is not None or user not in people:
                people[user] = groups
        if diagnostics.error_count:
            raise Failure.of(f"{name}: not valid", diagnostics.sorted())
    has_directory = DIRECTORY in sources
    if not (people or has_directory):
        raise Failure(f"{', '.join(sources)}: no users")
    unknown = [user for user, groups in people.items() if groups is None]
    known = {user: groups for user, groups in people.items() if groups is not None}
    if not (unknown or has_directory):
        return dict.fromkeys(policy.partitions, known)
    if config is None:
        if has_directory:
            remedy = "pass the settings that configure the resolver with --config"
            raise Failure(f"--users-from {DIRECTORY}: {remedy}")
        message = f"the groups of {len(unknown)} users, such as {quoted(unknown[0])}, are not known"
        raise Failure(f"{message}: add them to the CSV, or pass the settings with --config")
    logging.getLogger("queuegate_server").setLevel(logging.ERROR)
    server = server or settings(config, policy.name)
    return asyncio.run(_resolve(config, server, known, unknown, has_directory=has_directory))


async def _resolve(
    config: Path,
    server: Settings,
    known: GroupsByUser,
    unknown: Sequence[str],
    *,
    has_directory: bool,
) -> dict[str, GroupsByUser]:
    """Look up the missing groups, and list users if needed, with each partition's resolver."""
    from queuegate_server.server.offline import (  # noqa: PLC0415 - slow, and rarely needed
        CannotServe,
        OfflineServices,
    )

    services = OfflineServices(server)
    try:
        snapshot = await services.load()
        people: dict[str, GroupsByUser] = {}
        for name, served in snapshot.served.items():
            users: Iterable[str] = unknown
            if has_directory:
                listed = await _all_users(name, served.groups)
                users = dict.fromkeys([*unknown, *(user for user in listed if user not in known)])
            people[name] = {**known, **await _groups_of(users, served.groups)}
    except CannotServe as error:
        raise Failure.of(f"{config}: cannot be used", error.diagnostics) from None
    else:
        return people
    finally:
        await services.close()


async def _all_users(partition: str, resolver: GroupResolver) -> Iterable[str]:
    """Return the resolver's users whose names are allowed in requests. Raises Failure."""
    from queuegate_server.rpc.validation import is_valid_user_name  # noqa: PLC0415 - as above

    try:
        users = await resolver.all_users(MAX_USERS)
    except CannotListUsers as error:
        message = f"partition {quoted(partition)}: the users cannot be listed: {error}"
        raise Failure(f"{message}: name the people in a file") from None
    return filter(is_valid_user_name, users)


async def _groups_of(users: Iterable[str], resolver: GroupResolver) -> dict[str, tuple[str, ...]]:
    """Look up users' groups concurrently. Raises Failure."""
    groups: dict[str, tuple[str, ...]] = {}
    remaining = iter(users)

    async def look_up() -> None:
        for user in remaining:
            outcome = (await resolver.resolve(user)).entry.outcome
            if isinstance(outcome, LookupFailure):
                raise Failure(f"the groups of {quoted(user)} cannot be looked up: {outcome.detail}")
            # Include unknown users, because an ACL may list everyone or the user.
            groups[user] = outcome.groups if isinstance(outcome, KnownUser) else ()

    await asyncio.gather(*(look_up() for _ in range(_AT_ONCE)))
    return groups
