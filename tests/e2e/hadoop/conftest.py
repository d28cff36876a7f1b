"""Hadoop's own classes, which tests of this folder compare with. Needs Maven and its registry."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.oracles.hadoop.process import Hadoop, Unavailable, running_hadoop
from tests.support.servers.resourcemanager import process as resource_manager
from tests.support.servers.resourcemanager.process import hadoop_jar


@pytest.fixture(scope="session")
def jar() -> Path:
    """Return the path of the jar for Hadoop."""
    try:
        return hadoop_jar()
    except resource_manager.Unavailable as error:
        pytest.skip(str(error))


@pytest.fixture(scope="session")
def hadoop() -> Iterator[Hadoop]:
    try:
        with running_hadoop() as oracle:
            yield oracle
    except Unavailable as error:
        pytest.skip(str(error))
