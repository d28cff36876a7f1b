"""The `queuegate app-check` command, which checks access to a YARN or Spark application."""

import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

import click

from queuegate._applications import (
    Application,
    ApplicationCheck,
    ApplicationExplanation,
    SparkApplication,
)
from queuegate._types import Check, Decision
from queuegate.cli import render
from queuegate.cli.command_classes import Command
from queuegate.cli.documents import explanation_document
from queuegate.cli.invocation import Invocation
from queuegate.cli.options import (
    DECISION_STATUSES,
    FILES_TIMEOUT,
    files_options,
    groups_options,
    invocation_options,
    partition_option,
)
from queuegate.cli.output import Report
from queuegate.cli.problems import Exit
from queuegate.cli.suggestions import missing_queue, missing_queue_line
from queuegate.cli.terminal import escape
from queuegate.policy.applications import Action
from queuegate.policy.decision import Reason
from queuegate.policy.names import ROOT

if TYPE_CHECKING:
    from queuegate._client import Client
    from queuegate.cli.offline import OfflineClient


@click.command(
    "app-check",
    cls=Command,
    example="queuegate app-check sue view --queue root.analytics --owner bob",
    exit_statuses=DECISION_STATUSES,
)
@invocation_options(FILES_TIMEOUT)
@click.argument("user")
@click.argument(
    "action", metavar="ACTION", type=click.Choice([action.replace("_", "-") for action in Action])
)
@click.option("--queue", default="", help="The application's queue.")
@click.option("--owner", default="", metavar="USER", help="The user who started the application.")
@click.option("--view-acl", default="", metavar="ACL", help="The application's view ACL.")
@click.option("--modify-acl", default="", metavar="ACL", help="The application's modify ACL.")
@click.option("--target-queue", default="", metavar="QUEUE", help="The target queue of a move.")
@click.option("--spark", is_flag=True, help="Check a Spark application, under Spark's own rules.")
@click.option(
    "--property",
    "properties",
    multiple=True,
    metavar="NAME=VALUE",
    help="A Spark application property; repeatable.",
)
@click.option(
    "--spark-user",
    default="",
    metavar="USER",
    help="The user on whose behalf the application runs.",
)
@click.option(
    "--process-user", default="", metavar="USER", help="The owner of the application's process."
)
@click.option("--explain", "explained", is_flag=True, help="Show the evaluated ACLs.")
@partition_option
@groups_options
@files_options
def app_check(
    invocation: Invocation,
    *,
    user: str,
    action: str,
    queue: str,
    owner: str,
    view_acl: str,
    modify_acl: str,
    target_queue: str,
    spark: bool,
    properties: Sequence[str],
    spark_user: str,
    process_user: str,
    explained: bool,
    partition: str,
    groups: Sequence[str] | None,
    real_user: str,
) -> Report:
    """Check whether USER may access a YARN or Spark application.

    ACTION is view, view-logs, modify, move or (Spark only) admin.

    If the application's queue does not exist, its nearest existing ancestor is evaluated. Hadoop's
    capacity scheduler would instead grant access to everyone.
    """
    of_yarn = {
        "--queue": queue,
        "--owner": owner,
        "--view-acl": view_acl,
        "--modify-acl": modify_acl,
        "--target-queue": target_queue,
        "--real-user": real_user,
    }
    of_spark = {
        "--property": properties,
        "--spark-user": spark_user,
        "--process-user": process_user,
    }
    fault = _spark_fault(of_yarn, of_spark, properties) if spark else _yarn_fault(of_yarn, of_spark)
    if fault:
        raise click.UsageError(fault, click.get_current_context())
    application: Application | SparkApplication = (
        SparkApplication(dict(text.split("=", 1) for text in properties), spark_user, process_user)
        if spark
        else Application(queue, owner, view_acl, modify_acl)
    )
    known_action = Action(action.replace("-", "_"))
    asked = ApplicationCheck(
        user, known_action, application, partition, groups, target_queue, real_user
    )
    with (
        invocation.client() as client,
        invocation.with_queue_hint(client, user, target_queue, partition),
        invocation.with_queue_hint(client, user, queue, partition),
    ):
        started = time.monotonic()
        ask: Callable[..., Decision | ApplicationExplanation] = (
            client.explain_application if explained else client.check_application
        )
        answer = ask(
            user,
            known_action,
            application,
            partition=partition,
            groups=groups,
            target_queue=target_queue,
            real_user=real_user,
        )
        decision = answer if isinstance(answer, Decision) else answer.decision
        missing = _missing_queue_line(client, invocation, asked, decision, started)
    status = Exit.OK if decision.allowed else Exit.NO
    if isinstance(answer, Decision):
        text = render.application_decision_text(asked, answer, invocation.colors)
        return Report(answer, [text, missing] if missing else [text], status)
    lines = render.application_explanation_lines(asked, answer, invocation.colors, missing)
    return Report(explanation_document(answer), lines, status)


def _missing_queue_line(
    client: "Client | OfflineClient",
    invocation: Invocation,
    asked: ApplicationCheck,
    answer: Decision,
    started: float,
) -> str:
    """Return a line if a YARN application's queue does not exist or is ambiguous; otherwise "".

    `started` is the value of `time.monotonic` when the check started.
    """
    application, evaluated = asked.application, answer.evaluated_queue
    if not isinstance(application, Application):
        return ""
    if answer.reason is Reason.UNKNOWN_QUEUE:
        # No ancestor of a move's target queue is evaluated, so consider similar queues anywhere
        # below the root.
        left = invocation.time_for_hints(started)
        if not left:
            return ""
        target = asked.target_queue
        missing = missing_queue(
            client, target, asked.partition, ROOT, user=asked.user, timeout=left
        )
        return missing_queue_line(target, "", missing) if missing.similar else ""
    check = Check(asked.user, application.queue, asked.partition)
    missing = invocation.missing_queue_hints(client, check, answer, started)
    if not evaluated:
        return escape(missing.ambiguity)
    return missing_queue_line(application.queue, evaluated, missing)


def _spark_fault(
    of_yarn: Mapping[str, object], of_spark: Mapping[str, object], properties: Sequence[str]
) -> str:
    """Return a fault in the options of a check with --spark, or "" if there is none."""
    if given := [option for option, value in of_yarn.items() if value]:
        return f"{', '.join(given)}: not allowed with --spark, which takes {', '.join(of_spark)}"
    if not all("=" in text for text in properties):
        return "--property must be NAME=VALUE"
    names = [text.partition("=")[0] for text in properties]
    twice = sorted({name for name in names if names.count(name) > 1})
    return f"--property: {', '.join(twice)} is given more than once" if twice else ""


def _yarn_fault(of_yarn: Mapping[str, object], of_spark: Mapping[str, object]) -> str:
    """Return a fault in the options of a check without --spark, or "" if there is none."""
    if given := [option for option, value in of_spark.items() if value]:
        return f"{', '.join(given)}: only allowed with --spark"
    if not (of_yarn["--queue"] and of_yarn["--owner"]):
        return "pass --queue and --owner, or --spark"
    return ""
