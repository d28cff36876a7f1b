"""A server with two partitions, which the tests of a file share."""

from collections.abc import Iterator
from typing import Any

import pytest

import queuegate
from tests.support.fakes.scripted_directory import ScriptedDirectory
from tests.support.servers.two_partitions import (
    SharedServer,
    client_without_retries,
    reset,
    two_partitions,
)


@pytest.fixture(scope="module")
def partition_options() -> dict[str, Any]:
    """Options of `two_partitions`; a file may have its own."""
    return {}


@pytest.fixture(scope="module")
def shared(
    tmp_path_factory: pytest.TempPathFactory, partition_options: dict[str, Any]
) -> Iterator[SharedServer]:
    scripted = ScriptedDirectory(tmp_path_factory.mktemp("shared"))
    with two_partitions(scripted, **partition_options) as server:
        yield SharedServer(scripted, server)


@pytest.fixture
def directory(shared: SharedServer) -> ScriptedDirectory:
    """The directory of the shared server; both are as at their beginning."""
    reset(*shared)
    return shared.directory


@pytest.fixture
def client(shared: SharedServer, directory: ScriptedDirectory) -> Iterator[queuegate.Client]:
    with client_without_retries(shared.server) as opened:
        yield opened
