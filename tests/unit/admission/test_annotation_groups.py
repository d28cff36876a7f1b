"""Which groups are written into the annotation, and who is remembered to have had which."""

import random

from hypothesis import given
from hypothesis import strategies as st

from queuegate.policy.acl import AclNames
from queuegate.policy.names import is_group_name
from queuegate.policy.tree import Partition
from queuegate_server.admission.annotations.usable_groups import RecentGroups, UsableGroups
from queuegate_server.formats.diagnostics import has_errors
from queuegate_server.formats.yunikorn.load import load_queues
from tests.support.rows import rows, table

POLICY: str = table(__file__, "POLICY")


def partition(text: str = POLICY) -> Partition:
    names = AclNames.YUNIKORN
    partitions, diagnostics = load_queues(text.encode(), "q", lambda _: names, frozenset())
    assert not has_errors(diagnostics), diagnostics
    return partitions["default"]


@rows
def test_written_groups(groups: tuple[str, ...], written: tuple[str, ...] | None) -> None:
    """The groups that an ACL, a limit or a filter lists are written, in the directory's order."""
    selection = UsableGroups(partition()).select(groups)
    assert selection.groups == (groups if written is None else written)
    assert selection.refused == ()


def test_a_name_that_the_parser_refuses() -> None:
    """The scheduler would refuse the user because of it."""
    selection = UsableGroups(partition()).select(("1st", "Domain_Users", "dev", "2nd"))
    assert selection == (("Domain_Users", "dev"), ("1st",))


def test_five_hundred_groups() -> None:
    groups = [f"group-{number}" for number in range(500)]
    groups[200:200] = ["dev"]
    assert UsableGroups(partition()).select(groups).groups == ("dev",)


def test_a_pattern_that_was_not_checked() -> None:
    """It is too long to be compiled here, so any group may be one of its."""
    text = POLICY.replace("^ml-[a-z]+$", f"^({'x' * 10_001})$")
    selection = UsableGroups(partition(text)).select(("staff", "a b"))
    assert selection == (("staff",), ("a b",))


@given(st.lists(st.text(max_size=8) | st.sampled_from(["dev", "ml-a", "1st", "limited"])))
def test_the_parser_accepts_what_is_written(groups: list[str]) -> None:
    selection = UsableGroups(PARTITION).select(groups)
    assert all(map(is_group_name, selection.groups))
    assert not any(map(is_group_name, selection.refused))
    written = {*selection.groups}
    assert [*selection.groups] == [each for each in dict.fromkeys(groups) if each in written]


PARTITION = partition()


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def test_groups_are_remembered_for_one_lifetime() -> None:
    clock = Clock()
    recent = RecentGroups(clock)
    assert recent.find("bob") is None
    recent.add("bob", ("dev", "ops"), 300)
    clock.now = 200
    recent.add("bob", ("dev",), 300)
    assert recent.find("bob") == frozenset({("dev", "ops"), ("dev",)})
    assert recent.find("eve") is None
    clock.now = 300
    assert recent.find("bob") == frozenset({("dev",)})
    clock.now = 500
    assert recent.find("bob") is None


def test_a_user_without_groups_is_remembered() -> None:
    recent = RecentGroups(Clock())
    recent.add("bob", (), 300)
    assert recent.find("bob") == frozenset({()})


def test_the_memory_is_bounded() -> None:
    recent = RecentGroups(Clock(), max_users=3)
    for number in range(100):
        recent.add("bob", (f"group-{number}",), 300)
    assert recent.find("bob") == frozenset((f"group-{number}",) for number in range(96, 100))
    names = [f"user-{number}" for number in range(100)]
    random.Random(1).shuffle(names)
    for name in names:
        recent.add(name, ("dev",), 300)
    remembered = [name for name in (*names, "bob") if recent.find(name) is not None]
    assert remembered == names[-3:]
