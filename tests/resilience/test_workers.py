"""One of several workers hangs without ending."""

from pathlib import Path

from tests.resilience.invariants import Record, under_load
from tests.support.eventually import eventually
from tests.support.servers import with_constants
from tests.support.servers.admin_port import LISTEN, get_json, ops_address, value
from tests.support.servers.processes import freeze
from tests.support.servers.workers import WORKERS, pids, several_workers, wait_for_replacement


def test_sigstop_of_a_worker(policy_file: Path, record: Record) -> None:
    """It is killed and replaced; the calls that it had are tried again."""
    hasty = with_constants.environment({"supervisor.supervisor.WORKER_TIMEOUT_SECONDS": 2})
    with (
        several_workers("--policy", str(policy_file), *LISTEN, environment=hasty) as server,
        under_load(server, record) as fault,
    ):
        ops = ops_address(server)
        hanging = pids(server)[1]
        freeze(hanging)
        event = "a worker is not responding and will be killed"

        def killed() -> list[tuple[int, int, float]]:
            """Return who was killed: the other one, too, if the machine did not let it answer."""
            logs = [entry for entry in server.logs if entry["event"] == event]
            return [(entry["index"], entry["pid"], entry["seconds"]) for entry in logs]

        eventually(lambda: (1, hanging, 2) in killed(), expected=True)
        with fault.expected_to_serve():
            pass
        wait_for_replacement(server, 1, hanging)
        eventually(lambda: get_json(ops, "/readyz")[1]["serving"], WORKERS)
        assert value(ops, "queuegate_workers_replaced_total", "silent") >= 1
    assert set(fault.outcomes) <= {"answered", "ServerUnavailable", "DeadlineExceeded"}
