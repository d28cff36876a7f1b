"""The `queuegate who-can` command, which lists the users who may use a queue, and why."""

import shlex
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from itertools import islice
from typing import TYPE_CHECKING, Final, NamedTuple

import click

from queuegate._users import AccessGrant, ListedUser, UserPage
from queuegate.cli.command_classes import Command
from queuegate.cli.invocation import Invocation
from queuegate.cli.options import (
    DECISION_STATUSES,
    LIST_TIMEOUT,
    access_option,
    files_options,
    invocation_options,
    partition_option,
)
from queuegate.cli.output import Report
from queuegate.cli.problems import Exit, Problem
from queuegate.cli.render import VERBS, grant_row, grant_words, moment, place_of
from queuegate.cli.suggestions import ambiguous_name, missing_queue, missing_queue_line
from queuegate.cli.terminal import Colors, escape
from queuegate.exceptions import QueuegateError
from queuegate.policy.decision import Access
from queuegate.policy.reach import SubjectKind

if TYPE_CHECKING:
    from queuegate._methods.client import ClientMethods

_MAX_NAMED: Final = 5
"""The maximum number of groups named in the error for an incomplete list."""
_NO_RESOLVER: Final = "none"
"""The resolver for YuniKorn partitions, unless the settings name another."""


class _WhoCanCommand(Command):
    """A command that suggests `--access` if the kind of access is passed as an argument."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the arguments. If they include a kind of access, raise a UsageError that suggests
        the option.
        """
        try:
            values, rest, _ = self.make_parser(ctx).parse_args([*args])
        except click.UsageError:
            return super().parse_args(ctx, args)  # which explains the error
        words = [str(values.get("queue")), *rest]
        access = [word for word in words if word in set(map(str, Access))]
        if len(rest) == 1 and len(access) == 1:
            words.remove(access[0])
            new = f"{ctx.command_path} {shlex.quote(words[0])} --access {access[0]}"
            raise click.UsageError(f"the kind of access is an option: {new}", ctx)
        return super().parse_args(ctx, args)


@click.command(
    "who-can",
    cls=_WhoCanCommand,
    example="queuegate who-can root.analytics.reports --all-pages",
    exit_statuses={
        Exit.OK: "the users are listed; there may be none",
        Exit.WRONG: DECISION_STATUSES[Exit.WRONG],
        Exit.NO_ANSWER: "no answer, or the list is incomplete, for the given reason",
    },
)
@invocation_options(f"{LIST_TIMEOUT:g}", with_table=True)
@click.argument("queue")
@partition_option
@access_option
@click.option("--all-pages", is_flag=True, help="Show all pages of users.")
@files_options
def who_can(
    invocation: Invocation,
    *,
    access: str,
    queue: str,
    partition: str,
    all_pages: bool,
) -> Report:
    """List the users who may use QUEUE, and why."""
    asked = _Question(queue, partition, Access(access))
    with invocation.client() as client:
        iterator = client.list_users(
            queue,
            partition=partition,
            access=asked.access,
            timeout=invocation.timeout or LIST_TIMEOUT,
        )
        pages = list(iterator if all_pages else islice(iterator, 2))
        first = pages[0]
        has_users = first.users or first.everyone_via
        ambiguity = "" if has_users else ambiguous_name(client, queue, partition)
        hints = [_missing(client, first, asked), _without_resolver(client, first, asked)]
    has_more = not all_pages and len(pages) > 1
    if has_more:
        del pages[1:]
    users = [user for page in pages for user in page.users]
    times = [page.directory_as_of for page in pages if page.directory_as_of]
    document = asdict(first) | {
        "users": [asdict(user) for user in users],
        "complete": all(page.complete for page in pages),
        "directory_as_of": min(times, default=None),
        "has_more": has_more,
    }
    table = (("USER", "VIA", "ACL", "QUEUE", "CONFIRMED"), [*map(_row, users)])
    is_nobody = first.complete and not (users or first.everyone or first.proxies)
    if has_more:
        hints.append("there are more users: show them with --all-pages")
    elif is_nobody:
        hints.append(f"nobody may {VERBS[asked.access]} {queue}")
    return Report(
        document,
        [*_lines(first, users, invocation.colors)],
        note=ambiguity or "; ".join(filter(None, [*hints, *_remarks(first)])),
        problem=_incomplete(pages),
        table=table,
    )


class _Question(NamedTuple):
    """The question that the command asks the server."""

    queue: str
    partition: str
    access: Access


def _lines(page: UserPage, users: Sequence[ListedUser], colors: Colors) -> Iterator[str]:
    """Yield a line for each grant to everyone or to a service, then one for each user's first
    grant.
    """
    if page.everyone_via is not None:
        is_enforced = page.everyone_via.acl is not None
        where = f"{place_of(page.everyone_via)} allows everyone"
        text = where if is_enforced else grant_words(page.everyone_via)
        yield f"{colors.good('everyone')}: {text}"
    for grant in page.proxies:
        yield f"any user on whose behalf {escape(grant.name)} acts: {place_of(grant)}"
    width = max((len(escape(user.user)) for user in users), default=0)
    for user in users:
        text = f"{escape(user.user):{width}}  "
        text += "; ".join(map(grant_words, user.via[:1]))
        others = len(user.via) - 1 + user.further
        if others > 0:
            text += colors.faint(f" ({others} more)")
        if not user.confirmed:
            text += colors.doubtful(f" (not confirmed: {escape(user.detail)})")
        yield text


def _row(user: ListedUser) -> tuple[str, str, str, str, str]:
    first = user.via[0] if user.via else AccessGrant("", None, None, "")
    return user.user, *grant_row(first), "yes" if user.confirmed else "no"


def _remarks(page: UserPage) -> Iterator[str]:
    """Yield remarks about what a list is based on."""
    if page.groups_may_be_asserted:
        yield "callers that may assert groups can give others access"
    if page.directory_as_of:
        yield f"group members as of {moment(page.directory_as_of)}"


def _missing(client: "ClientMethods", page: UserPage, asked: _Question) -> str:
    """Return a remark with hints if the queue does not exist; otherwise ""."""
    evaluated = page.evaluated_queue
    if not evaluated:
        return ""
    hints = missing_queue(client, asked.queue, asked.partition, evaluated)
    return missing_queue_line(asked.queue, evaluated, hints)


def _without_resolver(client: "ClientMethods", page: UserPage, asked: _Question) -> str:
    """Return a remark if groups are treated as users because no resolver looks them up; otherwise
    "".

    Only an explanation names the resolver, so one is requested if each member of a group has the
    group's name.
    """
    members = [
        (user.user, grant)
        for user in page.users
        for grant in user.via
        if grant.kind is SubjectKind.GROUP
    ]
    if not members or any(user != grant.name or grant.nested for user, grant in members):
        return ""
    user, partition = members[0][0], asked.partition
    try:
        explained = client.explain(user, asked.queue, partition=partition, access=asked.access)
    except QueuegateError:
        return ""
    if explained.groups.resolver != _NO_RESOLVER:
        return ""
    return (
        "no resolver looks up groups, so each group is treated as a user of the same name: set "
        f"partitions.{partition}.resolver in the server's settings"
    )


def _incomplete(pages: Sequence[UserPage]) -> Problem | None:
    """Return a problem that says which groups' members are unknown and why, or None."""
    partial = [page for page in pages if not page.complete]
    if not partial:
        return None
    groups = _distinct(each.grant.name for page in partial for each in page.unexpanded_groups)
    named = ", ".join(groups[:_MAX_NAMED])
    if len(groups) > _MAX_NAMED:
        named += f" and {len(groups) - _MAX_NAMED} more"
    why = "; ".join(_distinct(reason for page in partial for reason in page.incomplete))
    message = f"the list is incomplete: not all members of {named or 'the groups'} are known: {why}"
    return Problem(Exit.NO_ANSWER, "INCOMPLETE", message)


def _distinct(texts: Iterable[str]) -> list[str]:
    return [*dict.fromkeys(texts)]
