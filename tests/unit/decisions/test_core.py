"""What decides is built, loads a policy and decides in a process that never imports gRPC."""

import subprocess
import sys
from pathlib import Path

_PROGRAM = """
import asyncio, sys
from queuegate.policy.decision import Access
from queuegate_server.reloads import ReloadCause
from queuegate_server.decisions.core import build_core
from queuegate_server.decisions.log import NUMBERS
from queuegate_server.engine import Query
from queuegate_server.settings.load import load_settings

async def decide():
    settings = load_settings(None, {}, [f"policy.path={sys.argv[1]}"])
    core = build_core(settings, settings)
    assert (await core.reloader.reload(ReloadCause.START)).succeeded
    served = core.engine.snapshot.find("")
    for user in ("alice", "bob"):
        query = Query(user, (), served, "root.a", Access.SUBMIT)
        verdict = core.engine.check(query) or await core.engine.resolve_and_check(query)
        core.decisions.count(bytes([NUMBERS[verdict.decision.reason]]), ())
    print([each for each in core.decisions.tallied() if each[2]])
    await core.resolvers.close()
    core.reloader.close()

asyncio.run(decide())
print(sorted(name for name in sys.modules if name.partition(".")[0] == "grpc"))
"""


def test_deciding_needs_no_grpc(tmp_path: Path) -> None:
    policy = tmp_path / "queues.yaml"
    policy.write_text("partitions: [{name: default, queues: [{name: root, submitacl: alice}]}]\n")
    outcome = subprocess.run(
        [sys.executable, "-c", _PROGRAM, str(policy)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert outcome.stdout.splitlines() == [
        "[('allowed', 'user', 1), ('denied', 'no_match', 1)]",
        "[]",
    ], outcome.stderr
