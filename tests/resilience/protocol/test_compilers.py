"""Faults in the compiler of chains do not stay unnoticed."""

import random
from collections.abc import Iterator
from functools import cache

import pytest

from queuegate.policy.tree import Partition
from queuegate.policy.yarn_acl import Semantics
from queuegate_server.formats.registry import FormatOptions, load_policy
from queuegate_server.formats.yarn.load import YarnOptions
from queuegate_server.sync.compiler import ChainCompiler
from tests.resilience.protocol.planted_compilers import PLANTED_COMPILERS
from tests.support.compiled_policies import local_partition
from tests.support.gate_differences import askers, differences
from tests.support.generators import yarn_templates
from tests.support.generators.yarn import random_cluster

PEOPLE = askers(*yarn_templates.PEOPLE, ("bob", ["g"]), ("eve", ["ops"]), ("zed", ["g", "u"]))
OPTIONS = FormatOptions(yarn=YarnOptions(semantics=Semantics.HADOOP))


@cache
def worlds() -> tuple[tuple[Partition, list[str]], ...]:
    """Return partitions, each with paths to ask about."""
    return (*_clusters(), *_creating())


def _clusters() -> Iterator[tuple[Partition, list[str]]]:
    for seed in range(4):
        cluster = random_cluster(random.Random(seed), "fair-scheduler", "hadoop")
        loaded = load_policy("fair-scheduler", cluster.xml().encode(), "fair.xml", OPTIONS)
        partition = loaded.partitions["default"]
        yield partition, [*partition.paths]


def _creating() -> Iterator[tuple[Partition, list[str]]]:
    for seed in range(12):
        chance = random.Random(seed)
        text = yarn_templates.capacity_scheduler(chance).encode()
        partition = load_policy("capacity-scheduler", text, "cs.xml", OPTIONS).partitions["default"]
        asked = {each["queue"] for each in yarn_templates.questions(chance, 30)}
        yield partition, sorted({*partition.paths, *asked})


def is_found(compiler: type[ChainCompiler]) -> bool:
    """Return whether a gate refuses what a compiler has written, or decides differently."""
    for partition, paths in worlds():
        try:
            gate = local_partition(partition, compiler)
        except ValueError:
            return True
        if differences(partition, gate, paths, PEOPLE)[1]:
            return True
    return False


def test_without_a_fault_there_is_no_difference() -> None:
    assert not is_found(ChainCompiler)


@pytest.mark.parametrize("compiler", PLANTED_COMPILERS, ids=lambda each: each.__name__)
def test_a_planted_fault_is_found(compiler: type[ChainCompiler]) -> None:
    assert is_found(compiler)
