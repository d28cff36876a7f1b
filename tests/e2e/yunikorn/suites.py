"""`make yunikorn`: yunikorn-core's own tests on a build whose ACL checks a real server answers.

Those of each version run three times: unmodified, with the server, and with the server stopped,
which shows that its answers matter. Then a check is timed. The results are written to
integrations/yunikorn/RESULTS.md.
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
VERSIONS: Final = ("v1.9.0", "v1.8.0")
"""Of yunikorn-core, those that `prepare` supports; the first is its default."""
SUITES: Final = ("pkg/scheduler/...", "pkg/common/security")
_RESULTS: Final = MODULE / "RESULTS.md"
_RUNS_AGAIN: Final = 5
_NO_ANSWER: Final = re.compile(r"access denied: queuegate gave no answer\t({.*})")
_NANOSECONDS: Final = re.compile(r"([\d.]+) ns/op")


@dataclass(slots=True)
class Outcome:
    """What the tests of all packages did."""

    passed: set[tuple[str, str]] = field(default_factory=set)
    """The packages and names of tests and subtests that passed."""
    failed: dict[tuple[str, str], set[str]] = field(default_factory=dict)
    """By package and test, the errors of questions without an answer that the test logged."""

    def counts(self) -> Counter[str]:
        """Return how many tests and subtests passed, by package."""
        return Counter(package for package, _ in self.passed)

    def late(self) -> set[tuple[str, str]]:
        """Return the packages and names of tests that failed although each question was answered:
        they wait for a second, in which a server on a busy machine may not reload.
        """
        late = {
            (package, test.partition("/")[0])
            for (package, test), errors in self.failed.items()
            if not errors
        }
        return late - {each for each, errors in self.failed.items() if errors}

    def replace(self, package: str, tests: set[str], again: "Outcome") -> None:
        """Take the outcome of another run for some tests of a package, with their subtests."""

        def is_other(each: tuple[str, str]) -> bool:
            return each[0] != package or each[1].partition("/")[0] not in tests

        self.passed = set(filter(is_other, self.passed)) | again.passed
        kept = {each: errors for each, errors in self.failed.items() if is_other(each)}
        self.failed = {**kept, **again.failed}


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


def built(version: str) -> Path:
    """Return the folder with the build of a version."""
    return Path(f"build/yunikorn-suites-{version}").resolve()


def prepare(version: str, *options: str) -> None:
    """Raises GoError."""
    arguments = ("run", "./prepare", "-core", version, *options, str(built(version)))
    go_toolchain.run(*arguments, folder=MODULE)


def overlay(version: str) -> tuple[str, str]:
    """Return the arguments of `go` that take the rewritten files."""
    return "-overlay", str(built(version) / "overlay.json")


def workspace(version: str) -> str:
    """Return the value of GOWORK."""
    return str(built(version) / "go.work")


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


def run_again(version: str, outcome: Outcome, environment: dict[str, str]) -> None:
    """Run the tests again that were late, a few times."""
    for _ in range(_RUNS_AGAIN):
        late = outcome.late()
        for package in {package for package, _ in late}:
            tests = {test for of, test in late if of == package}
            only = f"^({'|'.join(sorted(tests))})$"
            again = run(version, package, environment=environment, only=only)
            outcome.replace(package, tests, again)


def run(
    version: str, *suites: str, environment: dict[str, str] | None = None, only: str = ""
) -> Outcome:
    """Run packages of yunikorn-core, unmodified or in an environment that names a server; all their
    tests, or only those that an expression matches.
    """
    done = subprocess.run(
        [
            *("nice", "go", "test", "-json", "-count=1", "-p=1"),
            *(("-run", only) if only else ()),
            *(overlay(version) if environment else ()),
            *(CORE + suite for suite in suites),
        ],
        cwd=MODULE,
        env={**go_toolchain.environment(), "GOWORK": workspace(version), **(environment or {})},
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
                outcome.passed.add((package, test))
            case "fail" if test:
                outcome.failed[package, test] = unanswered.get((package, test), set())
            case "build-fail":
                sys.exit(done.stdout + done.stderr)
    if not outcome.passed and not outcome.failed:
        sys.exit(f"no test ran:\n{done.stdout}{done.stderr}")
    return outcome


def compare_vectors(version: str) -> None:
    """Compare the recorded vectors with the code of a version as it is; raises GoError."""
    go_toolchain.run("test", "-count=1", "./vectors", folder=MODULE, GOWORK=workspace(version))


def microseconds(version: str, *arguments: str, address: str) -> float:
    """Time Queue.CheckSubmitAccess, while a server with the folder's queues.yaml answers."""
    printed = go_toolchain.run(
        *("test", "-run=^$", "-bench=CheckSubmitAccess", "-count=5", *arguments, "./scheduler"),
        folder=MODULE,
        GOWORK=workspace(version),
        QUEUEGATE_ADDRESS=address,
    )
    return min(map(float, _NANOSECONDS.findall(printed))) / 1000


def times(version: str) -> dict[str, float]:
    """Return the time of a check, by what answers."""
    prepare(version)
    with (
        tempfile.TemporaryDirectory(prefix="queuegate-yunikorn-") as folder,
        running_server(
            *("--policy", str(MODULE / "queues.yaml")), listen=(f"unix:{folder}/socket",)
        ) as server,
    ):
        return {
            "as released": microseconds(version, address=server.address),
            "queuegate, over a Unix socket": microseconds(
                version, *overlay(version), address=server.address
            ),
        }


@dataclass(frozen=True, slots=True)
class Results:
    """The results of one version."""

    version: str
    released: Outcome
    ours: Outcome
    stopped: Outcome
    decisions: int
    reloads: int
    late: int
    """Tests that were run again."""


def markdown(found: Iterable[Results], checks: dict[str, float]) -> str:
    facts = [
        ("Go", go_toolchain.run("env", "GOVERSION").strip()),
        *((name, text) for name, text in machine.described() if name in {"machine", "commit"}),
    ]
    load = f"{machine.load():.1f}"
    return "\n".join(
        [
            "# yunikorn-core's own tests, with ACL checks answered by queuegate",
            "",
            "Written by `make yunikorn`. Subtests are counted. *Stopped*: the same build after",
            "queuegate was stopped.",
            "",
            *_table(("", ""), facts),
            "",
            *(line for each in found for line in _of_version(each)),
            "## Time of a check",
            "",
            f"`Queue.CheckSubmitAccess` of yunikorn-core {VERSIONS[0]}, one call after the other,",
            f"the best of five runs. Other processes ran, too: the load average was {load}.",
            "",
            *_table(("answered", "µs"), [(by, f"{took:.2f}") for by, took in checks.items()]),
            "",
        ]
    )


def _of_version(found: Results) -> Iterator[str]:
    outcomes = (found.released, found.ours, found.stopped)
    counts = [one.counts() for one in outcomes]
    rows = [
        (f"`{package}`", *(str(one[package]) for one in counts)) for package in sorted(counts[0])
    ]
    total = ("together", *(str(one.total()) for one in counts))
    yield from (f"## yunikorn-core {found.version}", "", "Tests that pass:", "")
    yield from _table(("package", "as released", "queuegate", "stopped"), [*rows, total])
    yield from (
        "",
        f"queuegate answered {found.decisions} questions. It reloaded its policy {found.reloads}",
        "times, before each question about other ACLs than those of the question before.",
        f"Tests that did not wait for that, {found.late} of them on this machine, were run again.",
        "",
    )
    if found.released.failed:
        failed = ", ".join(f"`{test}`" for _, test in sorted(found.released.failed))
        yield from (f"Tests that fail as released, on this machine: {failed}.", "")
    rows = [
        (f"`{package}`", f"`{test}`", "; ".join(sorted(errors)) or "no question without an answer")
        for (package, test), errors in sorted(found.ours.failed.items())
        if (package, test) not in found.released.failed
    ]
    yield from ("Tests that fail only with queuegate:", "")
    yield from _table(("package", "test", "error of the question"), rows)
    yield ""


def _table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> Iterator[str]:
    for row in (head, ("---",) * len(head), *rows):
        yield f"| {' | '.join(row)} |"


def results(version: str) -> Results:
    """Run the suites of a version."""
    prepare(version, "-suites")
    compare_vectors(version)
    released = run(version, *SUITES)
    print(f"{version} as released: {len(released.passed)} pass", flush=True)
    with served() as one:
        ours = run(version, *SUITES, environment=one.environment)
        decisions, reloads, late = one.decisions(), one.reloads(), len(ours.late())
        run_again(version, ours, one.environment)
        print(f"{version} with queuegate: {len(ours.passed)} pass", flush=True)
    stopped = run(version, *SUITES, environment=one.environment)
    print(f"{version} stopped: {len(stopped.passed)} pass", flush=True)
    return Results(version, released, ours, stopped, decisions, reloads, late)


def main() -> None:
    """Run all, and write the results."""
    found = [results(version) for version in VERSIONS]
    _RESULTS.write_text(markdown(found, times(VERSIONS[0])))
    print(f"written: {_RESULTS}")


if __name__ == "__main__":
    main()
