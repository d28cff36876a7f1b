"""Queues that will be created: explanations, lists of users, comparisons and claims agree with the
decisions about them.
"""

import random
from collections.abc import Iterator
from typing import Final

import pytest

from queuegate.policy.claims import Only, Refutation, Uses, holds, refute
from queuegate.policy.decide import decide
from queuegate.policy.decision import Access
from queuegate.policy.difference import people, walk
from queuegate.policy.explain import explain
from queuegate.policy.reach import SubjectKind, effective_acl, grant_of, who_can
from queuegate.policy.tree import MAX_MISSING_PATHS, Partition
from queuegate.policy.worlds import OpenWorld, Subject
from queuegate.policy.yarn_acl import Semantics
from queuegate_server.formats.registry import FormatOptions, load_policy
from queuegate_server.formats.yarn.load import YarnOptions
from tests.support.generators.yarn_templates import PEOPLE, capacity_scheduler, questions

OPTIONS: Final = FormatOptions(yarn=YarnOptions(semantics=Semantics.HADOOP))
MEMBERS: Final = {
    group: frozenset(user for user, groups in PEOPLE if group in groups)
    for group in ("ops", "dev", "cem")
}
ROUNDS: Final = 60


def partition(chance: random.Random) -> Partition:
    text = capacity_scheduler(chance).encode()
    return load_policy("capacity-scheduler", text, "cs.xml", OPTIONS).partitions["default"]


def paths(chance: random.Random, *partitions: Partition) -> Iterator[str]:
    for each in partitions:
        yield from each.created_below("root")
    yield from (asked["queue"] for asked in questions(chance, 30))


def allows(of: Partition, path: str, access: Access, user: str, groups: list[str]) -> bool:
    decision = decide(of, path, access, user, groups)
    assert decision
    return decision.allowed


@pytest.mark.parametrize("seed", range(ROUNDS))
def test_explanations_and_lists_agree_with_decisions(seed: int) -> None:
    chance = random.Random(seed)
    created = partition(chance)
    for path in paths(chance, created):
        for access in Access:
            acl = effective_acl(created, path, access)
            listed = who_can(acl, MEMBERS)
            for user, groups in PEOPLE:
                decision = decide(created, path, access, user, groups)
                assert decision
                assert acl.allows(user, groups) is decision.allowed
                assert (bool(listed.everyone) or user in listed.users) is decision.allowed
                explanation = explain(created, path, access, user, groups)
                assert explanation.decision == decision
                if decision.allowed:
                    step = explanation.steps[-1]
                    grant = grant_of(created, path, access, decision, user)
                    assert (step.queue, step.kind) == (grant.queue, grant.acl)
                    assert step.queue in {queue.path for queue in created.upwards(path)}


def _texts(of: Partition, path: str) -> list[tuple[str, str]]:
    return [queue.acl_texts for queue in of.upwards(path)]


@pytest.mark.parametrize("seed", range(ROUNDS))
def test_a_few_paths_stand_for_all(seed: int) -> None:
    chance = random.Random(seed)
    old, new = partition(chance), partition(chance)
    known = [(_texts(old, each), _texts(new, each)) for each in paths_of_both(old, new)]
    for asked in questions(chance, 40):
        path = asked["queue"]
        if old.created(path) or new.created(path):
            assert (_texts(old, path), _texts(new, path)) in known, path


def paths_of_both(old: Partition, new: Partition) -> list[str]:
    return sorted({*old.created_below("root"), *new.created_below("root"), *old.paths})


@pytest.mark.parametrize("seed", range(ROUNDS))
def test_a_comparison_is_that_of_all_decisions(seed: int) -> None:
    chance = random.Random(seed)
    old, new = partition(chance), partition(chance)
    for access in Access:
        found = {each.queue: each for each in walk(old, new, access, people(MEMBERS))}
        for path in paths_of_both(old, new):
            for user, groups in PEOPLE:
                before, now = (allows(each, path, access, user, groups) for each in (old, new))
                difference = found.get(path)
                gained = difference is not None and user in difference.gained
                lost = difference is not None and user in difference.lost
                assert gained is (now and not before), (path, access, user)
                assert lost is (before and not now), (path, access, user)


@pytest.mark.parametrize("seed", range(ROUNDS))
def test_a_claim_covers_the_queues_below_that_will_be_created(seed: int) -> None:
    chance = random.Random(seed)
    created = partition(chance)
    outcomes = set()
    for asked in questions(chance, 6):
        start = ".".join(asked["queue"].split(".")[:2])
        for queue in ("root", start, asked["queue"]):
            excused = frozenset(
                Subject(SubjectKind.USER, user) for user in ("ann", "bob", "eve", "cem")
            ) | {Subject(SubjectKind.GROUP, name) for name in ("dev", "dev,ops", "ops")}
            claim = Only(
                excused - {chance.choice(sorted(excused))}, Uses(Access.SUBMIT, queue, True)
            )
            refutation = refute(created, claim, OpenWorld())
            outcomes.add(type(refutation))
            checked = [queue, *created.created_below(queue)]
            checked += [each for each in created.paths if each.startswith(f"{queue}.")]
            if refutation:
                (answer,) = refutation.answers
                assert holds(created, answer, refutation.person)
                continue
            for path in checked:
                acl = effective_acl(created, path, Access.SUBMIT)
                assert acl.open_by is None
                users = {Subject(SubjectKind.USER, user) for user in acl.users}
                groups = {Subject(SubjectKind.GROUP, group) for group in acl.groups}
                assert users | groups <= claim.subjects
    assert outcomes <= {Refutation, type(None)}


def test_chains_of_many_paths_share_their_names_and_are_bounded() -> None:
    names = ",".join(f"user{number}" for number in range(1_000))
    text = f"""<configuration>
    <property><name>yarn.scheduler.capacity.root.queues</name><value>m</value></property>
    <property><name>yarn.scheduler.capacity.root.m.auto-create-child-queue.enabled</name>
    <value>true</value></property>
    <property><name>yarn.scheduler.capacity.root.m.leaf-queue-template.acl_submit_applications</name>
    <value>{names}</value></property>
    <property><name>yarn.scheduler.capacity.root.m.leaf-queue-template.acl_administer_queue</name>
    <value>boss</value></property>
    </configuration>"""
    loaded = load_policy("capacity-scheduler", text.encode(), "cs.xml").partitions["default"]
    first, second = (loaded.chain(f"root.m.{name}", Access.SUBMIT) for name in "xy")
    assert first.users is second.users
    assert len(first.users) == 1_000
    for number in range(MAX_MISSING_PATHS + 100):
        assert allows(loaded, f"root.m.{number}", Access.SUBMIT, "boss", [])
    assert len(loaded.parts()) < MAX_MISSING_PATHS + 100
