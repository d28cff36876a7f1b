"""The `queuegate` command group, and the commands that do not have their own modules."""

import contextlib
import time
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from queuegate._address import ENVIRONMENT_VARIABLE
from queuegate._results import HealthStatus, ReloadResult, ReplicaState, ResolveOutcome
from queuegate._types import Check, Decision, Explanation
from queuegate.cli import render, server_state
from queuegate.cli.app_check import app_check
from queuegate.cli.command_classes import Group
from queuegate.cli.documents import explanation_document, plain
from queuegate.cli.invocation import TIMEOUT, Invocation
from queuegate.cli.options import (
    DECISION_STATUSES,
    FILES_TIMEOUT,
    INVALIDATION_TIMEOUT,
    LIST_TIMEOUT,
    RELOAD_TIMEOUT,
    WAIT_TIMEOUT,
    access_option,
    common_options,
    files_options,
    groups_options,
    invocation_options,
    partition_option,
    policy_partition_option,
    prefix_option,
    question,
    wait_option,
)
from queuegate.cli.output import FORMATS, TABLE, Report
from queuegate.cli.problems import INVALID_CONFIGURATION, Exit, Problem
from queuegate.cli.suggestions import MissingQueue, missing_prefix
from queuegate.cli.terminal import escape
from queuegate.cli.tree import shown_partition, tree
from queuegate.cli.unconfirmed import (
    OLD_GROUPS,
    OLD_POLICY,
    stale_problem,
    unconfirmed_lines,
    waited_lines,
)
from queuegate.cli.who_can import who_can
from queuegate.exceptions import QueuegateError
from queuegate.policy.decision import Access

if TYPE_CHECKING:
    from collections.abc import Callable

    from queuegate._client import Client
    from queuegate._users import UsableQueue
    from queuegate.cli.offline import OfflineClient

_Answer = TypeVar("_Answer", bound=Decision | Explanation)

_STATUSES: Final = {
    Exit.OK: "access is allowed; the command succeeded",
    Exit.NO: "access is denied; there is no such user or queue; the server is not serving; a gate"
    " or a replica may still use old state",
    Exit.WRONG: "incorrect usage or configuration, such as an unknown partition or a missing role",
    Exit.NO_ANSWER: "no answer: the server or the directory is unavailable or too slow; a list is"
    " incomplete",
}
_WRONG: Final = "incorrect usage, or the caller lacks a role"
_NO_ANSWER: Final = "no answer: the server is unavailable or too slow"
_ENVIRONMENT: Final = {
    ENVIRONMENT_VARIABLE: "the address of the server, unless --address is given",
    "QUEUEGATE_CA_FILE": "the default of --tls-ca, if no --tls option is given",
    "QUEUEGATE_CERTIFICATE_FILE": "the same for --tls-cert",
    "QUEUEGATE_KEY_FILE": "the same for --tls-key",
    "QUEUEGATE_SERVER_NAME": "the same for --tls-server-name",
    "QUEUEGATE_TOKEN_FILE": "the default of --token-file",
    "NO_COLOR": "disables colors, if set",
}


@click.group(
    cls=Group,
    example="queuegate check sue root.analytics.reports",
    exit_statuses=_STATUSES,
    environment=_ENVIRONMENT,
)
@common_options((*FORMATS, TABLE), f"the command's own, usually {TIMEOUT:g}")
@click.version_option(package_name="queuegate", message="%(prog)s %(version)s")
def queuegate(**_: Any) -> None:
    """Check with a queuegate server whether a user may use a queue, and why."""


@queuegate.command(
    example="queuegate check sue root.analytics.reports", exit_statuses=DECISION_STATUSES
)
@invocation_options(FILES_TIMEOUT)
@question
def check(invocation: Invocation, asked: Check) -> Report:
    """Check whether USER may use QUEUE, such as root.a.b."""
    answer, hints = _ask(invocation, asked, lambda client: client.check(**asdict(asked)))
    status = Exit.OK if answer.allowed else Exit.NO
    site = invocation.yarn_site or ""
    text = render.decision_text(asked, answer, invocation.colors, hints, site)
    return Report(answer, [text], status)


@queuegate.command(
    example="queuegate explain sue root.analytics.reports --policy queues.yaml --no-groups",
    exit_statuses=DECISION_STATUSES,
)
@invocation_options(FILES_TIMEOUT)
@question
def explain(invocation: Invocation, asked: Check) -> Report:
    """Explain a decision: show the ACLs and groups it is based on."""
    answer, hints = _ask(invocation, asked, lambda client: client.explain(**asdict(asked)))
    status = Exit.OK if answer.decision.allowed else Exit.NO
    site = invocation.yarn_site or ""
    lines = render.explanation_lines(asked, answer, invocation.colors, hints, site)
    return Report(explanation_document(answer), lines, status)


def _ask(
    invocation: Invocation, asked: Check, ask: "Callable[[Client | OfflineClient], _Answer]"
) -> tuple[_Answer, MissingQueue]:
    """Run a check. Return the answer, and hints about a missing or ambiguous queue."""
    with invocation.client() as client:
        started = time.monotonic()
        with invocation.with_queue_hint(
            client, asked.user, asked.queue, asked.partition, user_first=True
        ):
            answer = ask(client)
        decision = answer if isinstance(answer, Decision) else answer.decision
        return answer, invocation.missing_queue_hints(client, asked, decision, started)


@queuegate.command(
    example="queuegate queues sue --why",
    exit_statuses={
        Exit.OK: "the queues are listed; there may be none",
        Exit.WRONG: DECISION_STATUSES[Exit.WRONG],
        Exit.NO_ANSWER: DECISION_STATUSES[Exit.NO_ANSWER],
    },
)
@invocation_options(f"{LIST_TIMEOUT:g}", with_table=True)
@click.argument("user")
@prefix_option
@partition_option
@access_option
@groups_options
@click.option("--why", is_flag=True, help="Show the ACL entry that grants access.")
@files_options
def queues(invocation: Invocation, user: str, *, access: str, why: bool, **options: Any) -> Report:
    """List the configured queues that USER may use.

    Queues that YARN will create are not listed; `tree --user` marks them.
    """
    options["timeout"] = invocation.timeout or LIST_TIMEOUT
    usable: list[UsableQueue] = []
    prefix, partition = options["prefix"], options["partition"]
    with invocation.client() as client:
        with invocation.with_queue_hint(client, user, prefix, partition):
            if why:
                usable = client.explain_queues(user, access=Access(access), **options)
                paths = [each.queue for each in usable]
            else:
                paths = client.list_queues(user, access=Access(access), **options)
        note = ""
        if prefix and not paths:
            # Callers who may not read the policy get no hints.
            with contextlib.suppress(QueuegateError):
                queues_below = client.get_policy(partition, prefix)
                note = missing_prefix(client, queues_below, prefix, partition)
    if not (paths or note):
        note = f"{user} may {render.VERBS[Access(access)]} none of the configured queues"
        note += f" at or below {prefix}" if prefix else ""
    if why:
        document = {"queues": [asdict(each) for each in usable]}
        heads = ("QUEUE", "VIA", "ACL", "OF QUEUE")
        rows = [(each.queue, *render.grant_row(each.via)) for each in usable]
        return Report(document, render.usable_queue_lines(usable), note=note, table=(heads, rows))
    table = (("QUEUE",), [(queue,) for queue in paths])
    return Report({"queues": paths}, map(escape, paths), note=note, table=table)


queuegate.add_command(app_check)
queuegate.add_command(who_can)
queuegate.add_command(tree)


@queuegate.command(
    example="queuegate resolve sue --bypass-cache",
    exit_statuses={
        Exit.OK: "the groups are known",
        Exit.NO: "there is no such user",
        Exit.WRONG: _WRONG,
        Exit.NO_ANSWER: DECISION_STATUSES[Exit.NO_ANSWER],
    },
)
@invocation_options()
@click.argument("user")
@click.option(
    "--bypass-cache",
    is_flag=True,
    help="Query the directory instead of the cache, and cache the result.",
)
@partition_option
def resolve(invocation: Invocation, user: str, *, bypass_cache: bool, partition: str) -> Report:
    """Show the groups of USER."""
    with invocation.client() as client:
        answer = client.resolve(user, partition=partition, bypass_cache=bypass_cache)
    lines = [*render.resolution_lines(answer, invocation.colors)]
    match answer.outcome:
        case ResolveOutcome.RESOLVED:
            return Report(answer, lines)
        case ResolveOutcome.NOT_FOUND:
            return Report(answer, lines, Exit.NO)
    problem = Problem(Exit.NO_ANSWER, "RESOLVER_UNAVAILABLE", "\n".join(lines))
    return Report(answer, [], problem=problem)


@queuegate.command(
    example="queuegate invalidate sue --wait",
    exit_statuses={
        Exit.OK: "the groups are invalidated",
        Exit.NO: "with --wait: a gate may still use groups from before the call",
        Exit.WRONG: _WRONG,
        Exit.NO_ANSWER: _NO_ANSWER,
    },
)
@invocation_options(f"{INVALIDATION_TIMEOUT:g}; with --wait: {WAIT_TIMEOUT:g}")
@click.argument("users", metavar="USER... | --all", nargs=-1)
@click.option("--all", "everyone", is_flag=True, help="All users of the partition.")
@wait_option
@partition_option
def invalidate(
    invocation: Invocation, users: tuple[str, ...], *, everyone: bool, wait: bool, partition: str
) -> Report:
    """Invalidate the cached groups of each USER, or of all users."""
    if bool(users) == everyone:
        message = "name the users to invalidate, or use --all, but not both"
        raise click.UsageError(message, click.get_current_context())
    with invocation.client() as client:
        names = None if everyone else users
        timeout = invocation.timeout or (WAIT_TIMEOUT if wait else INVALIDATION_TIMEOUT)
        answer = client.invalidate(names, partition=partition, wait=wait, timeout=timeout)
    document: dict[str, object] = {"dropped": answer.dropped}
    lines = [f"dropped {answer.dropped} cached answer{'' if answer.dropped == 1 else 's'}"]
    problem = None
    if wait:
        document["waited_out"] = answer.waited_out
        document["stale_gates"] = plain(answer)["stale_gates"]
        lines += waited_lines(answer, OLD_GROUPS)
        problem = stale_problem(answer, OLD_GROUPS)
    # With --wait, gates also drop cached groups, so the call has an effect even if the server's
    # cache was empty.
    nothing = not everyone and not wait and not answer.dropped
    note = "no such user is in this server's cache; names are case-sensitive" if nothing else ""
    return Report(document, lines, note=note, problem=problem)


@queuegate.command(
    example="queuegate policy --prefix root.analytics -o table",
    exit_statuses={
        Exit.OK: "the policy is shown",
        Exit.NO: "the queue of --prefix does not exist",
        Exit.WRONG: _WRONG,
        Exit.NO_ANSWER: _NO_ANSWER,
    },
)
@invocation_options(with_table=True)
@prefix_option
@policy_partition_option
def policy(invocation: Invocation, prefix: str, partition: str) -> Report:
    """Show the server's current policy."""
    with invocation.client() as client:
        answer = client.get_policy(partition, prefix)
        note = missing_prefix(client, answer, prefix, partition)
    rows = [(queue.path, queue.submit_acl, queue.admin_acl) for queue in answer.queues]
    table = (("QUEUE", "SUBMIT ACL", "ADMIN ACL"), rows)
    document = {"partition": shown_partition(partition, answer), **plain(answer)}
    lines = server_state.policy_lines(answer, invocation.colors)
    return Report(document, lines, Exit.NO if note else Exit.OK, note=note, table=table)


@queuegate.command(
    example="queuegate reload --wait",
    exit_statuses={
        Exit.OK: "the server has read the policy again and serves it",
        Exit.NO: "with --wait: a gate or a replica may still use the old policy",
        Exit.WRONG: "incorrect usage, a missing role, or an invalid policy, which is not served",
        Exit.NO_ANSWER: _NO_ANSWER,
    },
)
@invocation_options(f"{RELOAD_TIMEOUT:g}")
@wait_option
def reload(invocation: Invocation, *, wait: bool) -> Report:
    """Make the server reload its policy. To reload its settings, send it SIGHUP."""
    with invocation.client() as client:
        answer = client.reload(wait=wait, timeout=invocation.timeout or RELOAD_TIMEOUT)
    document = plain(answer)
    del document["cursor"]
    if not wait:
        del document["waited_out"], document["stale_gates"]
    lines = [*server_state.diagnostic_lines(answer.diagnostics, invocation.colors)]
    if not answer.succeeded:
        message = (
            f"the configuration is invalid; the server keeps serving revision {answer.revision}"
        )
        problem = Problem(Exit.WRONG, INVALID_CONFIGURATION, message)
        return Report(document, lines, problem=problem)
    lines.append(f"serving revision {answer.revision}")
    return _waited_reload(answer, document, lines) if wait else Report(document, lines)


def _waited_reload(answer: ReloadResult, document: dict[str, Any], lines: list[str]) -> Report:
    """Return the report on a reload after which the server waited for gates and replicas."""
    if any(each.is_about_fleet for each in answer.diagnostics):
        message = "some replicas may not serve the new policy yet: see the warnings"
        problem = Problem(Exit.NO, "FLEET_DISAGREES", message)
        return Report(document, [*lines, *unconfirmed_lines(answer, OLD_POLICY)], problem=problem)
    lines = [*lines, *waited_lines(answer, OLD_POLICY)]
    return Report(document, lines, problem=stale_problem(answer, OLD_POLICY))


@queuegate.command(
    example="queuegate fleet -o json",
    exit_statuses={
        Exit.OK: "the replicas agree, or are still starting",
        Exit.NO: "the replicas disagree, or Redis is unavailable",
        Exit.WRONG: "incorrect usage, a missing role, or the server is not in a fleet",
        Exit.NO_ANSWER: _NO_ANSWER,
    },
)
@invocation_options()
def fleet(invocation: Invocation) -> Report:
    """Show the fleet's replicas and gates, and whether they agree.

    If the server is not in a fleet, shows only its gates.
    """
    with invocation.client() as client:
        answer = client.get_fleet()
    lines = [*server_state.fleet_lines(answer, invocation.colors)]
    is_starting = any(each.state is ReplicaState.STARTING for each in answer.replicas)
    if answer.agreed or (is_starting and not answer.problems):
        return Report(answer, lines)
    message = "; ".join(map(escape, answer.problems)) or "the replicas disagree"
    status, code = Exit.NO, "FLEET_DISAGREES"
    if not answer.replicas:
        message = "the server is not in a fleet (fleet.url is not set): only its gates are shown"
        status, code = Exit.WRONG, "NO_FLEET"
    elif not answer.connected:
        code = "REDIS_UNAVAILABLE"
    return Report(answer, lines, problem=Problem(status, code, message))


@queuegate.command(
    example="queuegate health --address queuegate.example.com:50051 --tls-ca ca.pem",
    exit_statuses={
        Exit.OK: "the server is serving",
        Exit.NO: "the server is not serving",
        Exit.WRONG: "incorrect usage, or the server has no such service",
        Exit.NO_ANSWER: _NO_ANSWER,
    },
)
@invocation_options()
@click.option("--service", default="", metavar="NAME", help="The full name of a service.")
def health(invocation: Invocation, service: str) -> Report:
    """Check whether the server is serving."""
    with invocation.client() as client:
        answer = client.check_health(service)
    document = {"status": answer}
    match answer:
        case HealthStatus.SERVING:
            return Report(document, [invocation.colors.good("serving")])
        case HealthStatus.SERVICE_UNKNOWN:
            message = f"the server has no service {service}"
            problem = Problem(Exit.WRONG, "SERVICE_UNKNOWN", message)
            return Report(document, [], problem=problem)
    return Report(document, [invocation.colors.bad(answer.replace("_", " "))], Exit.NO)
