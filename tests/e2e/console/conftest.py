"""Servers with the console, which the tests of a module share."""

from collections.abc import Iterator

import pytest

from tests.support.servers.console_server import (
    RunningConsole,
    hostile_console,
    running_console,
)


@pytest.fixture(scope="module")
def console(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningConsole]:
    with running_console(tmp_path_factory.mktemp("console")) as running:
        yield running


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningConsole]:
    with hostile_console(tmp_path_factory.mktemp("hostile")) as running:
        yield running
