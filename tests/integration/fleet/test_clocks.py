"""Replicas whose time of day differs by more than shared groups allow name this."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from queuegate.cli import main
from tests.support.eventually import eventually
from tests.support.servers.admin_port import LISTEN, get_json, ops_address
from tests.support.servers.fleet import Fleet, running_fleet

SOURCE = Path("tests/resilience/wall_clock.c")
SENTENCE = "the clocks of the replicas a and b differ by at least "


@pytest.fixture(scope="module")
def shift(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The file with the seconds by which `b` is ahead."""
    return tmp_path_factory.mktemp("shift") / "shift"


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory, shift: Path) -> Iterator[Fleet]:
    folder = tmp_path_factory.mktemp("fleet")
    library = folder / "wall_clock.so"
    subprocess.run(["gcc", "-shared", "-fPIC", "-O2", "-o", library, SOURCE], check=True)
    shift.write_text(f"{0:<12}")
    environment = {"LD_PRELOAD": str(library), "QG_WALL_CLOCK": str(shift)}
    with running_fleet(folder, "a", arguments=LISTEN) as running:
        running.start("b", *LISTEN, environment=environment)
        running.until_agreed()
        yield running


@pytest.mark.parametrize("step", [60, -60])
def test_a_difference_is_shown_by_each(
    fleet: Fleet, shift: Path, step: int, capsys: pytest.CaptureFixture[str]
) -> None:
    names = ("a", "b") if step > 0 else ("b", "a")
    sentence = SENTENCE.replace("a and b", " and ".join(names))
    shift.write_text(f"{step:<12}")
    for name in ("a", "b"):
        eventually(lambda name=name: shows(fleet, name, sentence), True)  # type: ignore[misc]
    assert main(["fleet", "--address", fleet.servers["a"].address]) == 1
    assert sentence in " ".join(capsys.readouterr().err.split())
    shown = get_json(ops_address(fleet.servers["b"]), "/readyz")[1]["fleet"]["problems"]
    assert any(sentence in each for each in shown)
    eventually(lambda: any(sentence in each["event"] for each in fleet.servers["a"].logs), True)
    shift.write_text(f"{0:<12}")
    fleet.until_agreed()


def shows(fleet: Fleet, name: str, sentence: str) -> bool:
    return any(sentence in each for each in fleet.clients[name].get_fleet().problems)
