"""Workers that end under load, which callers with retries do not notice."""

import signal
from pathlib import Path

import grpc
import pytest

from queuegate.v1 import access_pb2, access_pb2_grpc
from queuegate.v1.user_group_information_pb2 import UserGroupInformation
from tests.e2e.lifecycle.load import Load
from tests.support.servers.workers import (
    WORKERS,
    channels,
    pids,
    send,
    several_workers,
    wait_for_replacement,
    write_policy,
)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_callers_do_not_notice_a_worker_that_ends(tmp_path: Path, number: signal.Signals) -> None:
    """Each worker in turn is drained, as in a rolling restart, or killed."""
    path = write_policy(tmp_path)
    with several_workers("--policy", str(path)) as server, Load(server.address) as load:
        for index, pid in pids(server).items():
            send(pid, number)
            wait_for_replacement(server, index, pid)
    assert load.failed == []
    assert load.calls > 500
    print(f"{load.calls} calls, {load.per_second:.0f} a second")


def test_only_calls_in_flight_on_a_killed_worker_fail(tmp_path: Path) -> None:
    """Without retries: the calls of the other workers succeed."""
    path = write_policy(tmp_path)
    request = access_pb2.CheckQueueAccessRequest(
        user=UserGroupInformation(user="alice"),
        queue="root.x",
        access=access_pb2.ACCESS_TYPE_SUBMIT,
    )
    with several_workers("--policy", str(path)) as server, channels(server.address) as opened:
        stubs = [access_pb2_grpc.AccessServiceStub(channel) for channel in opened]
        for stub in stubs:
            assert stub.CheckQueueAccess(request, timeout=60, wait_for_ready=True).allowed
        send(pids(server)[0], signal.SIGKILL)
        codes = [
            [stub.CheckQueueAccess.future(request, timeout=60) for _ in range(20)] for stub in stubs
        ]
        ended = [{call.code() for call in calls} for calls in codes]
        assert {code for found in ended for code in found} <= {
            grpc.StatusCode.OK,
            grpc.StatusCode.UNAVAILABLE,
        }
        untouched = sum(found == {grpc.StatusCode.OK} for found in ended)
        assert untouched >= 1
        assert len(opened) > WORKERS
        # A caller who connects again is served by the worker that is left or its successor.
        for stub in stubs:
            assert stub.CheckQueueAccess(request, timeout=60, wait_for_ready=True).allowed
