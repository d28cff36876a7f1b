"""The `queuegate tree` command, which draws a partition's queues and shows who may use them."""

import shutil
import sys
from collections.abc import Callable
from functools import cache
from typing import Final

import click

from queuegate._results import PolicyInfo, PolicyQueue
from queuegate.cli.command_classes import Command
from queuegate.cli.created_access import SEMANTICS, Asker, access_to_created
from queuegate.cli.documents import plain
from queuegate.cli.invocation import Invocation
from queuegate.cli.options import (
    DECISION_STATUSES,
    LIST_TIMEOUT,
    files_options,
    groups_options,
    invocation_options,
    policy_partition_option,
    prefix_option,
)
from queuegate.cli.output import Report
from queuegate.cli.problems import Exit
from queuegate.cli.server_state import unenforced_acls
from queuegate.cli.suggestions import missing_prefix
from queuegate.cli.tree_drawing import Drawing
from queuegate.policy import acl as yunikorn_acl
from queuegate.policy.acl import Acl, AclError, AclNames
from queuegate.policy.decision import Access
from queuegate.policy.names import DEFAULT_PARTITION
from queuegate.policy.yarn_acl import Semantics, yarn_grammar

_MAX_CHILDREN: Final = 50
"""The maximum number of children shown per queue by default."""
_MIN_WIDTH: Final = 40
_YARN_FORMATS: Final = frozenset({"fair-scheduler", "capacity-scheduler"})


@click.command(
    "tree",
    cls=Command,
    example="queuegate tree --user sue --policy queues.yaml --no-groups",
    exit_statuses={
        Exit.OK: "the tree is shown",
        Exit.NO: "the queue of --prefix does not exist",
        Exit.WRONG: DECISION_STATUSES[Exit.WRONG],
        Exit.NO_ANSWER: DECISION_STATUSES[Exit.NO_ANSWER],
    },
)
@invocation_options(f"{LIST_TIMEOUT:g}")
@prefix_option
@policy_partition_option
@click.option("--user", metavar="USER", help="Mark the queues that this user may use.")
@click.option(
    "--depth",
    type=click.IntRange(0),
    metavar="N",
    help="The number of levels to show below the topmost queue.",
)
@click.option("--all", "everything", is_flag=True, help="Show all queues, however many there are.")
@groups_options
@files_options
def tree(
    invocation: Invocation,
    *,
    prefix: str,
    partition: str,
    user: str | None,
    depth: int | None,
    everything: bool,
    groups: tuple[str, ...] | None,
    real_user: str,
) -> Report:
    """Show the queue tree, and who is listed in each queue's ACLs.

    Where YARN creates queues, * represents the queues with ACLs from a template. --user does not
    mark these if access depends on groups that are not given with --group.

    A tree of more than 200 queues is cut off where marked; --depth, --prefix and --all show more.
    """
    if user is None and (groups is not None or real_user):
        message = "--group, --no-groups and --real-user: only with --user"
        raise click.UsageError(message, click.get_current_context())
    timeout = invocation.timeout or LIST_TIMEOUT
    usable: dict[Access, frozenset[str]] = {}
    with invocation.client() as client:
        answer = client.get_policy(partition, prefix, timeout=timeout)
        note = missing_prefix(client, answer, prefix, partition)
        queues, partition = answer.queues, shown_partition(partition, answer)
        if user is not None:
            for access in Access:
                with invocation.with_queue_hint(client, user, prefix, partition):
                    usable_queues = client.list_queues(
                        user,
                        partition=partition,
                        access=access,
                        prefix=prefix,
                        groups=groups,
                        real_user=real_user,
                        timeout=timeout,
                    )
                usable[access] = frozenset(usable_queues)
    parse = _parser(answer)
    created: dict[str, list[Access]] = {}
    if user is not None:
        asker = Asker(user, groups, real_user)
        created = access_to_created(answer, usable, parse, asker)
    drawing = Drawing(
        queues,
        usable,
        invocation.colors,
        _width(),
        templates=answer.templates,
        created=created,
        parse=parse,
    )
    if everything:
        lines = drawing.lines(None, None)
    else:
        level = drawing.fitting_depth() if depth is None else depth
        lines = drawing.lines(level, _MAX_CHILDREN if depth is None else None)
    document: dict[str, object] = {
        "partition": partition,
        "queues": [_to_document(queue, usable) for queue in queues],
    }
    if answer.templates:
        document["templates"] = [plain(template) for template in answer.templates]
    if answer.unenforced:
        document["unenforced"] = answer.unenforced
    shown = [*unenforced_acls(answer), *lines]
    return Report(document, shown, Exit.NO if note else Exit.OK, note=note)


def shown_partition(partition: str, answer: PolicyInfo) -> str:
    """Return the name of the partition that a response describes. `partition` is the requested
    name, or empty.
    """
    only = answer.partitions[0] if len(answer.partitions) == 1 else DEFAULT_PARTITION
    return partition or only


def _parser(answer: PolicyInfo) -> Callable[[str], Acl]:
    """Return the parser that the server uses for the ACLs in a response."""
    if answer.semantics in SEMANTICS:
        return cache(yarn_grammar(Semantics(answer.semantics)))
    if answer.format in _YARN_FORMATS:
        return cache(yarn_grammar(Semantics.DOCUMENTED))
    return cache(_parse_yunikorn)


def _parse_yunikorn(text: str) -> Acl:
    """Parse a YuniKorn ACL. If YuniKorn rejects it, return an ACL that grants nothing and contains
    the text as a dropped name.
    """
    try:
        return yunikorn_acl.parse(text, AclNames.ANY)
    except AclError:
        return Acl(text, dropped_users=(text,))


def _width() -> int | None:
    """Return the terminal's width in columns, or None if standard output is not a terminal."""
    if not sys.stdout.isatty():
        return None
    return max(_MIN_WIDTH, shutil.get_terminal_size().columns)


def _to_document(queue: PolicyQueue, usable: dict[Access, frozenset[str]]) -> dict[str, object]:
    described: dict[str, object] = {
        "queue": queue.path,
        "submit_acl": queue.submit_acl,
        "admin_acl": queue.admin_acl,
    }
    if queue.submit_acl_entries:
        described["submit_acl_entries"] = [plain(each) for each in queue.submit_acl_entries]
    if queue.created_levels:
        described["created_levels"] = queue.created_levels
    if usable:
        described["allowed"] = [access for access in Access if queue.path in usable[access]]
    return described
