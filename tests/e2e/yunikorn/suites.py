"""`make yunikorn`: yunikorn-core's own tests on a build whose ACL checks a real server answers.

They run three times: unmodified, with the server, and with the server stopped, which shows that its
answers matter. Then a check is timed. What came out is written to integrations/yunikorn/RESULTS.md.
"""

import json
import re
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from bench import machine
from tests.support import go_toolchain
from tests.support.servers import admin_port
from tests.support.servers.queuegate_server import RunningServer, running_server

MODULE: Final = Path("integrations/yunikorn")
CORE: Final = "github.com/apache/yunikorn-core/"
SUITES: Final = ("pkg/scheduler/...", "pkg/common/security")
_RESULTS: Final = MODULE / "RESULTS.md"
_BUILT: Final = Path("build/yunikorn-suites").resolve()
_OVERLAY: Final = ("-overlay", str(_BUILT / "overlay.json"))
_NO_ANSWER: Final = re.compile(r"access denied: queuegate gave no answer\t({.*})")
_NANOSECONDS: Final = re.compile(r"([\d.]+) ns/op")


@dataclass(slots=True)
class Outcome:
    """What the tests of all packages did."""

    passed: Counter[str] = field(default_factory=Counter)
    """How many tests and subtests passed, by package."""
    failed: dict[tuple[str, str], set[str]] = field(default_factory=dict)
    """By package and test, the errors of questions without an answer that the test logged."""


@dataclass(frozen=True, slots=True)
class Served:
    """A server, and the policy file of which the tests change the content."""

    server: RunningServer
    policy: Path

    @property
    def environment(self) -> dict[str, str]:
        return {
            "QUEUEGATE_ADDRESS": self.server.address,
            "QUEUEGATE_SUITES_POLICY_FILE": str(self.policy),
        }

    def decisions(self) -> int:
        address = admin_port.ops_address(self.server)
        return int(admin_port.value(address, "queuegate_decisions_total"))

    def reloads(self) -> int:
        return len([log for log in self.server.logs if log["event"] == "policy is served"]) - 1


def prepare() -> None:
    """Raises GoFailed."""
    go_toolchain.run("run", "./prepare", "-suites", str(_BUILT), folder=MODULE)


@contextmanager
def served() -> Iterator[Served]:
    with tempfile.TemporaryDirectory(prefix="queuegate-yunikorn-") as folder:
        policy = Path(folder, "queues.yaml")
        policy.write_text("partitions: [{name: default, queues: [{name: root}]}]")
        with running_server(
            *("--policy", str(policy), "--set", "callers.unix.roles=[check,admin]"),
            *admin_port.LISTEN,
            listen=(f"unix:{folder}/socket",),
        ) as server:
            yield Served(server, policy)


def run(*suites: str, environment: dict[str, str] | None = None) -> Outcome:
    """Run packages of yunikorn-core, unmodified or in an environment that names a server."""
    done = subprocess.run(
        [
            *("nice", "go", "test", "-json", "-count=1", "-p=1"),
            *(_OVERLAY if environment else ()),
            *(CORE + suite for suite in suites),
        ],
        cwd=MODULE,
        env={**go_toolchain.environment(), "GOWORK": f"{_BUILT}/go.work", **(environment or {})},
        capture_output=True,
        text=True,
        timeout=go_toolchain.BUILD_SECONDS,
        check=False,
    )
    outcome, unanswered = Outcome(), dict[tuple[str, str], set[str]]()
    for line in done.stdout.splitlines():
        event = json.loads(line)
        package, test = event.get("Package", "").removeprefix(CORE), event.get("Test", "")
        match event["Action"]:
            case "output" if found := _NO_ANSWER.search(event["Output"]):
                unanswered.setdefault((package, test), set()).add(json.loads(found[1])["error"])
            case "pass" if test:
                outcome.passed[package] += 1
            case "fail" if test:
                outcome.failed[package, test] = unanswered.get((package, test), set())
            case "build-fail":
                sys.exit(done.stdout + done.stderr)
    if not outcome.passed:
        sys.exit(f"no test ran:\n{done.stdout}{done.stderr}")
    return outcome


def microseconds(*arguments: str, address: str) -> float:
    """Time Queue.CheckSubmitAccess, while a server with the folder's queues.yaml answers."""
    printed = go_toolchain.run(
        *("test", "-run=^$", "-bench=CheckSubmitAccess", "-count=5", *arguments, "./scheduler"),
        folder=MODULE,
        GOWORK=str(_BUILT / "go.work"),
        QUEUEGATE_ADDRESS=address,
    )
    return min(map(float, _NANOSECONDS.findall(printed))) / 1000


def times() -> dict[str, float]:
    """Return the time of a check, by what answers."""
    go_toolchain.run("run", "./prepare", str(_BUILT), folder=MODULE)
    with (
        tempfile.TemporaryDirectory(prefix="queuegate-yunikorn-") as folder,
        running_server(
            *("--policy", str(MODULE / "queues.yaml")), listen=(f"unix:{folder}/socket",)
        ) as server,
    ):
        return {
            "as released": microseconds(address=server.address),
            "queuegate, over a Unix socket": microseconds(*_OVERLAY, address=server.address),
        }


def markdown(
    released: Outcome,
    ours: Outcome,
    stopped: Outcome,
    answers: tuple[int, int],
    checks: dict[str, float],
) -> str:
    version = re.search(rf"{CORE.rstrip('/')} (\S+)", (MODULE / "go.mod").read_text())
    assert version
    rows = [
        (f"`{package}`", *(str(one.passed[package]) for one in (released, ours, stopped)))
        for package in sorted(released.passed)
    ]
    total = ("together", *(str(one.passed.total()) for one in (released, ours, stopped)))
    failed = [
        (f"`{package}`", f"`{test}`", "; ".join(sorted(errors)) or "no question without an answer")
        for (package, test), errors in sorted(ours.failed.items())
    ]
    facts = [
        ("yunikorn-core", version[1]),
        ("Go", go_toolchain.run("env", "GOVERSION").strip()),
        *((name, text) for name, text in machine.described() if name in {"machine", "commit"}),
    ]
    return "\n".join(
        [
            "# yunikorn-core's own tests, with ACL checks answered by queuegate",
            "",
            "Written by `make yunikorn`.",
            "",
            *_table(("", ""), facts),
            "",
            "## Tests that pass",
            "",
            "Subtests are counted, too. *Stopped*: the same build after queuegate was stopped.",
            "",
            *_table(("package", "as released", "queuegate", "stopped"), [*rows, total]),
            "",
            f"queuegate answered {answers[0]} questions. It reloaded its policy {answers[1]}",
            "times, before each question about other ACLs than those of the question before.",
            "",
            "## Tests that fail with queuegate",
            "",
            *_table(("package", "test", "error of the question"), failed),
            "",
            "## Time of a check",
            "",
            "`Queue.CheckSubmitAccess`, one call after the other, the best of five runs. Other",
            f"processes used the machine, too: its load average was {machine.load():.1f}.",
            "",
            *_table(("answered", "µs"), [(by, f"{took:.2f}") for by, took in checks.items()]),
            "",
        ]
    )


def _table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> Iterator[str]:
    for row in (head, ("---",) * len(head), *rows):
        yield f"| {' | '.join(row)} |"


def main() -> None:
    """Run all, and write the results."""
    prepare()
    released = run(*SUITES)
    print(f"as released: {released.passed.total()} pass", flush=True)
    with served() as one:
        ours = run(*SUITES, environment=one.environment)
        print(f"queuegate: {ours.passed.total()} pass", flush=True)
        answers = one.decisions(), one.reloads()
    stopped = run(*SUITES, environment=one.environment)
    print(f"stopped: {stopped.passed.total()} pass", flush=True)
    _RESULTS.write_text(markdown(released, ours, stopped, answers, times()))
    print(f"written: {_RESULTS}")


if __name__ == "__main__":
    main()
