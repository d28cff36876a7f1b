"""The options of `queuegate`, and the shape of its commands. Without gRPC, so `--help` is fast."""

import functools
import shlex
import stat
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from queuegate import _validation
from queuegate._address import DEFAULT_ADDRESS
from queuegate._types import Check
from queuegate.cli.output import FORMATS, TABLE, Report, answer
from queuegate.cli.terminal import Colours, colours_for, escape
from queuegate.policy.acl import AclNames
from queuegate.policy.decision import Access
from queuegate.policy.names import DEFAULT_PARTITION, partition_name
from queuegate.policy.yarn_acl import Semantics

if TYPE_CHECKING:
    from queuegate._client import Client
    from queuegate.cli.offline import OfflineClient

CONTEXT: Final = {"help_option_names": ["-h", "--help"]}
TIMEOUT: Final = 1.0
"""The default time limit of a call to a server, in seconds."""
LIST_TIMEOUT: Final = 30.0
"""The default time limit of lists: a policy may have 100 000 queues, and a page of users needs the
directory."""
_FILES: Final = frozenset({"policy", "config"})
_READING: Final = frozenset({"acl_names", "semantics", "yarn_site"})
"""Options for reading the file of `--policy`."""
_RESOLVED: Final = "resolved_group"
_OF_SERVER: Final = (
    *("address", "token_file", "tls_ca", "tls_cert", "tls_key", "tls_server_name"),
)
"""Options about a server, which commands refuse in combination with `_FILES`."""
_ASKED: Final = (
    *("user", "users", "action", "queue", "access", "partition", "prefix", "owner", "service"),
)
"""The fields of the question that documents repeat."""


@dataclass(frozen=True, slots=True)
class Session:
    """The server to ask or the files to decide from, and the output format."""

    address: str | None = None
    timeout: float | None = None
    output: str | None = None
    tls_ca: str | None = None
    tls_cert: str | None = None
    tls_key: str | None = None
    tls_server_name: str | None = None
    token_file: str | None = None
    policy: str | None = None
    config: str | None = None
    acl_names: str | None = None
    semantics: str | None = None
    yarn_site: str | None = None
    resolved_group: tuple[str, ...] | None = None
    of_partition: str = DEFAULT_PARTITION
    """The partition to ask about."""

    @property
    def is_offline(self) -> bool:
        """Whether to decide from files, without a server."""
        return self.policy is not None or self.config is not None

    @property
    def colours(self) -> Colours:
        """The colours of standard output."""
        return colours_for(sys.stdout)

    def client(self) -> "Client | OfflineClient":
        """Return a client for the server, or one that decides from files.

        Raises ValueError, OSError and RequestRejected.
        """
        if self.is_offline:
            from queuegate.cli.offline import OfflineClient  # noqa: PLC0415

            name = partition_name(self.of_partition)
            reading = {
                ("partitions", name, "acl_names"): self.acl_names,
                ("partitions", name, "semantics"): self.semantics,
                ("policy", "yarn_site"): self.yarn_site,
            }
            values = {key: value for key, value in reading.items() if value is not None}
            return OfflineClient(
                self.policy, self.config, self.timeout, values, self.resolved_group
            )
        # Imported late, together with gRPC, so that incorrect usage and --help are reported
        # immediately.
        from queuegate._client import Client  # noqa: PLC0415
        from queuegate._settings import Tls  # noqa: PLC0415

        if self.token_file is not None and (warning := exposed_secret(self.token_file)):
            sys.stderr.write(f"warning: --token-file {escape(warning)}\n")
        files = (self.tls_ca, self.tls_cert, self.tls_key, self.tls_server_name)
        tls = Tls(*files) if any(file is not None for file in files) else None
        return Client(
            self.address, timeout=self.timeout or TIMEOUT, tls=tls, token_file=self.token_file
        )


def common_names() -> frozenset[str]:
    """Return the names of the options that all commands have."""
    return frozenset(field.name for field in fields(Session)) - _FILES - _READING - {_RESOLVED}


class Command(click.Command):
    """A command whose help lists its own options before those of a `Session`."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options in two sections."""
        common = common_names()
        sections: dict[str, list[tuple[str, str]]] = {"Options": [], "Server and output": []}
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            if record and isinstance(parameter, click.Option):
                section = "Server and output" if parameter.name in common else "Options"
                sections[section].append(record)
        for name, records in sections.items():
            if records:
                with formatter.section(name):
                    formatter.write_dl(records)


class Group(Command, click.Group):
    """The same for the command group."""

    command_class = Command

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options, then the commands."""
        super().format_options(ctx, formatter)
        self.format_commands(ctx, formatter)


def exposed_secret(file: str) -> str:
    """Return a warning if other users of this machine can read a file; empty if not."""
    try:
        mode = Path(file).stat().st_mode
    except OSError:
        return ""  # reading it reports the reason
    if not mode & (stat.S_IRGRP | stat.S_IROTH):
        return ""
    return f"{file}: other users can read it; run: chmod 600 {shlex.quote(file)}"


def _groups(_: click.Context, __: click.Parameter, names: tuple[str, ...]) -> tuple[str, ...]:
    """Reject names that no ACL can list: they are mistakes, and would merely be denied."""
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
    """Return the groups that a resolver should know; None if none are given."""
    if "" in names:
        raise click.BadParameter("a group must not be empty")
    return names or None


def _seconds(_: click.Context, __: click.Parameter, text: str | None) -> float | None:
    if text is None:
        return None
    try:
        return _validation.seconds("it", float(text))
    except ValueError:
        raise click.BadParameter(
            f"{text!r} is not a number of seconds above 0 (at most {_validation.MAX_TIMEOUT:.0f})"
        ) from None


_COMMON: Final = (
    click.option(
        "--address",
        metavar="ADDRESS",
        help=f"HOST:PORT, [IPV6]:PORT or unix:/PATH.  [default: {DEFAULT_ADDRESS}]",
    ),
    click.option(
        "--timeout",
        callback=_seconds,
        metavar="SECONDS",
        help="How long to wait for an answer.  [default: 1; queues, who-can, tree and"
        " reload: 30; invalidate: 5, with --wait: 15]",
    ),
    click.option("--tls-ca", metavar="FILE", help="Use TLS and trust these CAs."),
    click.option("--tls-cert", metavar="FILE", help="Use TLS with this client certificate."),
    click.option("--tls-key", metavar="FILE", help="The private key of the client certificate."),
    click.option("--tls-server-name", metavar="NAME", help="The name in the server's certificate."),
    click.option("--token-file", metavar="FILE", help="Send the bearer token in this file."),
)
"""Allowed before and after the name of the command."""


def common_options(output: tuple[str, ...]) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Add the options of a `Session`, with these output formats."""

    def add(function: Callable[..., Any]) -> Callable[..., Any]:
        for option in reversed(_COMMON):
            function = option(function)
        return click.option(
            "-o",
            "--output",
            type=click.Choice(output),
            help="The format of the answer.  [default: text]",
        )(function)

    return add


def session_options(function: Callable[..., Report]) -> Callable[..., int]:
    """Pass the options before and after the command's name as a `Session`, print its report, and
    return the exit status.
    """
    return _with_session(function, FORMATS)


def session_options_of_list(function: Callable[..., Report]) -> Callable[..., int]:
    """Do the same for a command that can print a table."""
    return _with_session(function, (*FORMATS, TABLE))


def _with_session(function: Callable[..., Report], formats: tuple[str, ...]) -> Callable[..., int]:
    @common_options(formats)
    @functools.wraps(function)
    def with_session(**arguments: Any) -> int:
        context = click.get_current_context()
        before = context.find_root().params
        session = Session(
            **{
                field.name: before.get(field.name) if own is None else own
                for field in fields(Session)
                if field.name != "of_partition"
                for own in [arguments.pop(field.name, None)]
            },
            of_partition=arguments.get("partition", DEFAULT_PARTITION),
        )
        if arguments.pop("no_groups", False):
            if arguments["groups"]:
                raise click.UsageError("--no-groups: not allowed with --group", context)
        elif "groups" in arguments:
            arguments["groups"] = arguments["groups"] or None
        output = session.output or FORMATS[0]
        if output not in formats:
            raise click.UsageError(f"--output {output} is for commands that print a list", context)
        if fault := _session_fault(session) or _groups_fault(session, arguments):
            raise click.UsageError(fault, context)
        question = {name: arguments[name] for name in _ASKED if arguments.get(name)}
        return answer(lambda: function(session, **arguments), question, output, arguments)

    return with_session


def _session_fault(session: Session) -> str:
    """Return how the options are empty or contradict each other; empty if they are consistent."""
    names = [
        field.name
        for field in fields(session)
        if field.name != "of_partition" and getattr(session, field.name) is not None
    ]
    # An empty value usually comes from an unset variable in a script.
    if empty := [name for name in names if getattr(session, name) == ""]:
        return f"{_written(empty)} must not be empty"
    files = [name for name in names if name in _FILES]
    of_server = [name for name in names if name in _OF_SERVER]
    if files and of_server:
        return f"{_written(of_server)}: not allowed with {_written(files)}: no server is involved"
    reading = [name for name in names if name in _READING]
    if reading and session.config is not None:
        return f"{_written(reading)}: not allowed with --config, whose settings contain it"
    if reading and session.policy is None:
        return f"{_written(reading)}: only allowed with --policy"
    if (session.tls_cert is None) != (session.tls_key is None):
        return "--tls-cert and --tls-key must be given together"
    return ""


def _groups_fault(session: Session, options: Mapping[str, Any]) -> str:
    """Return why groups cannot be given like this; empty if they can."""
    option = _written([_RESOLVED])
    if session.resolved_group and not session.is_offline:
        return f"{option}: only with --policy or --config; a server uses its own resolver"
    if session.resolved_group and (names := options.get("groups")) is not None:
        other = "--group" if names else "--no-groups"
        return f"{option}: not allowed with {other}: the resolver is asked only without it"
    return ""


def _written(names: Iterable[str]) -> str:
    return ", ".join(f"--{name.replace('_', '-')}" for name in names)


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


def files_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options of a command that can decide without a server."""
    for name, choices, text in (
        (
            "--semantics",
            Semantics,
            "YARN: which semantics apply where the documentation and Hadoop's code differ.",
        ),
        ("--acl-names", AclNames, "Which names the ACLs of a queues.yaml may list."),
    ):
        function = click.option(
            name, type=click.Choice([*map(str, choices)]), help=f"With --policy. {text}"
        )(function)
    function = click.option(
        "--yarn-site", metavar="FILE", help="With --policy. YARN: the cluster's yarn-site.xml."
    )(function)
    function = click.option(
        "--config",
        metavar="FILE",
        help="Decide without a server, with the settings and resolvers of this queuegate.yaml.",
    )(function)
    return click.option(
        "--policy",
        metavar="FILE",
        help="Decide without a server, from this queues.yaml or YARN scheduler file.",
    )(function)


def groups_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options about the user's groups."""
    function = click.option(
        "--resolved-group",
        _RESOLVED,
        multiple=True,
        callback=_resolved_groups,
        metavar="GROUP",
        help="With --policy or --config: a group that the server's resolver finds for the user;"
        " repeatable. No directory is queried.",
    )(function)
    function = click.option(
        "--real-user",
        default="",
        metavar="NAME",
        help="The service that acts for the user, for YARN ACLs that list ~NAME.",
    )(function)
    function = click.option("--no-groups", is_flag=True, help="The user has no groups.")(function)
    return click.option(
        "--group",
        "groups",
        multiple=True,
        callback=_groups,
        metavar="GROUP",
        help="A group of the user; repeatable. If omitted, the server resolves the user's groups.",
    )(function)


def question(function: Callable[[Session, Check], Report]) -> Callable[..., Report]:
    """Add the arguments of a question about a queue, and pass them as a `Check`."""

    @click.argument("user")
    @click.argument("queue")
    @partition_option
    @access_option
    @groups_options
    @files_options
    @functools.wraps(function)
    def with_question(session: Session, **asked: Any) -> Report:
        return function(session, Check(**asked))

    return with_question
