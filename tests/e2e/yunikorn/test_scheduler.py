"""docs/how-to/yunikorn.md: the real scheduler of YuniKorn, with its ACL checks answered by us."""

import difflib
import json
import os
import re
import shlex
import shutil
import signal
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import grpc
import pytest

from tests.e2e.yunikorn import suites
from tests.support import go_toolchain
from tests.support.atomic_files import replace
from tests.support.documents import samples
from tests.support.eventually import eventually
from tests.support.fakes.scripted_server import Fault, ScriptedServer
from tests.support.go_toolchain import BUILD_SECONDS, GoError
from tests.support.servers import admin_port
from tests.support.servers.queuegate_server import RunningServer, running_server

pytestmark = pytest.mark.timeout(BUILD_SECONDS)
PAGE = list(samples(Path("docs/how-to/yunikorn.md").read_text()))
BUILD, SHIM, (SERVE,), TRY = PAGE[:2], PAGE[2:4], PAGE[4:5], PAGE[5:]
MODULE = Path("integrations/yunikorn")
QUEUES = MODULE / "queues.yaml"
BUILT = Path("build/yunikorn").resolve()
GAVE_NO_ANSWER = "access denied: queuegate gave no answer"
FORCED = "forced application goes to the recovery queue"


def build(command: str) -> None:
    done = subprocess.run(
        ["nice", "bash", "-c", command],
        env=go_toolchain.environment(),
        capture_output=True,
        text=True,
        timeout=BUILD_SECONDS,
        check=False,
    )
    assert done.returncode == 0, f"{command}\n{done.stderr}"


@pytest.fixture(scope="module", autouse=True)
def _scheduler(go: Path) -> None:
    """The program of the page, built as the page says."""
    try:
        go_toolchain.run("mod", "download", folder=MODULE)
    except GoError as error:
        pytest.skip(f"yunikorn-core cannot be fetched: {error}")
    for sample in BUILD:
        build(sample.command)


class Scheduler:
    """A scheduler that asks a queuegate server."""

    def __init__(self, process: "subprocess.Popen[str]", log: Path) -> None:
        self._process = process
        self._log = log
        self._submitted = 0

    def submit(self, queue: str, user: str, *groups: str, **more: Any) -> str:
        """Hand over an application; return `accepted`, or `rejected` and the message."""
        self._submitted += 1
        name = f"app-{self._submitted}"
        owner = {"user": user, "groups": groups}
        application = {"applicationID": name, "queueName": queue, "ugi": owner, **more}
        assert self._process.stdin
        assert self._process.stdout
        self._process.stdin.write(json.dumps(application) + "\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline()
        assert answer.startswith(f"{name}: "), answer + self._log.read_text()
        return answer.removeprefix(f"{name}: ").strip()

    def logged(self, message: str) -> list[dict[str, str]]:
        """Return the fields of the log entries with this message."""
        entries = [line.split("\t") for line in self._log.read_text().splitlines()]
        return [json.loads(entry[-1]) for entry in entries if message in entry]


@contextmanager
def running_scheduler(
    address: str, queues: Path, folder: Path, program: Path = BUILT / "scheduler"
) -> Iterator[Scheduler]:
    log = folder / "scheduler.log"
    with (
        log.open("w") as errors,
        subprocess.Popen(
            [program, queues],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            env={**os.environ, "QUEUEGATE_ADDRESS": address},
        ) as process,
    ):
        yield Scheduler(process, log)
        assert process.stdin
        process.stdin.close()
        assert process.wait(60) == 0, log.read_text()


def queues_for(submit_acl: str, *partitions: str) -> str:
    """Return a policy in which the ACL is that of `root.work`, the same in all partitions."""
    return json.dumps(
        {
            "partitions": [
                {
                    "name": name,
                    "placementrules": [{"name": "provided", "create": True}],
                    "queues": [
                        {
                            "name": "root",
                            "queues": [
                                {"name": "work", "submitacl": submit_acl},
                                {"name": "new", "parent": True, "submitacl": submit_acl},
                            ],
                        }
                    ],
                }
                for name in partitions or ("default",)
            ]
        }
    )


def decisions(server: RunningServer) -> int:
    return int(admin_port.value(admin_port.ops_address(server), "queuegate_decisions_total"))


@pytest.mark.parametrize(
    ("schedulers", "ours", "answer"),
    [("*", "alice", "rejected"), ("alice", "*", "accepted"), ("", " dev", "accepted")],
    ids=["only the scheduler grants", "only we grant", "by a group of the application"],
)
def test_the_answer_is_ours(schedulers: str, ours: str, answer: str, tmp_path: Path) -> None:
    """The two have different policies, so that an answer shows whose it is."""
    policy, queues = tmp_path / "ours.yaml", tmp_path / "queues.yaml"
    policy.write_text(queues_for(ours))
    queues.write_text(queues_for(schedulers))
    with (
        running_server("--policy", str(policy), *admin_port.LISTEN) as server,
        running_scheduler(server.address, queues, tmp_path) as scheduler,
    ):
        for asked, queue in ((1, "root.work"), (2 if answer == "rejected" else 3, "root.new.leaf")):
            assert scheduler.submit(queue, "bob", "staff", "dev").startswith(answer)
            # A new queue is asked about again when it is made.
            eventually(lambda: decisions(server), asked)
        denials = scheduler.logged("access denied by queuegate")
        assert [entry["queue"] for entry in denials] == (
            ["root.work", "root.new"] if answer == "rejected" else []
        )
        assert {entry["reason"] for entry in denials} <= {"no_match"}


def test_a_changed_policy(tmp_path: Path) -> None:
    policy = tmp_path / "ours.yaml"
    policy.write_text(queues_for("alice"))
    with (
        running_server("--policy", str(policy)) as server,
        running_scheduler(server.address, policy, tmp_path) as scheduler,
    ):
        assert scheduler.submit("root.work", "bob").startswith("rejected")
        replace(policy, queues_for("bob"))
        server.wait_for_log("policy is served", count=2)
        assert scheduler.submit("root.work", "bob") == "accepted"
        assert scheduler.submit("root.work", "alice").startswith("rejected")


def test_each_partition_has_its_policy(tmp_path: Path) -> None:
    policy, queues = tmp_path / "ours.yaml", tmp_path / "queues.yaml"
    one, other = (
        json.loads(queues_for(acl, name)) for acl, name in (("*", "default"), ("", "gpu"))
    )
    policy.write_text(json.dumps({"partitions": one["partitions"] + other["partitions"]}))
    queues.write_text(queues_for("*", "gpu", "default"))
    with (
        running_server("--policy", str(policy)) as server,
        running_scheduler(server.address, queues, tmp_path) as scheduler,
    ):
        assert scheduler.submit("root.work", "bob", partitionName="default") == "accepted"
        assert scheduler.submit("root.work", "bob", partitionName="gpu").startswith("rejected")


def test_without_a_server_applications_are_rejected(tmp_path: Path) -> None:
    policy, path = tmp_path / "queues.yaml", tmp_path / "socket"
    policy.write_text(queues_for("*"))
    arguments, listen = ("--policy", str(policy)), (f"unix:{path}",)
    with running_scheduler(f"unix:{path}", policy, tmp_path) as scheduler:
        assert scheduler.submit("root.work", "bob").startswith("rejected")
        with running_server(*arguments, listen=listen):
            eventually(lambda: scheduler.submit("root.work", "bob"), "accepted")
        assert scheduler.submit("root.work", "bob").startswith("rejected")
        assert scheduler.submit("root.new.leaf", "bob").startswith("rejected")
        with running_server(*arguments, listen=listen) as server:
            eventually(lambda: scheduler.submit("root.work", "bob"), "accepted")
            server.process.send_signal(signal.SIGSTOP)
            try:
                assert scheduler.submit("root.work", "bob").startswith("rejected")
            finally:
                server.process.send_signal(signal.SIGCONT)
            eventually(lambda: scheduler.submit("root.work", "bob"), "accepted")
        reasons = [entry["error"] for entry in scheduler.logged(GAVE_NO_ANSWER)]
    assert f"no server at unix:{path}" in reasons[0]
    assert any("the time limit of 1s has passed" in reason for reason in reasons)


class NoFault(Fault):
    """The call gets its answer."""

    def end(self, context: grpc.ServicerContext) -> None:
        pass


def two_rules() -> str:
    """Return queues of which the second rule places applications in `root.other`."""
    children = [{"name": "work"}, {"name": "new", "parent": True}, {"name": "other"}]
    partition = {
        "name": "default",
        "placementrules": [
            {"name": "provided", "create": True},
            {"name": "fixed", "value": "root.other"},
        ],
        "queues": [{"name": "root", "queues": children}],
    }
    return json.dumps({"partitions": [partition]})


def test_without_an_answer_no_further_rule_is_tried(tmp_path: Path) -> None:
    queues, address = tmp_path / "queues.yaml", f"unix:{tmp_path}/socket"
    queues.write_text(two_rules())
    answered, failing = (kind(grpc.StatusCode.INTERNAL, "scripted") for kind in (NoFault, Fault))
    forced = {"application.create.force": "true"}
    none = "rejected: failed to place application APP: queuegate gave no answer: queuegate: "

    def submit(user: str, queue: str, **more: Any) -> str:
        return re.sub(r"app-\d+", "APP", scheduler.submit(queue, user, **more))

    def asks(user: str, queue: str, *faults: Fault, **more: Any) -> tuple[str, list[str]]:
        """Return the answer of the scheduler, and the queues that it asked about."""
        server.script.reset()
        server.script.fail("CheckQueueAccess", *faults)
        return submit(user, queue, **more), [call.request.queue for call in server.script.calls]

    with running_scheduler(address, queues, tmp_path) as scheduler:
        with ScriptedServer(address) as server:
            eventually(lambda: submit("bob", "root.work"), "accepted")
            before = len(scheduler.logged(GAVE_NO_ANSWER))
            # A denial is an answer.
            answer, asked = asks("denied", "root.work")
            assert answer.endswith("no placement rule matched")
            assert asked == ["root.work", "root.other"]
            assert asks("bob", "root.work", failing) == (f"{none}scripted", ["root.work"])
            assert asks("bob", "root.new.leaf", failing) == (f"{none}scripted", ["root.new"])
            # The scheduler asks again before it makes a queue.
            answer, asked = asks("bob", "root.new.leaf", answered, failing)
            assert answer.endswith("application APP: queuegate gave no answer: queuegate: scripted")
            assert asked == ["root.new", "root.new"]
            assert asks("bob", "root.work", failing, tags=forced) == ("accepted", ["root.work"])
            assert len(scheduler.logged(FORCED)) == 1
        assert submit("bob", "root.work").startswith(f"{none}no server at {address} ")
        assert len(scheduler.logged(GAVE_NO_ANSWER)) == before + 5


def test_a_line_that_is_too_long(tmp_path: Path) -> None:
    done = subprocess.run(
        [BUILT / "scheduler", QUEUES],
        input="x" * 70_000,
        capture_output=True,
        text=True,
        timeout=BUILD_SECONDS,
        check=False,
    )
    assert done.returncode == 1
    assert "token too long" in done.stderr


def test_a_server_that_never_answers(tmp_path: Path) -> None:
    """Nor does the scheduler wait for one that does not even speak gRPC."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = "{}:{}".format(*silent.getsockname())
        with running_scheduler(address, QUEUES, tmp_path) as scheduler:
            assert scheduler.submit("root.analytics.reports", "sue").startswith("rejected")
            [entry] = scheduler.logged(GAVE_NO_ANSWER)
    assert "the time limit of 1s has passed" in entry["error"]


def test_a_client_that_cannot_be_made(tmp_path: Path) -> None:
    with running_scheduler("not an address", QUEUES, tmp_path) as scheduler:
        assert scheduler.submit("root.analytics.reports", "sue").startswith("rejected")
        [entry] = scheduler.logged(GAVE_NO_ANSWER)
    assert "not an address" in entry["error"]


def test_forced_applications_are_not_checked(tmp_path: Path) -> None:
    """As in YuniKorn: their pods run already."""
    forced = {"application.create.force": "true"}
    with running_scheduler("127.0.0.1:1", QUEUES, tmp_path) as scheduler:
        assert scheduler.submit("root.analytics.reports", "sue", tags=forced) == "accepted"
        assert scheduler.logged(FORCED)


def test_groups_of_an_earlier_application(tmp_path: Path) -> None:
    """The scheduler keeps them, and so asks with them."""
    policy = tmp_path / "queues.yaml"
    policy.write_text(queues_for(" dev"))
    with (
        running_server("--policy", str(policy)) as server,
        running_scheduler(server.address, policy, tmp_path) as scheduler,
    ):
        assert scheduler.submit("root.work", "root").startswith("rejected")
        assert scheduler.submit("root.work", "root", "dev") == "accepted"
        assert scheduler.submit("root.work", "root") == "accepted"


@pytest.mark.parametrize("version", suites.VERSIONS)
def test_a_suite_of_yunikorn_core(version: str) -> None:
    """`make yunikorn` runs all of them."""
    suites.prepare(version, "-suites")
    package = "pkg/scheduler/placement"
    with suites.served() as served:
        outcome = suites.run(version, package, environment=served.environment)
        assert served.decisions() > served.reloads() > 0
    assert not outcome.failed
    stopped = suites.run(version, package, environment=served.environment)
    assert stopped.failed
    assert len(stopped.passed) + len(stopped.failed) == len(outcome.passed)


@pytest.mark.parametrize("version", suites.VERSIONS)
def test_recorded_answers(version: str) -> None:
    """The answers in `tests/vectors/` are those of the released code."""
    suites.prepare(version)
    suites.compare_vectors(version)


def test_queues_by_themselves(tmp_path: Path) -> None:
    """Also CheckAdminAccess, which nothing in yunikorn-core calls."""
    program = tmp_path / "queues"
    arguments = "test", "-c", "-overlay", str(BUILT / "overlay.json"), "-o", str(program)
    go_toolchain.run(*arguments, "./scheduler", folder=MODULE, GOWORK=str(BUILT / "go.work"))
    with running_server("--policy", str(QUEUES)) as server:
        done = subprocess.run(
            [program, "-test.v"],
            cwd=MODULE / "scheduler",
            env={**os.environ, "QUEUEGATE_ADDRESS": server.address},
            capture_output=True,
            text=True,
            timeout=BUILD_SECONDS,
            check=False,
        )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "--- PASS: TestAccess" in done.stdout


def test_what_differs() -> None:
    """And code of another version is refused."""
    copy, rewritten = BUILT / "yunikorn-core", BUILT / "rewritten"
    changed = {}
    for path in rewritten.rglob("*.go"):
        place = path.relative_to(rewritten)
        before, after = (file.read_text().splitlines() for file in (copy / place, path))
        lines = (line for line in difflib.ndiff(before, after) if line.startswith("- "))
        changed[place.name] = [line.removeprefix("- ").strip() for line in lines]
    assert changed == {
        "queue.go": [
            f"func (sq *Queue) Check{access}Access(user security.UserGroup) bool {{"
            for access in ("Submit", "Admin")
        ],
        "partition.go": ["if !queue.CheckSubmitAccess(user) {"],
        "placement.go": ["if !queue.CheckSubmitAccess(app.GetUser()) {"] * 2,
    }
    overlay = json.loads((BUILT / "overlay.json").read_text())["Replace"]
    added = sorted(Path(path).name for path in overlay if not Path(path).exists())
    assert added == ["queuegate.go", "queuegate.go", "queuegate_ask.go"]
    go_toolchain.run("test", "./prepare", "./access", folder=MODULE)
    with pytest.raises(
        GoError, match=r"v1\.6\.0 is not supported; supported are v1\.8\.0, v1\.9\.0"
    ):
        go_toolchain.run("run", "./prepare", "-core", "v1.6.0", str(BUILT), folder=MODULE)
    supported = re.findall(r'"(v[\d.]+)"', (MODULE / "prepare/main.go").read_text())
    assert set(supported) == set(suites.VERSIONS)
    assert f"yunikorn-core {suites.VERSIONS[0]}" in (MODULE / "go.mod").read_text()


def test_the_page(tmp_path: Path) -> None:
    arguments = shlex.split(SERVE.command)
    assert arguments[:2] == ["queuegate-server", "serve"]
    policy = arguments[2:4]
    with running_server(*policy) as server:
        assert arguments[4:] == ["--listen", "127.0.0.1:50051"]
        for sample in TRY:
            done = sample.run(Path(), "", {arguments[5]: server.address})
            assert sample.shows(done.stdout), f"{sample.command}\n{done.stdout}{done.stderr}"
    done = TRY[0].run(Path(), "", {arguments[5]: server.address})
    assert done.stdout.count(": rejected: ") == done.stdout.count("\n") == 3


def test_a_shim_is_built_in_the_same_way(tmp_path: Path) -> None:
    """A module of its own, which knows nothing of queuegate."""
    shutil.copy(MODULE / "scheduler" / "main.go", tmp_path)
    required = re.findall(
        r"^\tgithub.com/apache/.*$", (MODULE / "go.mod").read_text(), re.MULTILINE
    )
    lines = ("module example.org/shim", "go 1.21", "require (", *required, ")")
    (tmp_path / "go.mod").write_text("\n".join(lines))
    try:
        for sample in SHIM:
            build(sample.command.replace("~/shim", str(tmp_path)))
        with running_scheduler("127.0.0.1:1", QUEUES, tmp_path, BUILT / "shim") as scheduler:
            assert scheduler.submit("root.analytics.reports", "sue").startswith("rejected")
            assert len(scheduler.logged(GAVE_NO_ANSWER)) == 1
    finally:
        build(BUILD[0].command)
