"""The `queuegate app-check` command, which checks access to a YARN or Spark application."""

import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import click

from queuegate._applications import Application, ApplicationCheck, SparkApplication
from queuegate._types import Check, Decision
from queuegate.cli import render
from queuegate.cli.command_classes import Command
from queuegate.cli.documents import explanation_document
from queuegate.cli.exit_codes import Exit
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
from queuegate.cli.suggestions import missing_queue_line
from queuegate.cli.terminal import escape
from queuegate.policy.applications import Action
from queuegate.policy.decision import Reason
from queuegate.policy.names import ROOT

if TYPE_CHECKING:
    from queuegate._client import Client
    from queuegate.cli.offline import OfflineClient

_OF_YARN: Final = ("queue", "owner", "view_acl", "modify_acl", "target_queue", "real_user")
_APPLICATION_OPTIONS: Final = ("partition", "groups", "target_queue", "real_user")
_OF_SPARK: Final = {
    "properties": "--property",
    "spark_user": "--spark-user",
    "process_user": "--process-user",
}


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
def app_check(invocation: Invocation, *, explained: bool, **arguments: Any) -> Report:
    """Check whether USER may access a YARN or Spark application.

    ACTION is view, view-logs, modify, move or (Spark only) admin.

    If the application's queue does not exist, its nearest existing ancestor is evaluated. Hadoop's
    capacity scheduler would instead grant access to everyone.
    """
    if fault := _application_fault(arguments):
        raise click.UsageError(fault, click.get_current_context())
    properties = dict(text.split("=", 1) for text in arguments["properties"])
    question = (
        arguments["user"],
        Action(arguments["action"].replace("-", "_")),
        SparkApplication(properties, arguments["spark_user"], arguments["process_user"])
        if arguments["spark"]
        else Application(
            arguments["queue"], arguments["owner"], arguments["view_acl"], arguments["modify_acl"]
        ),
    )
    options = {name: arguments[name] for name in _APPLICATION_OPTIONS}
    asked = ApplicationCheck(*question, **options)
    colors = invocation.colors
    with (
        invocation.client() as client,
        invocation.with_queue_hint(client, asked.user, asked.target_queue, asked.partition),
        invocation.with_queue_hint(client, asked.user, arguments["queue"], asked.partition),
    ):
        started = time.monotonic()
        if explained:
            full = client.explain_application(*question, **options)
            missing = _missing_queue_line(client, invocation, asked, full.decision, started)
            lines = render.application_explanation_lines(asked, full, colors, missing)
            status = Exit.OK if full.decision.allowed else Exit.NO
            return Report(explanation_document(full), lines, status)
        answer = client.check_application(*question, **options)
        missing = _missing_queue_line(client, invocation, asked, answer, started)
    status = Exit.OK if answer.allowed else Exit.NO
    text = render.application_decision_text(asked, answer, colors)
    return Report(answer, [text, missing] if missing else [text], status)


def _missing_queue_line(
    client: "Client | OfflineClient",
    invocation: Invocation,
    asked: ApplicationCheck,
    answer: Decision,
    started: float,
) -> str:
    """Return a line if the application's queue does not exist or is ambiguous; otherwise ""."""
    application, evaluated = asked.application, answer.evaluated_queue
    if not isinstance(application, Application):
        return ""
    if answer.reason is Reason.UNKNOWN_QUEUE:
        check = Check(asked.user, asked.target_queue, asked.partition)
        answer = replace(answer, evaluated_queue=ROOT)
        missing = invocation.missing_queue_hints(client, check, answer, started)
        return missing_queue_line(check.queue, "", missing) if missing.similar else ""
    check = Check(asked.user, application.queue, asked.partition)
    missing = invocation.missing_queue_hints(client, check, answer, started)
    if not evaluated:
        return escape(missing.ambiguity)
    return missing_queue_line(application.queue, evaluated, missing)


def _application_fault(arguments: dict[str, Any]) -> str:
    """Return an error message if arguments are missing, malformed or conflicting; otherwise ""."""
    if arguments["spark"]:
        of_yarn = [f"--{name.replace('_', '-')}" for name in _OF_YARN if arguments[name]]
        if of_yarn:
            allowed = ", ".join(_OF_SPARK.values())
            return f"{', '.join(of_yarn)}: not allowed with --spark, which takes {allowed}"
        properties = arguments["properties"]
        if not all("=" in text for text in properties):
            return "--property must be NAME=VALUE"
        names = [text.partition("=")[0] for text in properties]
        twice = sorted({name for name in names if names.count(name) > 1})
        return f"--property: {', '.join(twice)} is given more than once" if twice else ""
    of_spark = [option for name, option in _OF_SPARK.items() if arguments[name]]
    if of_spark:
        return f"{', '.join(of_spark)}: only allowed with --spark"
    if not (arguments["queue"] and arguments["owner"]):
        return "pass --queue and --owner, or --spark"
    return ""
