"""docs/how-to/go-shim.md, the README's lines of Go, and examples/go-shim: run for real."""

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import grpc
import pytest
from google.protobuf.duration_pb2 import Duration
from google.rpc import error_details_pb2

from tests.support import go_toolchain
from tests.support.documents import Sample, blocks, samples
from tests.support.fakes.scripted_server import Fault, ScriptedServer
from tests.support.go_toolchain import BUILD_SECONDS, GoError
from tests.support.servers.queuegate_server import RunningServer, running_server

pytestmark = pytest.mark.timeout(BUILD_SECONDS)
PAGE = Path("docs/how-to/go-shim.md").read_text()
CHECKOUT = Path.cwd()
SHIM = CHECKOUT / "examples" / "go-shim"
_FILES = ("main.go", "wait.go", "owner.go", "backlog.go")


@pytest.fixture(scope="module", autouse=True)
def modules(go: Path) -> None:
    """The modules that the client and the example need."""
    del go
    try:
        for module in (CHECKOUT / "client" / "go", SHIM):
            go_toolchain.run("mod", "download", folder=module)
    except GoError as error:
        pytest.skip(str(error))


@pytest.fixture(scope="module")
def server() -> Iterator[RunningServer]:
    with running_server("--policy", "examples/queues.yaml") as running:
        yield running


@pytest.fixture
def page(tmp_path: Path, server: RunningServer, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder where a reader follows the page."""
    for name, value in go_toolchain.environment().items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("QUEUEGATE_ADDRESS", server.address)
    for name, text in zip(_FILES, blocks(PAGE, "go"), strict=True):
        (tmp_path / name).write_text(text)
    return tmp_path


def follow(sample: Sample, folder: Path) -> None:
    done = sample.run(folder, "", {"/src/queuegate": str(CHECKOUT)})
    said = f"{sample.command}\n{done.stdout}{done.stderr}"
    assert done.returncode == 0, said
    assert not sample.shown or sample.shows(done.stdout), said


def test_the_page(page: Path) -> None:
    folder = page
    for sample in samples(PAGE):
        if sample.command.startswith("cd "):
            folder = CHECKOUT / sample.command.removeprefix("cd ")
            continue
        follow(sample, folder)
    go_toolchain.run("vet", ".", folder=page)


def test_the_readme(page: Path, server: RunningServer) -> None:
    (lines,) = blocks(Path("README.md").read_text(), "go")
    for name in _FILES:
        (page / name).unlink()
    (page / "main.go").write_text(
        'package main\n\nimport (\n\t"context"\n\t"fmt"\n\n'
        '\t"github.com/queuegate/queuegate/client/go/queuegate"\n)\n\n'
        "func main() {\n\tif err := ask(context.Background()); err != nil {\n\t\tpanic(err)\n\t}\n}"
        "\n\nfunc ask(ctx context.Context) error {\n"
        + lines.replace("127.0.0.1:50051", server.address)
        + "return nil\n}\n"
    )
    *install, tidy = (s for s in samples(PAGE) if s.command.startswith("go mod"))
    for sample in (*install, tidy, Sample("go run .", "true user\n")):
        follow(sample, page)


@pytest.fixture(scope="module")
def shim(tmp_path_factory: pytest.TempPathFactory) -> Path:
    program = tmp_path_factory.mktemp("go") / "shim"
    go_toolchain.run("vet", ".", folder=SHIM)
    go_toolchain.run("mod", "tidy", "-diff", folder=SHIM)
    go_toolchain.run("build", "-o", str(program), ".", folder=SHIM)
    return program


def application(name: str, queue: str, *, partition: str = "", **ugi: object) -> dict[str, object]:
    return {"applicationID": name, "queueName": queue, "partitionName": partition, "ugi": ugi}


def answers(shim: Path, address: str, *requests: object) -> tuple[list[dict[str, object]], str]:
    """Return the responses to some requests, and what was logged."""
    done = subprocess.run(
        [shim],
        input="\n".join(map(json.dumps, requests)),
        env={**os.environ, "QUEUEGATE_ADDRESS": address},
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    return [json.loads(line) for line in done.stdout.splitlines()], done.stderr


def test_admission(shim: Path, server: RunningServer) -> None:
    first = {
        "rmID": "rm",
        "new": [
            application("user", "root.analytics.reports", user="sue", groups=["none"]),
            application("group", "root.analytics", user="john", groups=["none", "analysts"]),
            application("denied", "root.analytics", user="john", groups=["none"]),
            application("partition", "root.training", partition="gpu", user="maria", groups=["x"]),
            application("no partition", "root", partition="tpu", user="maria"),
            {"applicationID": "nobody", "queueName": "root.sandbox"},
            application("placed", "", user="sue"),
        ],
    }
    second = {"new": [application("last", "root.sandbox", user="sue")], "remove": []}
    responses, log = answers(shim, server.address, first, second)
    assert log == ""
    assert responses == [
        {
            "accepted": [{"applicationID": name} for name in ("user", "group", "partition")],
            "rejected": [
                {
                    "applicationID": "denied",
                    "reason": "john may not submit to root.analytics (no_match)",
                },
                {
                    "applicationID": "no partition",
                    "reason": "queuegate: partition 'tpu' does not exist; partitions are: "
                    "default, gpu",
                },
                {"applicationID": "nobody", "reason": "queuegate: user.user must not be empty"},
                {"applicationID": "placed", "reason": "queuegate: queue must not be empty"},
            ],
        },
        {"accepted": [{"applicationID": "last"}]},
    ]


def test_without_an_answer_an_application_waits(shim: Path) -> None:
    soon = error_details_pb2.RetryInfo(retry_delay=Duration(seconds=1))
    status = grpc.StatusCode.UNAVAILABLE
    pushback = [("grpc-retry-pushback-ms", "-1")]
    down = Fault(status, "directory down", "RESOLVER_UNAVAILABLE", [soon], pushback)
    no_role = Fault(grpc.StatusCode.PERMISSION_DENIED, "no role", "CALLER_NOT_PERMITTED")
    with ScriptedServer() as server:
        server.script.fail("CheckQueueAccess", down, no_role)
        request = {"new": [application("app-1", "root.a", user="alice")]}
        responses, log = answers(shim, server.address, request)
    assert responses == [{"accepted": [{"applicationID": "app-1"}]}]
    assert log == "app-1 waits 1s: queuegate: directory down\napp-1 waits 1s: queuegate: no role\n"
