"""A jar and a server of different versions: they work together, or the jar says what to upgrade."""

from pathlib import Path
from typing import Any

import grpc
import pytest

from queuegate.v1 import sync_pb2
from tests.support.servers.resourcemanager.process import BUILD_SECONDS, RELEASES
from tests.support.servers.scripted_sync import (
    Requests,
    Responses,
    Script,
    opened,
    part,
    scripted_sync,
)
from tests.support.servers.yarn_cluster import Cluster

pytestmark = [pytest.mark.timeout(2 * BUILD_SECONDS + 600), pytest.mark.usefixtures("jar")]

RULES_OF_A_NEWER_SERVER = 1_000


def serving(greeting: dict[str, Any], policy: dict[str, Any]) -> Script:
    """Return the behaviour of a server with these fields, which sends a message of its own."""

    def script(requests: Requests, context: grpc.ServicerContext) -> Responses:
        for request in requests:
            if request.HasField("open"):
                yield opened(assert_groups=True, **greeting)
                yield sync_pb2.SyncResponse.FromString(b"\xfa\x7f\x00")  # unknown to the jar
                yield part(use_given_groups=True, **policy)
                yield sync_pb2.SyncResponse(checkpoint=sync_pb2.SyncCheckpoint(sequence=1))
            elif request.HasField("ping"):
                yield sync_pb2.SyncResponse(pong=sync_pb2.SyncPong(id=request.ping.id))
            elif request.HasField("release"):
                return

    return script


def without_the_service(requests: Requests, context: grpc.ServicerContext) -> Responses:
    context.abort(grpc.StatusCode.UNIMPLEMENTED, "unknown service")
    yield sync_pb2.SyncResponse()


@pytest.mark.parametrize(
    ("script", "message"),
    [
        (without_the_service, "has no SyncService: upgrade it"),
        (
            serving({"local_decisions": False}, {}),
            "upgrade the older one of the server and this jar",
        ),
        (
            serving({}, {"rules": RULES_OF_A_NEWER_SERVER}),
            "are newer than this jar: upgrade the jar",
        ),
    ],
    ids=["an old server", "a server that refuses the jar's rules", "a server with newer rules"],
)
def test_what_to_upgrade(script: Script, message: str, tmp_path: Path) -> None:
    cluster = Cluster(tmp_path, "capacity")
    with (
        scripted_sync(script) as server,
        cluster.yarn(RELEASES[1], address=server.address) as manager,
    ):
        assert message in manager.started["error"]


def test_a_server_that_sends_more_than_the_jar_knows(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path, "capacity")
    with (
        scripted_sync(serving({}, {})) as server,
        cluster.yarn(RELEASES[1], address=server.address, fallback="deny") as manager,
    ):
        assert "error" not in manager.started, manager.started
        questions = [{"user": user, "queue": "root"} for user in ("alice", "bob")]
        assert manager.ask("check", questions=questions)["allowed"] == [True, False]
