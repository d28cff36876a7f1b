"""Reads users and their groups for `--users-from`, from files or a directory."""

import asyncio
import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any, Final

import click

from queuegate_server.analysis.access_changes import GroupsByUser
from queuegate_server.cli import EXIT_INCOMPLETE
from queuegate_server.cli.command import Failure, read_or_fail
from queuegate_server.cli.policies import settings
from queuegate_server.formats.diagnostics import Diagnostics, printable, quoted
from queuegate_server.formats.people import read_people
from queuegate_server.identity.group_resolver import GroupResolver
from queuegate_server.identity.members import MAX_USERS, CannotListUsers
from queuegate_server.identity.resolver import KnownUser, LookupFailure
from queuegate_server.settings.model import Settings

DIRECTORY: Final = "directory"
"""The value of `--users-from` that means all users in the directory."""
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


@dataclass(frozen=True, slots=True)
class RequestedUsers:
    """The users named with `--users-from`."""

    known: GroupsByUser
    """Users whose groups are in a source."""
    unknown: Sequence[str]
    """Users whose groups must be looked up."""
    has_directory: bool
    """Whether all users in the directory are included."""
    missing: list[str] = field(default_factory=list)
    """Why a result is incomplete: which of the directory's users are missing
    (`groups_by_partition`), and which policies `lint` could not compare with the users.
    """

    @property
    def names(self) -> frozenset[str]:
        """The users and known groups, except names with invisible characters."""
        names = (*self.unknown, *self.known, *chain.from_iterable(self.known.values()))
        return frozenset(filter(str.isprintable, names))

    @property
    def need_lookup(self) -> bool:
        """Whether a resolver is required."""
        return bool(self.unknown) or self.has_directory


def exit_status(users: RequestedUsers | None, status: int) -> int:
    """Return a command's exit status, which is not 0 if its result is incomplete; print why."""
    missing = () if users is None else users.missing
    for each in missing:
        click.echo(f"incomplete: {printable(each)}", err=True)
    return status or (EXIT_INCOMPLETE if missing else 0)


def read_users(sources: Sequence[str]) -> RequestedUsers:
    """Read the users in the sources, which are the values of `--users-from`.

    Raises:
        Failure: A file cannot be read or is invalid, or the sources contain no users.
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
        raise Failure(f"{', '.join(sources)}: contains no users")
    known = {user: groups for user, groups in people.items() if groups is not None}
    unknown = [user for user, groups in people.items() if groups is None]
    return RequestedUsers(known, unknown, has_directory)


def groups_by_partition(
    users: RequestedUsers, partitions: Iterable[str], config: Path | None, policy: str | None = None
) -> dict[str, GroupsByUser]:
    """Return the users and their groups for each partition.

    Users who are missing from a directory's list are noted in `users.missing`.

    Args:
        users: The users.
        partitions: The names of the partitions.
        config: The settings that define the resolvers; required if users need a lookup.
        policy: A policy file that replaces the policy in the settings, if any.

    Raises:
        Failure: The settings are missing or invalid, or a lookup failed.
    """
    if not users.need_lookup:
        return dict.fromkeys(partitions, users.known)
    if config is None:
        if users.has_directory:
            remedy = "pass the settings that configure the resolver with --config"
            raise Failure(f"--users-from {DIRECTORY}: {remedy}")
        message = f"the groups of {len(users.unknown)} users, such as {quoted(users.unknown[0])},"
        remedy = "add them to the CSV, or pass the settings with --config"
        raise Failure(f"{message} are not known: {remedy}")
    logging.getLogger("queuegate_server").setLevel(logging.ERROR)
    return asyncio.run(_resolve(users, config, settings(config, policy)))


async def _resolve(
    users: RequestedUsers, config: Path, server: Settings
) -> dict[str, GroupsByUser]:
    """Look up the missing groups, and list users if needed, with each partition's resolver."""
    from queuegate_server.server.offline import OfflineServices  # noqa: PLC0415 - slow
    from queuegate_server.server.startup import CannotServe  # noqa: PLC0415 - slow

    services = OfflineServices(server)
    try:
        snapshot = await services.load()
        people: dict[str, GroupsByUser] = {}
        for name, served in snapshot.served.items():
            unknown = dict.fromkeys(users.unknown)
            if users.has_directory:
                listed = await _all_users(name, served.groups, users.missing)
                unknown |= dict.fromkeys(user for user in listed if user not in users.known)
            people[name] = {**users.known, **await _groups_of(unknown, served.groups)}
    except CannotServe as error:
        raise Failure.of(f"{config}: cannot be used", error.diagnostics) from None
    else:
        return people
    finally:
        await services.close()


async def _all_users(partition: str, resolver: GroupResolver, missing: list[str]) -> Iterable[str]:
    """Return the resolver's users whose names are allowed in requests. Raises Failure.

    If users are missing, adds the reasons to `missing`.
    """
    from queuegate_server.rpc.validation import is_valid_user_name  # noqa: PLC0415 - as above

    try:
        users = await resolver.all_users(MAX_USERS)
    except CannotListUsers as error:
        message = f"partition {quoted(partition)}: the users cannot be listed: {error}"
        raise Failure(f"{message}: list the people in a file") from None
    if users.missing:
        missing.append(f"partition {quoted(partition)}: {users.missing}")
    return filter(is_valid_user_name, users.names)


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
