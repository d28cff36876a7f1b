"""`queuegate-server serve`."""

import asyncio
import json
import os
import shlex
import sys
from collections.abc import Coroutine
from pathlib import Path

import click

from queuegate_server.observe import logs
from queuegate_server.policy.names import DEFAULT_PARTITION
from queuegate_server.policy.tree import Policy
from queuegate_server.settings.load import SettingsError, load_settings


class _Failure(click.ClickException):
    """Wrong usage or configuration."""

    exit_code = 2


@click.command()
@click.option(
    "--config",
    type=click.Path(dir_okay=False, path_type=Path),
    envvar="QUEUEGATE_CONFIG",
    help="The server's own configuration (queuegate.yaml).",
)
@click.option(
    "--policy", metavar="FILE", help="The scheduler's queues.yaml; same as --set policy.path=FILE."
)
@click.option(
    "--listen", multiple=True, metavar="ADDRESS", help="host:port or unix:/path; repeatable."
)
@click.option(
    "--set", "overrides", multiple=True, metavar="KEY=VALUE", help="Set any key; repeatable."
)
def serve(
    config: Path | None, policy: str | None, listen: tuple[str, ...], overrides: tuple[str, ...]
) -> None:
    """Serve decisions until SIGTERM; SIGHUP reads the policy again.

    Without any configuration, serves a small embedded policy on 127.0.0.1:50051.
    Exit status: 0 ended by a signal, 2 wrong usage or configuration.
    """
    # gRPC's own lines on stderr repeat what is reported properly; set before its import.
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")
    from queuegate_server import serve as server  # noqa: PLC0415 - slow, not for --help
    from queuegate_server.observe.audit import CannotAudit  # noqa: PLC0415
    from queuegate_server.transports.listen import CannotListen  # noqa: PLC0415

    all_overrides = list(overrides)
    if policy is not None:
        all_overrides.append(f"policy.path={json.dumps(policy)}")
    if listen:
        all_overrides.append(f"listen={json.dumps(listen)}")
    try:
        settings = load_settings(config, os.environ, all_overrides)
    except SettingsError as error:
        raise _Failure("\n".join(str(problem) for problem in error.problems)) from None
    logs.configure(settings.log.level, settings.log.format)
    try:
        _run(server.serve(settings, _announce))
    except CannotListen as error:
        raise _Failure(f"cannot listen on {error}") from None
    except CannotAudit as error:
        raise _Failure(f"cannot write the audit log {error}") from None
    except server.CannotStart as error:
        findings = "\n".join(str(problem) for problem in error.problems)
        raise _Failure(f"the policy cannot be served\n{findings}") from None


def _run(main: Coroutine[object, object, None]) -> None:
    try:
        import uvloop  # noqa: PLC0415 - not on every platform
    except ImportError:
        asyncio.run(main)
    else:
        uvloop.run(main)


def _announce(addresses: list[str], policy: Policy) -> None:
    click.echo(f"serving {policy.source} on {', '.join(addresses)}")
    partition = DEFAULT_PARTITION
    if policy.partitions and partition not in policy.partitions:
        partition = next(iter(policy.partitions))
    user, queue = _example(policy, partition)
    script = Path(sys.argv[0]).with_name("queuegate")
    command = [str(script) if script.is_file() else "queuegate", "--address", addresses[0]]
    command += ["check", user, queue]
    if partition != DEFAULT_PARTITION:
        command += ["--partition", partition]
    click.echo(f"ask it: {shlex.join(command)}")


def _example(policy: Policy, name: str) -> tuple[str, str]:
    """Return a user and a queue of a partition to try, a granted pair if its ACLs name one."""
    partition = policy.partitions.get(name)
    queues = partition.queues.values() if partition else ()
    for queue in queues:
        if queue.submit.users:
            return min(queue.submit.users[0]), queue.path
    open_to_all = (
        queue.path for queue in queues if queue.submit.otherwise and queue.submit.otherwise.allowed
    )
    return "alice", next(open_to_all, "root")
