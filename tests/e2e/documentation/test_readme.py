"""README.md: its blocks, carried out as written. test_go_shim.py runs its lines of Go."""

import re
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from tests.e2e.documentation.environments import served
from tests.e2e.documentation.pages import blocks_of
from tests.e2e.documentation.reader import CHECKOUT, Reader
from tests.support.go_toolchain import BUILD_SECONDS

pytestmark = pytest.mark.timeout(BUILD_SECONDS)

README = (CHECKOUT / "README.md").read_text()


@pytest.mark.parametrize("language", ["console", "python", "sh"])
def test_blocks(language: str) -> None:
    page = [block for block in blocks_of("README.md") if block.language == language]
    with TemporaryDirectory(prefix="page-") as folder:
        reader = Reader(Path(folder))
        with served(reader, "--set", f"http.listen=127.0.0.1:{reader.port(8080)}"):
            reader.follow(page)


def test_the_two_commands_do_what_is_said() -> None:
    commands = re.findall(r"^(make \w+) +# (.*)$", README, re.MULTILINE)
    assert [command for command, _ in commands] == ["make serve", "make test"]
    assert commands[0][1].startswith("serves examples/queues.yaml on 127.0.0.1:50051")
    makefile = (CHECKOUT / "Makefile").read_text()
    assert "POLICY ?= examples/queues.yaml\n" in makefile
    assert "LISTEN ?= 127.0.0.1:50051\n" in makefile


def test_it_is_short() -> None:
    assert len(README.splitlines()) <= 120
