"""`queuegate-server serve`: runs the server."""

import asyncio
import contextlib
import logging
import os
import shlex
import sys
from collections.abc import Sequence
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Final

import click

from queuegate.cli.documented_command import DocumentedCommand
from queuegate.policy.decision import Access
from queuegate.policy.names import DEFAULT_PARTITION, ROOT
from queuegate.policy.tree import Policy
from queuegate_server.cli import SERVING_STATUSES
from queuegate_server.cli.command import Failure, config_option, overrides_option
from queuegate_server.files.safe_open import read_at_most, read_regular
from queuegate_server.observe import logs
from queuegate_server.runtime import resources
from queuegate_server.runtime.event_loop import LoopWatchdog, run_in_loop
from queuegate_server.runtime.sd_notify import Notifier
from queuegate_server.runtime.tcp import CannotListen, UnusableFile
from queuegate_server.settings.callers import Callers, Rights, Role
from queuegate_server.settings.listeners import Listener
from queuegate_server.settings.load import MAX_BYTES, SettingsError, load_settings
from queuegate_server.settings.model import Settings
from queuegate_server.settings.reload import with_changes
from queuegate_server.settings.source_map import Override
from queuegate_server.supervisor.channel import WorkerSpec
from queuegate_server.supervisor.process import OPTION
from queuegate_server.transports.registry import set_grpc_environment

_LOG = logging.getLogger("queuegate_server.cli")


HOLD_BACK_SECONDS: Final = 1.0
"""The maximum time, in seconds, for which log lines are held back so that the announcement is
printed first. Startup usually takes half a second."""
EXAMPLE_QUEUES: Final = 1_000
"""The maximum number of queues searched for the announced example command."""
LISTEN: Final = "--listen"
_LISTEN_ADVICE: Final = (
    "--listen takes an address that other machines cannot reach, such as 127.0.0.1:50051, "
    "[::1]:50051 or unix:/run/queuegate.sock. For any other address, state how it is protected:\n"
    "  --set 'listen=[{address: 0.0.0.0:50051, tls: {certificate_file: …, key_file: …}}]'\n"
    "  --set 'listen=[{address: 0.0.0.0:50051, insecure: true}]'"
)
_Read = partial[Settings]
"""Loads the settings, given the file's content if it has been read already."""


def _refuse(_: click.Context, __: click.Parameter, files: tuple[str, ...]) -> None:
    if files:
        file = shlex.quote(files[0])
        raise click.UsageError(f"pass a policy as --policy {file}, settings as --config {file}")


@click.command(
    cls=DocumentedCommand,
    example="queuegate-server serve --config queuegate.yaml",
    exit_statuses=SERVING_STATUSES,
)
@click.argument("files", nargs=-1, metavar="", callback=_refuse, expose_value=False)
@config_option()
@click.option(
    "--policy", metavar="FILE", help="The scheduler's queues.yaml; same as --set policy.path=FILE."
)
@click.option(
    "--listen", multiple=True, metavar="ADDRESS", help="host:port or unix:/path; repeatable."
)
@overrides_option
@click.option(OPTION, "worker", is_flag=True, hidden=True, help="Run as one of several workers.")
def serve(
    config: Path | None,
    policy: str | None,
    listen: tuple[str, ...],
    overrides: tuple[str, ...],
    worker: bool,  # noqa: FBT001 - click passes it by name
) -> None:
    """Serve decisions until SIGTERM.

    SIGHUP reloads the policy and the settings. Without any configuration, serves a small embedded
    policy on 127.0.0.1:50051.
    """
    options: list[str | Override] = list(overrides)
    if policy is not None:
        options.append(Override("--policy", ("policy", "path"), policy))
    if listen:
        options.append(Override(LISTEN, ("listen",), list(listen)))

    read = partial(load_settings, config, os.environ, options)
    resources.raise_file_limit()
    try:
        resources.check_limits()
    except resources.TooFewResources as error:
        raise Failure(str(error)) from None
    if worker:
        try:
            spec = WorkerSpec.receive()
        except (OSError, EOFError):
            raise Failure(f"{OPTION} is for the supervisor's workers only") from None
        _serve_as_worker(spec, read)
        return
    content = _content(config)
    settings = _settings(read, content)
    logs.configure(settings.log.level, settings.log.format, hold_back=True)
    if settings.workers > 1:
        _supervise(settings, config, content, read)
    else:
        _serve(settings, settings, read, None)


def _content(config: Path | None) -> bytes | None:
    """Return the settings file's content, or None if no file is given or it cannot be read.

    A read error is reported later, when the settings are loaded.
    """
    if config is not None:
        with contextlib.suppress(OSError), config.open("rb") as opened:
            return read_at_most(opened, MAX_BYTES)
    return None


def _settings(read: _Read, content: bytes | None) -> Settings:
    try:
        return read(content)
    except SettingsError as error:
        advice = ""
        if any(each.file == LISTEN for each in error.diagnostics):
            advice = f"\n{_LISTEN_ADVICE}"
        raise Failure(f"the settings are not valid\n{error}{advice}") from None


def _serve_as_worker(spec: WorkerSpec, read: _Read) -> None:
    """Serve as one of several workers. The supervisor prints startup errors."""
    try:
        settings = current = _settings(read, spec.initial)
        if spec.current is not None:
            current = with_changes(settings, _settings(read, spec.current))
        logs.configure(current.log.level, current.log.format, worker=spec.index)
        _serve(settings, current, read, spec)
    except Failure as error:
        spec.report(error.message)
        sys.exit(error.exit_code)


def _serve(settings: Settings, current: Settings, read: _Read, spec: WorkerSpec | None) -> None:
    set_grpc_environment(os.environ)
    from queuegate_server.observe.audit import CannotAudit  # noqa: PLC0415 - slow
    from queuegate_server.observe.tracing import TracingNotInstalled  # noqa: PLC0415 - slow
    from queuegate_server.server import lifecycle  # noqa: PLC0415 - slow, not for --help
    from queuegate_server.server.startup import CannotServe  # noqa: PLC0415 - slow
    from queuegate_server.supervisor.worker_client import WorkerClient  # noqa: PLC0415 - slow

    def announce(addresses: list[str], policy: Policy) -> list[str]:
        lines = _announcement(addresses, policy, settings.listen, current.callers)
        if spec is None:
            _print(lines)
        return lines

    async def main() -> None:
        _hold_log_back_briefly()
        worker = None if spec is None else WorkerClient(spec)
        await lifecycle.serve(
            settings, announce, current=current, read_settings=read, worker=worker
        )

    try:
        run_in_loop(main())
    except (UnusableFile, TracingNotInstalled) as error:
        raise Failure(str(error)) from None
    except CannotListen as error:
        raise Failure(f"cannot listen on {error}") from None
    except CannotAudit as error:
        raise Failure(f"cannot write the audit log {error}") from None
    except CannotServe as error:
        raise Failure(f"the policy cannot be served\n{error}") from None


def _supervise(settings: Settings, config: Path | None, content: bytes | None, read: _Read) -> None:
    """Run and supervise several workers. This process never imports gRPC."""
    from queuegate_server.supervisor.service import serve_admin_port  # noqa: PLC0415 - for workers only
    from queuegate_server.supervisor.supervisor import (  # noqa: PLC0415 - for workers only
        Supervisor,
        WorkerError,
    )

    def read_again() -> tuple[Settings, bytes | None]:
        content = None if config is None else read_regular(config, MAX_BYTES)
        settings = read(content)
        logs.configure(settings.log.level, settings.log.format)
        return settings, content

    async def main() -> None:
        _hold_log_back_briefly()
        notifier = Notifier()
        supervisor = Supervisor(
            settings, content=content, announce=_print, read_settings=read_again, notifier=notifier
        )
        with LoopWatchdog():
            async with serve_admin_port(settings.ops, supervisor):
                await supervisor.run()

    try:
        asyncio.run(main())
    except UnusableFile as error:
        raise Failure(str(error)) from None
    except CannotListen as error:
        raise Failure(f"cannot listen on {error}") from None
    except WorkerError as error:
        if not str(error):
            raise click.ClickException("a worker crashed at startup; see the log") from None
        raise Failure(str(error)) from None


def _hold_log_back_briefly() -> None:
    """Schedule the release of held-back log lines, in case the announcement is late."""
    asyncio.get_running_loop().call_later(HOLD_BACK_SECONDS, logs.release)


def _print(lines: Sequence[str]) -> None:
    """Print the announcement, followed by the held-back log lines."""
    try:
        click.echo("\n".join(lines))
    except OSError as error:
        resources.drop_unwritten_output()
        _LOG.warning("cannot write to standard output", extra={"reason": error.strerror})
    logs.release()


def _announcement(
    addresses: list[str], policy: Policy, listeners: Sequence[Listener], callers: Callers
) -> list[str]:
    """Return the announcement: the policy, the addresses, and an example command.

    The command uses the address that requires the fewest options. The option values are
    placeholders.
    """
    first = f"serving {policy.source} on {', '.join(addresses)}"
    choices = [
        (address, options)
        for address, listener in zip(addresses, listeners, strict=True)
        if (options := _credentials(listener, callers)) is not None
    ]
    if not choices:
        return [
            first,
            "no caller has the check role on these addresses: grant it to a caller under callers",
        ]
    address, options = min(choices, key=lambda choice: len(choice[1]))
    partition = DEFAULT_PARTITION
    if policy.partitions and partition not in policy.partitions:
        partition = next(iter(policy.partitions))
    user, queue = _example(policy, partition)
    command = [_client_command(), "--address", address]
    command += [*options, "check", user, queue]
    if partition != DEFAULT_PARTITION:
        command += ["--partition", partition]
    return [first, f"ask it: {shlex.join(command)}"]


def _client_command() -> str:
    """Return the path of the client installed beside this command, or `queuegate` if there is none.

    The path is relative if the client is under the working directory.
    """
    script = Path(sys.argv[0]).with_name("queuegate").absolute()
    if not script.is_file():
        return "queuegate"
    folder = Path.cwd()
    return str(script.relative_to(folder) if script.is_relative_to(folder) else script)


def _credentials(listener: Listener, callers: Callers) -> list[str] | None:
    """Return the client flags for checks by a local caller, or None if no caller may run checks."""

    def may_check(*rights: Rights) -> bool:
        return any(Role.CHECK in each.roles for each in rights)

    options: list[str] = []
    address, tls = listener.parsed, listener.tls
    if tls is not None:
        options += ["--tls-ca", "CA_FILE"]
        if address.is_wildcard:
            options += ["--tls-server-name", "NAME"]
    if tls is not None and tls.client_ca_file is not None:
        options += ["--tls-cert", "CERTIFICATE_FILE", "--tls-key", "KEY_FILE"]
        if may_check(*callers.certificates.values()):
            return options
    elif address.path:
        if may_check(callers.unix):
            return options
    elif (address.is_local or address.is_wildcard) and may_check(callers.loopback):
        return options
    if may_check(*callers.tokens.values()):
        return [*options, "--token-file", "TOKEN_FILE"]
    return None


def _example(policy: Policy, name: str) -> tuple[str, str]:
    """Return an example user and queue in a partition. If possible, the user has access.

    If the ACLs list only groups, the user is a placeholder.
    """
    partition = policy.partitions.get(name)
    if partition is None:
        return "alice", "root"
    open_queue = group_queue = ""
    # Limit the search, because parsing all ACLs of a large policy would take seconds and keep them
    # in memory.
    for path in islice(partition.queues, EXAMPLE_QUEUES):
        chain = partition.chain(path, Access.SUBMIT)
        if chain.users:
            return min(chain.users), path
        if chain.otherwise and chain.otherwise.allowed:
            open_queue = open_queue or path
        elif chain.groups:
            group_queue = group_queue or path
    if group_queue and not open_queue:
        return "USER", group_queue
    return "alice", open_queue or ROOT
