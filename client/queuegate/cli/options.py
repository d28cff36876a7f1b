"""Options shared by the `queuegate` commands, and the decorators that pass them to a command.

Does not import gRPC, to keep `--help` fast.
"""

import functools
import math
import shlex
from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import Any, Final

import click
from click.core import ParameterSource

from queuegate._address import DEFAULT_ADDRESS
from queuegate._types import Check
from queuegate._validation import MAX_TIMEOUT
from queuegate.cli.invocation import TIMEOUT, Invocation
from queuegate.cli.output import FORMATS, TABLE, Report, print_answer
from queuegate.cli.problems import Exit
from queuegate.policy.acl import AclNames
from queuegate.policy.decision import Access
from queuegate.policy.names import DEFAULT_PARTITION
from queuegate.policy.yarn_acl import Semantics

LIST_TIMEOUT: Final = 30.0
"""The default time limit for lists, in seconds. It is long because a policy may have 100,000
queues, and listing users requires directory queries.
"""
RELOAD_TIMEOUT: Final = 30.0
"""The default time limit for `reload`, in seconds: parsing a large policy takes that long."""
INVALIDATION_TIMEOUT: Final = 5.0
"""The default time limit for `invalidate` without `--wait`, in seconds: the server takes a few
seconds to detect an unresponsive Redis."""
WAIT_TIMEOUT: Final = 15.0
"""The default time limit for `invalidate --wait`, in seconds."""
FILES_TIMEOUT: Final = f"{TIMEOUT:g}; with --policy or --config: {LIST_TIMEOUT:g}"
"""The default time limit of a single decision, as shown in the help."""
DECISION_STATUSES: Final = {
    Exit.OK: "access is allowed",
    Exit.NO: "access is denied",
    Exit.WRONG: "incorrect usage or configuration, such as an unknown partition",
    Exit.NO_ANSWER: "no answer: the server or the directory is unavailable or too slow",
}
"""The exit statuses of commands that print a decision."""
_ASKED: Final = (
    "user", "users", "action", "queue", "access", "partition", "prefix", "owner", "service",
)  # fmt: skip
"""The arguments that JSON and YAML output repeats."""
_NOT_EMPTY: Final = frozenset({
    "--owner", "--process-user", "--queue", "--real-user", "--spark-user", "--target-queue",
    "--user",
})  # fmt: skip
"""Options that must not be empty."""
_Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]


def _groups(_: click.Context, __: click.Parameter, names: tuple[str, ...]) -> tuple[str, ...]:
    """Reject names that no ACL can list, since a mistyped name would silently cause a denial."""
    for name in names:
        parts = [part.strip() for part in name.split(",")]
        if parts == [name]:
            continue
        options = " ".join(f"--group {shlex.quote(part)}" for part in parts if part)
        fault = "a comma" if len(parts) > 1 else "a space at either end"
        raise click.BadParameter(
            f"{name!r}: no ACL can list a name with {fault}; write {options or 'a name'}"
            " (a space within a name works only with YARN's `semantics: hadoop`)"
        )
    return names


def _resolved_groups(
    _: click.Context, __: click.Parameter, names: tuple[str, ...]
) -> tuple[str, ...] | None:
    """Return the values of `--resolved-group`, or None if the option is absent."""
    if "" in names:
        raise click.BadParameter("a group must not be empty")
    return names or None


def _seconds(_: click.Context, __: click.Parameter, text: str | None) -> float | None:
    if text is None:
        return None
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not 0 < number <= MAX_TIMEOUT:
        raise click.BadParameter(
            f"{text!r}: must be a number of seconds, more than 0 and at most {MAX_TIMEOUT:.0f}"
        )
    return number


def _options(*options: _Decorator) -> _Decorator:
    """Return a decorator that adds options. The help lists them in the given order."""

    def add(function: Callable[..., Any]) -> Callable[..., Any]:
        for option in reversed(options):
            function = option(function)
        return function

    return add


def common_options(output: tuple[str, ...], timeout: str) -> _Decorator:
    """Return a decorator that adds the `Invocation` options. Options are allowed before and after
    the command's name.

    Args:
        output: The output formats.
        timeout: The default time limit, as shown in the help.
    """
    return _options(
        click.option(
            "-o",
            "--output",
            type=click.Choice(output),
            help="The output format.  [default: text]",
        ),
        click.option(
            "--address",
            metavar="ADDRESS",
            help=f"HOST:PORT, [IPV6]:PORT or unix:/PATH.  [default: {DEFAULT_ADDRESS}]",
        ),
        click.option(
            "--timeout",
            callback=_seconds,
            metavar="SECONDS",
            help=f"The time limit.  [default: {timeout}]",
        ),
        click.option("--tls-ca", metavar="FILE", help="Use TLS and trust these CAs."),
        click.option("--tls-cert", metavar="FILE", help="Use TLS with this client certificate."),
        click.option("--tls-key", metavar="FILE", help="The client certificate's private key."),
        click.option(
            "--tls-server-name",
            metavar="NAME",
            help="The name to expect in the server's certificate, if it differs from the address.",
        ),
        click.option("--token-file", metavar="FILE", help="Send the bearer token in this file."),
    )


def invocation_options(
    timeout: str = f"{TIMEOUT:g}", *, with_table: bool = False
) -> Callable[[Callable[..., Report]], Callable[..., int]]:
    """Return a decorator that passes an `Invocation` to a command, prints its report and returns
    its exit status.

    Args:
        timeout: The command's default time limit, as shown in its help.
        with_table: Whether to allow `--output table`.
    """
    formats = (*FORMATS, TABLE) if with_table else FORMATS
    return functools.partial(_with_invocation, formats=formats, timeout=timeout)


def _with_invocation(
    function: Callable[..., Report], *, formats: tuple[str, ...], timeout: str
) -> Callable[..., int]:
    @common_options(formats, timeout)
    @functools.wraps(function)
    def with_invocation(**arguments: Any) -> int:
        context = click.get_current_context()
        invocation = _take_invocation(arguments, context)
        _merge_groups(arguments, context)
        _check_not_empty(arguments, context)
        output = invocation.output or FORMATS[0]
        if output not in formats:
            raise click.UsageError(
                f"--output {output} is only for commands that print a list", context
            )
        if fault := next(invocation.faults(arguments.get("groups")), ""):
            raise click.UsageError(fault, context)
        asked = {name: arguments[name] for name in _ASKED if arguments.get(name)}
        return print_answer(lambda: function(invocation, **arguments), asked, output, arguments)

    return with_invocation


def _take_invocation(arguments: dict[str, Any], context: click.Context) -> Invocation:
    """Remove the `Invocation` options from a command's arguments, and return them.

    An option after the command's name takes precedence over one before it.
    """
    before = context.find_root().params
    options: dict[str, Any] = {}
    for field in fields(Invocation):
        if field.name != "of_partition":
            own = arguments.pop(field.name, None)
            options[field.name] = before.get(field.name) if own is None else own
    return Invocation(**options, of_partition=arguments.get("partition", DEFAULT_PARTITION))


def _merge_groups(arguments: dict[str, Any], context: click.Context) -> None:
    """Replace `--group` and `--no-groups` with `groups`, which is None if neither is given."""
    if arguments.pop("no_groups", False):
        if arguments["groups"]:
            raise click.UsageError("--no-groups: not allowed with --group", context)
    elif "groups" in arguments:
        arguments["groups"] = arguments["groups"] or None


def _check_not_empty(arguments: Mapping[str, Any], context: click.Context) -> None:
    """Reject empty values for options that need a value. They usually come from unset variables in
    scripts.
    """
    for parameter in context.command.params:
        name = parameter.name or ""
        is_given = context.get_parameter_source(name) is not ParameterSource.DEFAULT
        if parameter.opts[0] in _NOT_EMPTY and is_given and not arguments[name]:
            raise click.UsageError(f"{parameter.opts[0]} must not be empty", context)


partition_option: Final = click.option(
    "--partition", default="default", show_default=True, metavar="NAME", help="The partition."
)
policy_partition_option: Final = click.option(
    "--partition",
    default="",
    metavar="NAME",
    help="The partition.  [default: the only partition, or default]",
)
wait_option: Final = click.option(
    "--wait",
    is_flag=True,
    help="Wait, for up to 8 s, until no gate and no replica of the fleet uses the old state.",
)
prefix_option: Final = click.option(
    "--prefix", default="", metavar="QUEUE", help="Only this queue and those below it."
)
access_option: Final = click.option(
    "--access",
    type=click.Choice([str(access) for access in Access]),
    default=str(Access.SUBMIT),
    show_default=True,
    help="The kind of access.",
)


files_options: Final = _options(
    click.option(
        "--policy",
        metavar="FILE",
        help="Decide without a server, from this queues.yaml or YARN scheduler file.",
    ),
    click.option(
        "--config",
        metavar="FILE",
        help="Decide without a server, using the settings and resolvers in this queuegate.yaml.",
    ),
    click.option(
        "--yarn-site", metavar="FILE", help="With --policy. YARN: the cluster's yarn-site.xml."
    ),
    click.option(
        "--acl-names",
        type=click.Choice([*map(str, AclNames)]),
        help="With --policy. The names allowed in the ACLs of a queues.yaml.",
    ),
    click.option(
        "--semantics",
        type=click.Choice([*map(str, Semantics)]),
        help="With --policy. YARN: which semantics apply where the documentation and Hadoop's code"
        " differ.",
    ),
)
"""Options of commands that can decide without a server."""
groups_options: Final = _options(
    click.option(
        "--group",
        "groups",
        multiple=True,
        callback=_groups,
        metavar="GROUP",
        help="One of the user's groups; repeatable. If omitted, the server resolves the groups.",
    ),
    click.option("--no-groups", is_flag=True, help="The user has no groups."),
    click.option(
        "--real-user",
        default="",
        metavar="NAME",
        help="The service acting for the user. YARN ACLs list such services as ~NAME.",
    ),
    click.option(
        "--resolved-group",
        multiple=True,
        callback=_resolved_groups,
        metavar="GROUP",
        help="With --policy or --config: assume that the server's resolver finds this group for the"
        " user; repeatable. No directory is queried.",
    ),
)
"""Options for the user's groups."""


def question(function: Callable[[Invocation, Check], Report]) -> Callable[..., Report]:
    """Add a check's arguments to a command, and pass them as a `Check`."""

    @click.argument("user")
    @click.argument("queue")
    @partition_option
    @access_option
    @groups_options
    @files_options
    @functools.wraps(function)
    def with_question(invocation: Invocation, **asked: Any) -> Report:
        return function(invocation, Check(**asked))

    return with_question
