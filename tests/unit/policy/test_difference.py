"""Differences of policies: against all pairs of users and queues, on random policies."""

from functools import partial
from itertools import chain, combinations

from hypothesis import given
from hypothesis import strategies as st

from queuegate.policy.acl import parse
from queuegate.policy.decide import decide
from queuegate.policy.decision import Access
from queuegate.policy.difference import Selection, compare, people, walk
from queuegate.policy.names import parent_path
from queuegate.policy.queue import QueueAcls
from queuegate.policy.tree import Partition, build_partition
from tests.support.generators.partitions import ACCESS, yarn_partitions, yunikorn_partitions

PAIRS = st.one_of(
    st.tuples(yunikorn_partitions(), yunikorn_partitions()),
    st.tuples(yarn_partitions(), yarn_partitions()),
)
GROUPS = ("dev", "ops", "qa", "g.h")
DIRECTORY = {
    f"{name}{number}": groups
    for number, groups in enumerate(
        chain.from_iterable(combinations(GROUPS, size) for size in range(3))
    )
    for name in ("p", "q")
} | {"ann": ("dev",), "bob": (), "cem": ("qa", "ops")}
MEMBERS = {
    group: frozenset(user for user, groups in DIRECTORY.items() if group in groups)
    for group in GROUPS
}


def is_allowed(
    partition: Partition,
    path: str,
    access: Access,
    user: str,
    groups: tuple[str, ...] = (),
    real_user: str = "",
) -> bool:
    decision = decide(partition, path, access, user, groups, real_user=real_user)
    assert decision is not None
    return decision.allowed


@given(PAIRS, ACCESS)
def test_by_people_equals_all_pairs(pair: tuple[Partition, Partition], access: Access) -> None:
    old, new = pair
    found = {each.queue: each for each in walk(old, new, access, people(MEMBERS))}
    for path in {*old.queues, *new.queues}:
        before, after = (
            {
                user
                for user, groups in DIRECTORY.items()
                if is_allowed(each, path, access, user, groups)
            }
            for each in pair
        )
        gained = found[path].gained if path in found else Selection()
        lost = found[path].lost if path in found else Selection()
        assert {user for user in DIRECTORY if user in gained} == after - before
        assert {user for user in DIRECTORY if user in lost} == before - after


@given(PAIRS, ACCESS)
def test_by_name_equals_what_one_name_opens(
    pair: tuple[Partition, Partition], access: Access
) -> None:
    old, new = pair
    found = {each.queue: each for each in walk(old, new, access)}
    questions = {
        **{f"user:{name}": partial(is_allowed, user=name) for name in ("ann", "bob", "x:y", "new")},
        **{f"group:{name}": partial(is_allowed, user="new", groups=(name,)) for name in GROUPS},
        **{
            f"proxy:{name}": partial(is_allowed, user="new", real_user=name)
            for name in ("svc", "hue")
        },
    }
    for path in {*old.queues, *new.queues}:
        for name, ask in questions.items():
            before, after = ask(old, path, access), ask(new, path, access)
            assert (path in found and name in found[path].gained) is (after and not before)
            assert (path in found and name in found[path].lost) is (before and not after)


@given(PAIRS, ACCESS, st.booleans())
def test_each_change_is_reported_where_it_starts(
    pair: tuple[Partition, Partition], access: Access, by_people: bool
) -> None:
    expand = [people(MEMBERS)] if by_people else []
    queues = {each.queue: each for each in walk(*pair, access, *expand)}
    differences = {each.queue: each for each in compare(*pair, access, *expand)}
    names = [*DIRECTORY, *(f"group:{group}" for group in GROUPS), "user:ann", "user:new"]
    for path, queue in queues.items():
        above = queues.get(parent_path(path))
        starting = differences.get(path)
        for name in names:
            for kind in ("gained", "lost"):
                found = name in getattr(queue, kind)
                is_new = found and not (above and name in getattr(above, kind))
                is_reported = starting is not None and name in getattr(starting, kind)
                assert is_reported >= is_new
                assert is_reported <= found
    for each in differences.values():
        below = [path for path in queues if path.startswith(f"{each.queue}.")]
        assert each.below + each.partly_below <= len(below)


def build(**acls: str) -> Partition:
    queues = [
        QueueAcls(path.replace("_", "."), parse(text), parse("")) for path, text in acls.items()
    ]
    return build_partition("default", "", queues)


def test_queues_below_are_counted() -> None:
    old = build(root="", root_a="sue", root_b="", root_b_c="", root_d="*")
    new = build(root="sue dev", root_a="sue", root_b="eve", root_b_c="", root_d="*")
    first, second = compare(old, new, Access.SUBMIT)
    assert (first.queue, first.gained, first.below, first.partly_below) == (
        "root",
        Selection(frozenset({"user:sue", "group:dev"})),
        2,
        1,
    )
    assert (second.queue, second.gained.names, second.below) == (
        "root.b",
        frozenset({"user:eve"}),
        1,
    )
    assert first.lost.is_empty
    assert second.lost.is_empty
    assert compare(new, new, Access.SUBMIT) == []


def test_a_queue_that_closes() -> None:
    old, new = (
        build(root="*", root_a="", root_a_b=""),
        build(root="sue", root_a=" dev", root_a_b=""),
    )
    (only,) = compare(old, new, Access.SUBMIT)
    assert (only.queue, only.lost) == ("root", Selection(frozenset({"user:sue"}), everyone=True))
    assert (only.below, only.partly_below) == (0, 2)
