"""The commands: the calls that they make, and their exit statuses."""

import argparse
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from queuegate._applications import Application, ApplicationCheck, SparkApplication
from queuegate._results import HealthStatus, ResolveOutcome
from queuegate._types import Check
from queuegate.cli import render
from queuegate.cli.exit_codes import Exit
from queuegate.cli.terminal import Colours, escape
from queuegate.policy.applications import Action
from queuegate.policy.decision import Access

if TYPE_CHECKING:
    from queuegate._client import Client


@dataclass(frozen=True, slots=True)
class Report:
    """The output of a command and its exit status."""

    document: Any
    """For `--output json`: dataclasses, lists, mappings and plain values."""
    lines: Iterable[str]
    """For `--output text`."""
    status: Exit
    problem: str = ""
    """A failure to print on standard error."""


def check(client: "Client", options: argparse.Namespace, colours: Colours) -> Report:
    """Check whether the user may use the queue."""
    asked = _question(options)
    answer = client.check(
        asked.user,
        asked.queue,
        partition=asked.partition,
        access=asked.access,
        groups=asked.groups,
        real_user=asked.real_user,
    )
    status = Exit.OK if answer.allowed else Exit.NO
    return Report(answer, [render.decision(asked, answer, colours)], status)


def explain(client: "Client", options: argparse.Namespace, colours: Colours) -> Report:
    """Check whether the user may use the queue, and show the evaluation."""
    asked = _question(options)
    answer = client.explain(
        asked.user,
        asked.queue,
        partition=asked.partition,
        access=asked.access,
        groups=asked.groups,
        real_user=asked.real_user,
    )
    status = Exit.OK if answer.decision.allowed else Exit.NO
    return Report(answer, render.explanation(asked, answer, colours), status)


def app_check(client: "Client", options: argparse.Namespace, colours: Colours) -> Report:
    """Check whether the user may do this with the application."""
    properties = dict(text.split("=", 1) for text in options.properties)
    asked = ApplicationCheck(
        options.user,
        Action(options.action.replace("-", "_")),
        SparkApplication(properties, options.spark_user, options.process_user)
        if options.spark
        else Application(options.queue, options.owner, options.view_acl, options.modify_acl),
        options.partition,
        options.groups,
        options.target_queue,
        options.real_user,
    )
    if options.explain:
        explained = client.explain_application(asked)
        status = Exit.OK if explained.decision.allowed else Exit.NO
        return Report(explained, render.application_explanation(asked, explained, colours), status)
    answer = client.check_application(asked)
    status = Exit.OK if answer.allowed else Exit.NO
    return Report(answer, [render.application_decision(asked, answer, colours)], status)


def queues(client: "Client", options: argparse.Namespace, _: Colours) -> Report:
    """List the queues that the user may use."""
    answer = client.queues(
        options.user,
        partition=options.partition,
        access=Access(options.access),
        prefix=options.prefix,
        groups=options.groups,
        real_user=options.real_user,
    )
    return Report({"queues": answer}, map(escape, answer), Exit.OK)


def resolve(client: "Client", options: argparse.Namespace, colours: Colours) -> Report:
    """Resolve the groups of the user."""
    answer = client.resolve(
        options.user,
        partition=options.partition,
        bypass_cache=options.bypass_cache,
    )
    lines = [*render.resolution(answer, colours)]
    match answer.outcome:
        case ResolveOutcome.RESOLVED:
            return Report(answer, lines, Exit.OK)
        case ResolveOutcome.NOT_FOUND:
            return Report(answer, lines, Exit.NO)
    return Report(answer, [], Exit.NO_ANSWER, "\n".join(lines))


def invalidate(client: "Client", options: argparse.Namespace, _: Colours) -> Report:
    """Invalidate cached groups."""
    users = None if options.all else options.users
    dropped = client.invalidate(users, partition=options.partition)
    return Report({"dropped": dropped}, [f"dropped {dropped} cached answers"], Exit.OK)


def policy(client: "Client", options: argparse.Namespace, colours: Colours) -> Report:
    """Show the policy that the server is serving."""
    answer = client.policy(options.partition, options.prefix)
    return Report(answer, render.policy(answer, colours), Exit.OK)


def reload(client: "Client", options: argparse.Namespace, colours: Colours) -> Report:
    """Make the server reload its configuration."""
    answer = client.reload(timeout=options.timeout or 30.0)
    lines = [*render.diagnostics(answer.diagnostics, colours)]
    if answer.succeeded:
        return Report(answer, [*lines, f"serving revision {answer.revision}"], Exit.OK)
    problem = f"the configuration is invalid; the server keeps serving revision {answer.revision}"
    return Report(answer, lines, Exit.WRONG, problem)


def health(client: "Client", options: argparse.Namespace, colours: Colours) -> Report:
    """Check the health of the server."""
    answer = client.health(options.service)
    document = {"status": answer}
    match answer:
        case HealthStatus.SERVING:
            return Report(document, [colours.good("serving")], Exit.OK)
        case HealthStatus.SERVICE_UNKNOWN:
            problem = f"the server has no service {options.service}"
            return Report(document, [], Exit.WRONG, problem)
    return Report(document, [colours.bad(answer.replace("_", " "))], Exit.NO)


def _question(options: argparse.Namespace) -> Check:
    return Check(
        options.user,
        options.queue,
        options.partition,
        Access(options.access),
        options.groups,
        options.real_user,
    )


COMMANDS: Final[Mapping[str, Callable[["Client", argparse.Namespace, Colours], Report]]] = {
    "check": check,
    "explain": explain,
    "app-check": app_check,
    "queues": queues,
    "resolve": resolve,
    "invalidate": invalidate,
    "policy": policy,
    "reload": reload,
    "health": health,
}
