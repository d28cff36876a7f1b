"""A server with capacity-scheduler.xml over yarn-site.xml: what it answers, watches and reports."""

import gzip
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import queuegate
from tests.support.atomic_files import replace
from tests.support.eventually import eventually
from tests.support.generators.yarn_files import prop
from tests.support.servers.queuegate_server import ADMIN, RunningServer, running_server

ETL = "yarn.scheduler.capacity.root.etl.acl_submit_applications"
ROOT = "yarn.scheduler.capacity.root.acl_{}"
ON = prop("yarn.acl.enable", "true") + prop("yarn.admin.acl", "yarn")
BASE = (
    prop("yarn.scheduler.capacity.root.queues", "default,etl")
    + prop(ROOT.format("submit_applications"), " ")
    + prop(ROOT.format("administer_queue"), " ")
    + prop(ETL, "alice")
)
BOB = prop(ETL, "bob", "<final>true</final>")
RANGER = prop("yarn.authorization-provider", "org.example.RangerYarnAuthorizer")
MEMORY = prop("yarn.scheduler.configuration.store.class", "memory")


def text(properties: str) -> str:
    return f"<configuration>\n{properties}\n</configuration>\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "capacity-scheduler.xml").write_text(text(BASE))
    (tmp_path / "yarn-site.xml").write_text(text(ON))
    return tmp_path


@pytest.fixture
def server(folder: Path) -> Iterator[RunningServer]:
    policy = {
        "path": str(folder / "capacity-scheduler.xml"),
        "yarn_site": str(folder / "yarn-site.xml"),
    }
    settings = ("--set", f"policy={json.dumps(policy)}")
    semantics = ("--set", "partitions.default.semantics=hadoop")
    with running_server(*settings, *semantics, *ADMIN) as running:
        yield running


@pytest.fixture
def client(server: RunningServer) -> Iterator[queuegate.Client]:
    with queuegate.Client(server.address, timeout=60) as asking:
        yield asking


def allowed(client: queuegate.Client, queue: str = "root.etl") -> list[str]:
    users = ("alice", "bob")
    return [user for user in users if client.check(user, queue, groups=["g"]).allowed]


def test_a_change_of_yarn_site_is_served(client: queuegate.Client, folder: Path) -> None:
    assert allowed(client) == ["alice"]
    before = client.get_policy()
    site = folder / "yarn-site.xml"
    replace(site, text(ON + BOB))
    eventually(lambda: allowed(client), ["bob"])
    after = client.get_policy()
    assert after.revision > before.revision
    assert after.checksum != before.checksum
    assert {queue.path: queue.submit_acl for queue in after.queues}["root.etl"] == "bob"
    [warning] = [one for one in after.diagnostics if "is final in" in one.message]
    assert (warning.severity, warning.line) == ("warning", 2)
    assert warning.file == str(folder / "capacity-scheduler.xml")
    assert f"{site}:2:" in warning.message
    replace(site, text(ON + prop(ETL, "${env.TEAM}", "<final>true</final>")))
    result = client.reload()
    assert not result.succeeded
    [error] = [one for one in result.diagnostics if one.severity == "error"]
    assert (error.file, error.line) == (str(site), 2)
    assert allowed(client) == ["bob"]


def test_the_root_that_only_yarn_site_closes(client: queuegate.Client, folder: Path) -> None:
    """Below a root without ACLs everything is open; yarn-site.xml can close it."""
    scheduler, site = folder / "capacity-scheduler.xml", folder / "yarn-site.xml"
    queues = prop("yarn.scheduler.capacity.root.queues", "default,etl")
    replace(scheduler, text(queues))
    eventually(lambda: allowed(client, "root.default"), ["alice", "bob"])
    replace(site, text(ON + BASE))
    eventually(lambda: bool(allowed(client, "root.default")), False)
    assert allowed(client) == ["alice"]
    assert allowed(client, "root.etl.new") == ["alice"]


@pytest.mark.parametrize("properties", ["", BASE, prop("fs.defaultFS", "hdfs://nn")])
def test_another_file_in_place_of_yarn_site_does_not_open_the_cluster(
    client: queuegate.Client, folder: Path, properties: str
) -> None:
    site = folder / "yarn-site.xml"
    replace(site, text(properties))
    result = client.reload()
    assert not result.succeeded
    [error] = [one for one in result.diagnostics if one.severity == "error"]
    assert error.file == str(site)
    assert error.message.startswith("this is not a yarn-site.xml")
    assert allowed(client) == ["alice"]
    replace(site, text(ON + BOB))
    eventually(lambda: allowed(client), ["bob"])


def test_a_compressed_site_is_reloaded(client: queuegate.Client, folder: Path) -> None:
    site = folder / "yarn-site.xml"
    packed = gzip.compress(text(ON + BOB).encode())
    replace(site, packed.decode(errors="surrogateescape"))
    assert client.reload().succeeded
    assert allowed(client) == ["bob"]
    replace(site, packed[:-9].decode(errors="surrogateescape"))
    result = client.reload()
    [error] = [one for one in result.diagnostics if one.severity == "error"]
    assert (error.file, error.message) == (str(site), "the compressed file is truncated")
    assert allowed(client) == ["bob"]
    lines = "".join(f"    {line}\n" for line in text(ON).splitlines())
    replace(site, f"apiVersion: v1\nkind: ConfigMap\ndata:\n  yarn-site.xml: |\n{lines}")
    assert client.reload().succeeded
    assert allowed(client) == ["alice"]


def test_what_else_decides_is_reported(
    client: queuegate.Client, server: RunningServer, folder: Path
) -> None:
    replace(folder / "yarn-site.xml", text(ON + RANGER + MEMORY))
    eventually(lambda: len(client.get_policy().diagnostics), 2)
    shown = subprocess.run(
        (sys.executable, "-m", "queuegate", "--address", server.address, "policy"),
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    ).stdout
    server.wait_for_log("policy diagnostic", count=2)
    logged = [one["diagnostic"] for one in server.logs if one["event"] == "policy diagnostic"]
    for key in ("yarn.authorization-provider", "yarn.scheduler.configuration.store.class"):
        line = f"warning: {key} is "
        assert line in shown
        assert any(line in one and "yarn-site.xml:2:" in one for one in logged)
