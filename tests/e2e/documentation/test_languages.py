"""docs/how-to/generated-stubs.md: its programs are built, and its commands run in each language."""

import os
import re
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import pytest

from tests.support.documents import Sample, samples
from tests.support.rows import rows
from tests.support.servers.documented_servers import PLAIN, documented_servers
from tests.support.servers.queuegate_server import running_server

_BUILD_SECONDS: Final = 1200
_UNREACHABLE: Final = re.compile(
    "Could not transfer artifact|E(AI_AGAIN|CONNREFUSED|CONNRESET|NOTFOUND|TIMEDOUT)"
)
"""What Maven and npm print of a registry that does not answer."""

pytestmark = pytest.mark.timeout(2 * _BUILD_SECONDS)


@dataclass(frozen=True)
class Language:
    """How a language's program is built and run."""

    name: str
    tools: tuple[str, ...]

    @property
    def build(self) -> str:
        return next(each.command for each in SAMPLES if each.command.startswith(self.tools[0]))

    @property
    def program(self) -> str:
        """The command without its arguments."""
        commands = [each.command for each in SAMPLES]
        assignment = commands[commands.index(self.build) + 1]
        return assignment.removeprefix('CHECK="').removesuffix('"')

    @property
    def questions(self) -> list[Sample]:
        return [
            replace(each, command=each.command.replace("$CHECK", self.program))
            for each in SAMPLES
            if "$CHECK" in each.command
        ]


SAMPLES: Final = list(samples(Path("docs/how-to/generated-stubs.md").read_text(encoding="utf-8")))
LANGUAGES: Final = (Language("java", ("mvn", "javac", "java")), Language("node", ("npm", "node")))


@dataclass(frozen=True)
class Place:
    """A folder like a checkout, where the program is built."""

    language: Language
    folder: Path
    replaced: Mapping[str, str]

    def run(self, sample: Sample, seconds: float = 120) -> tuple[int, str]:
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("QUEUEGATE_TIMEOUT", "100")
            done = sample.run(self.folder, os.defpath, self.replaced, seconds)
        return done.returncode, done.stdout + done.stderr

    def asks(self, arguments: str, variables: str = "") -> tuple[int, str]:
        return self.run(Sample(f"{variables} {self.language.program} {arguments}"))


@pytest.fixture(scope="module", params=LANGUAGES, ids=lambda language: language.name)
def place(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Place]:
    language: Language = request.param
    for program in language.tools:
        if not shutil.which(program):
            pytest.skip(f"{program} is not on the path")
    folder = tmp_path_factory.mktemp(language.name)
    shutil.copytree("proto", folder / "proto")
    shutil.copytree(
        f"examples/{language.name}",
        folder / "examples" / language.name,
        ignore=shutil.ignore_patterns("target", "node_modules"),
    )
    with documented_servers(folder) as replaced:
        place = Place(language, folder, replaced)
        status, output = place.run(Sample(f"nice -n 19 {language.build}"), _BUILD_SECONDS)
        if status and _UNREACHABLE.search(output):
            pytest.skip(f"{language.tools[0]} cannot fetch packages: {output[:300]}")
        assert status == 0, output
        yield place


def test_commands(place: Place) -> None:
    for sample in place.language.questions:
        status, output = place.run(sample)
        said = f"{sample.command}\n{output}"
        if sample.shown is None:
            assert output == "allowed: REASON_USER\n", said
        else:
            assert sample.shows(output), said
        assert status == {"allowed": 0, "denied": 1}.get(output.partition(":")[0], 3), said


def test_an_answer_that_comes_too_late_is_none(place: Place) -> None:
    status, output = place.asks(f"{PLAIN} sue root.sandbox", "QUEUEGATE_TIMEOUT=0.00001")
    assert status == 3
    assert output.startswith("DEADLINE_EXCEEDED (no reason): ")


@pytest.mark.parametrize("timeout", ["1s", "0", "-1", "NaN", "''"])
def test_a_time_limit_that_is_no_number(timeout: str, place: Place) -> None:
    status, output = place.asks(f"{PLAIN} sue root.sandbox", f"QUEUEGATE_TIMEOUT={timeout}")
    assert status == 3
    assert f"""must be a number of seconds, not "{timeout.strip("'")}"\n""" in output


def test_a_caller_over_its_rate_learns_when_to_ask_again(place: Place) -> None:
    with _slow_server() as address:
        status, output = place.asks(f"{address} sue root.analytics.reports")
        assert (status, output) == (0, "allowed: REASON_USER\n")
        status, output = place.asks(f"{address} sue root.analytics.reports")
    assert status == 3
    assert output.startswith("RESOURCE_EXHAUSTED (RATE_LIMITED): ")
    [seconds] = re.findall(r"^ask again in (\d+) s$", output, re.MULTILINE)
    assert int(seconds) > 1


@rows
def test_a_caller_without_its_credentials_gets_no_answer(
    variables: str, shown: str, place: Place
) -> None:
    address = "queuegate.example.com:50052"
    status, output = place.asks(f"{address} sue root.analytics.reports", variables)
    assert status == 3
    assert re.match(shown, output), output


def test_without_a_queue_the_usage_is_shown(place: Place) -> None:
    status, output = place.asks(f"{PLAIN} sue")
    assert status == 2
    assert output.startswith("usage: ")


@contextmanager
def _slow_server() -> Iterator[str]:
    limits = "limits={caller_rate: 0.001, caller_burst: 1}"
    policy = "--policy", "examples/queues.yaml"
    with running_server(*policy, "--set", limits) as server:
        yield server.address
