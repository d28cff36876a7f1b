"""Servers with the console, for tests in a browser and for the pictures in the documentation."""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import queuegate
from tests.support import xss_corpus
from tests.support.fakes.scripted_directory import ScriptedDirectory, settings_file
from tests.support.servers.admin_port import ops_address
from tests.support.servers.queuegate_server import RunningServer, running_server
from tests.support.yarn_templates import creating_scheduler

PEOPLE: Final = {
    "ann": {"groups": ["analysts"]},
    "dana": {"groups": ["data-science", "staff"]},
    "eve": {"groups": ["engineers", "staff"]},
    "maria": {"groups": ["engineers", "leads"]},
    "omar": {"groups": ["data-science"]},
    "paula": {"groups": ["platform"]},
    "sue": {"groups": ["analysts", "staff"]},
    "lost": {"failed": "the directory server cannot be reached: connection refused"},
}
CREATING_PARTITION = "yarn"
HOSTILE_PARTITION: Final = "hostile"
DENIED: Final = (
    ("dana", "root.engineering.ci"),
    ("sue", "root.engineering.training"),
    ("eve", "root.engineering.payroll"),
    ("omar", "root.analytics.reports"),
    ("lost", "root.engineering.training"),
    ("nobody", "root.analytics"),
)


@dataclass(frozen=True)
class RunningConsole:
    """A server with the console."""

    server: RunningServer
    url: str
    """The URL of the console, with a trailing slash."""
    directory: ScriptedDirectory


@contextmanager
def running_console(
    folder: Path, constants: Mapping[str, object] | None = None, **settings: Any
) -> Iterator[RunningConsole]:
    """Serve the example policy, with people in a directory and some denials in the audit log."""
    policies = [{"path": "examples/queues.yaml"}]
    with _running(folder, policies, PEOPLE, settings, constants) as console:
        with _client(console) as client:
            for user, queue in DENIED:
                try:
                    client.check(user, queue)
                except queuegate.GroupsUnavailable:
                    assert user == "lost"
        yield console


@contextmanager
def hostile_console(folder: Path) -> Iterator[RunningConsole]:
    """Serve a policy with hostile names of queues, users and groups, each denied once."""
    policy = folder / "fair-scheduler.xml"
    policy.write_text(xss_corpus.fair_scheduler(), encoding="utf-8")
    policies = [
        {"path": "examples/queues.yaml"},
        {"path": str(policy), "partition": HOSTILE_PARTITION},
    ]
    with _running(folder, policies, xss_corpus.directory(), {}) as console:
        with _client(console) as client:
            for name, queue in zip(xss_corpus.NAMES, reversed(xss_corpus.QUEUES), strict=True):
                client.check(name, f"root.{queue}", partition=HOSTILE_PARTITION)
        yield console


@contextmanager
def creating_console(folder: Path) -> Iterator[RunningConsole]:
    """Serve a capacity scheduler that creates queues, in addition to the example policy."""
    policy = folder / "capacity-scheduler.xml"
    policy.write_text(creating_scheduler())
    policies = [
        {"path": "examples/queues.yaml"},
        {"path": str(policy), "partition": CREATING_PARTITION},
    ]
    with _running(folder, policies, PEOPLE, {}) as console:
        yield console


@contextmanager
def yarn_console(folder: Path, partition: str) -> Iterator[RunningConsole]:
    """Serve a capacity scheduler in the only partition."""
    policy = folder / "capacity-scheduler.xml"
    policy.write_text(creating_scheduler())
    policies = [{"path": str(policy), "partition": partition}]
    partitions = {"partitions": {partition: {"resolver": "directory"}}}
    with _running(folder, policies, PEOPLE, partitions) as console:
        yield console


@contextmanager
def _running(
    folder: Path,
    policies: list[dict[str, str]],
    people: dict[str, Any],
    more: dict[str, Any],
    constants: Mapping[str, object] | None = None,
) -> Iterator[RunningConsole]:
    directory = ScriptedDirectory(folder)
    directory.constants |= constants or {}
    directory.reset(people)
    resolver = directory.resolver(type="listing")
    names = ["default", *(each["partition"] for each in policies if "partition" in each)]
    settings = {
        "policies": policies,
        "resolvers": {"directory": resolver},
        "partitions": {name: {"resolver": "directory"} for name in names},
        "callers": {"loopback": {"roles": ["check", "read", "admin", "sync"]}},
        "audit": {"path": str(folder / "audit.log")},
        "ops": {"listen": "127.0.0.1:0"},
        "console": {"enabled": True},
        **more,
    }
    assert json.dumps(settings)
    with running_server(
        "--config", settings_file(folder, settings), environment=directory.environment
    ) as server:
        yield RunningConsole(server, f"http://{ops_address(server)}/console/", directory)


def _client(console: RunningConsole) -> queuegate.Client:
    return queuegate.Client(console.server.address, timeout=60, retry=queuegate.Retry(attempts=1))
