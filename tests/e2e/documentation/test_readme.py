"""Examples of the README, carried out as written."""

import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from queuegate.cli import main
from queuegate_server.settings.load import SettingsError, load_settings
from tests.support.servers.queuegate_server import RunningServer, running_server

README = Path("README.md").read_text()
FIRST = README[: README.index("## Asking")]
EXAMPLE = "--policy", "examples/queues.yaml"
"""The policy of `make serve`."""


def blocks(text: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)


@pytest.fixture(scope="module")
def server() -> Iterator[RunningServer]:
    with running_server(*EXAMPLE) as it:
        yield it


def test_the_first_commands(server: RunningServer, capsys: pytest.CaptureFixture[str]) -> None:
    (block,) = blocks(FIRST, "console")
    shown = re.findall(r"^\$ \.venv/bin/queuegate (.*)\n(.*)$", block, re.MULTILINE)
    assert len(shown) == 2
    for command, answer in shown:
        status = main(["--address", server.address, *shlex.split(command)])
        assert capsys.readouterr().out.startswith(f"{answer}\n")
        assert status == int(answer.startswith("denied"))


def test_the_first_program(server: RunningServer) -> None:
    (program,) = blocks(FIRST, "python")
    assert "127.0.0.1:50051" in program
    done = subprocess.run(
        [sys.executable, "-c", program.replace("127.0.0.1:50051", server.address)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_make_serve_serves_the_example() -> None:
    makefile = Path("Makefile").read_text()
    assert f"POLICY ?= {EXAMPLE[1]}\n" in makefile
    assert "LISTEN ?= 127.0.0.1:50051\n" in makefile


@pytest.mark.parametrize("block", blocks(README, "yaml"))
def test_settings(block: str) -> None:
    """Only files that are not here may be wrong."""
    found: list[str] = []
    try:
        load_settings(Path("README.md"), content=block.encode())
    except SettingsError as error:
        found = [each.message for each in error.diagnostics]
    assert [each for each in found if "cannot be read" not in each] == []
