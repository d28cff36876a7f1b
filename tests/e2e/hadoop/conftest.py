"""Hadoop's own classes, which tests of this folder compare with. Needs Maven and its registry."""

from collections.abc import Iterator

import pytest

from tests.support.oracles.hadoop.process import Hadoop, Unavailable, running_hadoop


@pytest.fixture(scope="session")
def hadoop() -> Iterator[Hadoop]:
    try:
        with running_hadoop() as oracle:
            yield oracle
    except Unavailable as error:
        pytest.skip(str(error))
