"""YuniKorn's own ACLs, which `bench.peers` measures beside our server, answer as they should."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from bench.peers.ask import check
from bench.peers.peers import PEERS
from bench.peers.policy import generate
from bench.peers.questions import Questions
from tests.support.go_toolchain import BUILD_SECONDS

pytestmark = pytest.mark.timeout(BUILD_SECONDS)


@pytest.fixture
def restored_cores() -> Iterator[None]:
    """Undo the restriction to some cores, which measurements need."""
    cores = os.sched_getaffinity(0)
    yield
    os.sched_setaffinity(0, cores)


@pytest.mark.usefixtures("restored_cores")
def test_yunikorns_acls_answer_the_questions_of_the_comparison(tmp_path: Path) -> None:
    [peer] = [peer for peer in PEERS if peer.name.startswith("YuniKorn")]
    policy = generate()
    asked = Questions(policy, 1).mixed(200)
    assert {one.allowed for one in asked} == {True, False}
    assert peer.install() != ""
    with peer.serve(policy, tmp_path / "peer") as serving:
        assert serving.wire.decode is not None
        check(serving, asked)
