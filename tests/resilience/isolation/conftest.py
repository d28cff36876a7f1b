"""A server for a module's floods, and a neighbour who asks it."""

from collections.abc import Iterator

import pytest

from tests.resilience.isolation.promise import Observation, observed
from tests.support.servers.queuegate_server import ADMIN, running_server

QUEUES = 50_000


@pytest.fixture(scope="module", params=["grpcio", "native"])
def beside(
    tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Iterator[Observation]:
    """Observe a server over each transport."""
    policy = tmp_path_factory.mktemp("policy") / "queues.yaml"
    policy.write_text(policy_of(QUEUES))
    arguments = ("--policy", str(policy), "--set", f"transport={request.param}", *ADMIN)
    with running_server(*arguments) as server, observed(server) as found:
        assert server.wait_for_log("transport")["transport"] == request.param
        yield found


def policy_of(queues: int) -> str:
    """Return a policy with a queue for everyone, one for some, and many more."""
    leaves = "".join(f"          - name: q{number}\n" for number in range(queues))
    return (
        "partitions:\n"
        "  - name: default\n"
        "    queues:\n"
        "      - name: root\n"
        "        queues:\n"
        '          - {name: open, submitacl: "*"}\n'
        '          - {name: sandbox, submitacl: "alice sandboxers"}\n'
        f"{leaves}"
    )
