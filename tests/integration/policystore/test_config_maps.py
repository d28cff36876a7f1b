"""The service follows the scheduler's own ConfigMaps."""

from pathlib import Path

import queuegate
from tests.support.eventually import eventually
from tests.support.servers.queuegate_server import running_server
from tests.support.servers.webhook import MountedConfigMap

QUEUES = "partitions:\n  - name: default\n    queues:\n      - name: root\n        submitacl: {}\n"


def test_swaps_are_served(tmp_path: Path) -> None:
    defaults = MountedConfigMap(tmp_path, "yunikorn-defaults")
    configs = MountedConfigMap(tmp_path, "yunikorn-configs")
    defaults.write({"queues.yaml": QUEUES.format("alice")})
    folders = f"policy.defaults={defaults.folder}", f"policy.configs={configs.folder}"
    arguments = [part for folder in folders for part in ("--set", folder)]
    with (
        running_server(*arguments) as server,
        queuegate.Client(server.address, timeout=60) as client,
    ):

        def allowed() -> list[str]:
            return [user for user in ("alice", "bob", "carol") if client.check(user, "root.a")]

        assert allowed() == ["alice"]
        configs.write({"queues.yaml": QUEUES.format("bob")})
        eventually(allowed, ["bob"])
        configs.write({"queues.yaml": QUEUES.format("'a b c'")})
        server.wait_for_log("policy is not valid; the last good one stays in use")
        assert allowed() == ["bob"]
        configs.write({"service.policyGroup": "prod", "prod.yaml": QUEUES.format("carol")})
        eventually(allowed, ["carol"])
        configs.write({})
        eventually(allowed, ["alice"])
