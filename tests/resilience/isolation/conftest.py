"""A server for a module's floods, and a neighbour who asks it."""

from collections.abc import Iterator

import pytest

from tests.resilience.isolation.promise import Observation, observed
from tests.support.servers.queuegate_server import ADMIN, running_server

QUEUES = 50_000


@pytest.fixture(scope="module")
def beside(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Observation]:
    policy = tmp_path_factory.mktemp("policy") / "queues.yaml"
    policy.write_text(policy_of(QUEUES))
    with running_server("--policy", str(policy), *ADMIN) as server, observed(server) as found:
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
