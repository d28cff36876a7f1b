"""The tables that the server compiles: the same bytes for the same policy, in steps."""

import os
import random
import subprocess
import sys

import pytest

from queuegate.gate.policy_tables import PolicyTables
from queuegate.policy.acl import parse
from queuegate.policy.decision import Access
from queuegate.policy.queue import QueueAcls
from queuegate.policy.tree import Partition, PartitionBuilder, build_partition
from queuegate.v1 import sync_pb2
from queuegate_server.engine import ServedPartition
from queuegate_server.sync import compiler
from queuegate_server.sync.compiler import ChainCompiler
from tests.support.compiled_policies import local_partition
from tests.support.generators.policies import policy_text, random_queues
from tests.support.snapshots import groups_named_as_users

DIGEST = """
import asyncio, sys
from queuegate_server.formats.registry import load_policy
from queuegate_server.engine import ServedPartition
from queuegate_server.sync import compiler
from tests.support.snapshots import groups_named_as_users
text = sys.stdin.buffer.read()
partition = load_policy("yunikorn", text, "queues.yaml").partitions["default"]
served = ServedPartition(partition, groups_named_as_users(), True)
shipped = asyncio.run(compiler._ship(served, 1))
parts = b"".join(part.SerializeToString(deterministic=True) for part in shipped.parts)
print(shipped.checksum.hex(), parts.hex())
"""
USERS = [f"user{number}" for number in range(40)]
GROUPS = ["g", "ops", "staff"]


def policy(seed: int) -> str:
    return policy_text({"default": ("", random_queues(random.Random(seed), 60, USERS, GROUPS))})


def test_equal_policies_have_equal_bytes_in_every_process() -> None:
    outputs = {
        subprocess.run(
            [sys.executable, "-c", DIGEST],
            input=policy(1).encode(),
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    [output] = outputs
    assert len(output) > 1_000


async def checksum(partition: Partition, *, trusts: bool = True) -> bytes:
    served = ServedPartition(partition, groups_named_as_users(), trusts)
    return (await compiler._ship(served, 1)).checksum


def tree(submit: str, admin: str = "") -> Partition:
    queues = [
        QueueAcls("root", parse("ops"), parse("")),
        QueueAcls("root.a", parse(submit), parse(admin)),
    ]
    return build_partition("default", "", queues)


async def test_what_decides_is_in_the_checksum() -> None:
    same = await checksum(tree("alice,bob staff"))
    assert await checksum(tree("bob,alice,bob staff")) == same
    others = [
        *(tree("alice staff"), tree("alice,bob"), tree("alice,staff bob"), tree("*")),
        *(tree("", "alice,bob staff"), tree("alice,bob,carol staff")),
    ]
    sums = {same, *[await checksum(each) for each in others]}
    sums.add(await checksum(tree("alice,bob staff"), trusts=False))
    assert len(sums) == 2 + len(others)


def test_a_list_of_very_many_names_takes_several_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiler, "_STEP_NAMES", 10)
    partition = tree(",".join(f"u{number}" for number in range(95)))
    steps = [*ChainCompiler(partition).steps()]
    assert max(len(rows.names) for rows in steps) <= 11
    assert len(steps) > 15
    gate = local_partition(partition)
    assert gate.chain("root.a", Access.SUBMIT).users == {f"u{number}" for number in range(95)}


def test_equal_lists_are_written_in_the_same_order_in_one_step_or_several(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    partition = tree(",".join(f"u{number}" for number in range(95)))

    def rows() -> sync_pb2.PolicyPart:
        part = sync_pb2.PolicyPart()
        for each in ChainCompiler(partition).steps():
            part.MergeFrom(each)
        return part

    whole = rows()
    monkeypatch.setattr(compiler, "_STEP_NAMES", 10)
    assert rows() == whole


async def test_a_large_policy_has_several_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiler, "_STEP_QUEUES", 50)
    monkeypatch.setattr(compiler, "MAX_PART_BYTES", 2_000)
    queues = [QueueAcls("root", parse(""), parse(""))]
    queues += [QueueAcls(f"root.q{each}", parse(f"u{each}"), parse("")) for each in range(500)]
    partition = build_partition("default", "", queues)
    served = ServedPartition(partition, groups_named_as_users(), True)
    shipped = await compiler._ship(served, 7)
    assert len(shipped.parts) > 3
    assert all(part.ByteSize() < 4_000 for part in shipped.parts)
    tables = PolicyTables()
    for part in shipped.parts:
        tables.add(part.policy)
    tables.finish()
    assert [*tables.queues] == [*partition.queues]
    assert [part.policy.first for part in shipped.parts].count(True) == 1
    assert shipped.parts[-1].policy.last
    assert not shipped.unchanged.policy.HasField("configured_queues")


def test_acls_are_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """A partition of very many queues would otherwise hold all of them, parsed."""
    parsed = 0

    def counting(text: str) -> object:
        nonlocal parsed
        parsed += 1
        return parse(text)

    monkeypatch.setattr("queuegate.policy.tree.yunikorn_grammar", lambda _: counting)
    builder = PartitionBuilder("default")
    builder.add([QueueAcls("root", "alice", "bob")])
    partition = builder.build()
    for _ in ChainCompiler(partition).steps():
        pass
    assert parsed == 2
    assert isinstance(partition.queues["root"]._submit_acl, str)
