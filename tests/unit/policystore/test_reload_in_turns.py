"""Only the first policy is parsed as fast as possible: beside later ones calls are answered."""

import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from queuegate_server.engine import Engine
from queuegate_server.policystore.reloader import Reloader
from queuegate_server.policystore.resolver_manager import ResolverManager
from queuegate_server.runtime import giving_way
from queuegate_server.settings.model import PolicySource, Settings

QUEUES = "partitions:\n  - name: default\n    queues:\n      - name: root\n        submitacl: {}\n"


async def test_a_policy_that_is_loaded_again_is_parsed_in_turns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    slept: list[float] = []
    clock = SimpleNamespace(monotonic=time.monotonic, sleep=slept.append)
    monkeypatch.setattr(giving_way, "time", clock)
    monkeypatch.setattr(giving_way, "_WORK", 0)
    file = tmp_path / "queues.yaml"
    settings = Settings(policy=PolicySource(path=file))
    engine = Engine(time.monotonic)
    sources = ResolverManager(settings, time.monotonic, time.time)
    reloader = Reloader(settings, sources, engine, time.time)
    file.write_text(QUEUES.format("alice"))
    await reloader.reload()
    assert engine.snapshot.policy.revision == 1
    assert not slept
    file.write_text(QUEUES.format("bob"))
    await reloader.reload()
    assert engine.snapshot.policy.revision == 2
    assert slept
    await sources.close()
