"""The queues as a tree: levels, pages of them, search and badges."""

from collections import defaultdict
from types import MappingProxyType

from hypothesis import given
from hypothesis import strategies as st

from queuegate.policy.acl import parse
from queuegate.policy.decision import Access
from queuegate.policy.names import parent_path
from queuegate.policy.queue import QueueAcls
from queuegate.policy.tree import Partition, build_partition
from queuegate_server.console import tree
from tests.support.rows import rows


def partition(*paths: str, **acls: str) -> Partition:
    """Return a partition with these queues and those above them; `acls` are submit ACLs."""
    known = {"root": None}
    for path in paths:
        parts = path.split(".")
        for count in range(1, len(parts) + 1):
            known.setdefault(".".join(parts[:count]))
    texts = MappingProxyType({name.replace("__", "."): text for name, text in acls.items()})
    queues = [QueueAcls(path, parse(texts.get(path, "")), parse("")) for path in known]
    return build_partition("default", "", queues)


def shown(rows: list[tree.Row]) -> list[str]:
    return [
        f"{'  ' * row.depth}"
        + (row.path or (f"earlier in {row.earlier}" if row.earlier else f"later in {row.later}"))
        + ("/" if row.has_children else "")
        for row in rows
    ]


def test_open_levels() -> None:
    queues = partition("root.a.x.1", "root.a.y", "root.b.z", "root.a-b.c")
    assert shown([*tree.rows(queues, "root.a.x")]) == [
        "root/",
        "  root.a/",
        "    root.a.x/",
        "      root.a.x.1",
        "    root.a.y",
        "  root.a-b/",
        "  root.b/",
    ]


# Characters before and after the separator in the order of paths.
names = st.text("a-!~0", min_size=1, max_size=3)


@given(st.lists(st.lists(names, min_size=1, max_size=4).map(".".join), max_size=30))
def test_children_are_those_of_the_paths(below: list[str]) -> None:
    queues = partition(*(f"root.{path}" for path in below))
    expected = defaultdict(set)
    for path in queues.paths:
        if path != "root":
            expected[parent_path(path)].add(path)
    for path in queues.paths:
        found = [*tree.children(queues, path)]
        assert len(found) == len(set(found))
        assert set(found) == expected[path]
        assert tree.has_children(queues, path) is bool(expected[path])
        for index, start in enumerate(found):
            assert [*tree.children(queues, path, start)] == found[index:]


def test_a_level_with_many_children_is_paged() -> None:
    count = 3 * tree.LEVEL + 7
    queues = partition(*(f"root.q{number:05}.x" for number in range(count)))
    found: list[str] = []
    start = ""
    pages = 0
    while pages == 0 or start:
        page = tree.level(queues, "root", start)
        assert len(page.paths) <= tree.LEVEL
        assert page.has_earlier is bool(pages)
        found += page.paths
        start = page.following
        pages += 1
    assert pages == 4
    assert found == [*tree.children(queues, "root")]


def test_the_selected_queue_is_shown_however_many_siblings_it_has() -> None:
    queues = partition(*(f"root.q{number:05}.x" for number in range(1_000)))
    rows = [*tree.rows(queues, "root.q00777")]
    assert len(rows) <= tree.LEVEL + 5
    assert [row.path for row in rows if row.is_open] == ["root", "root.q00777"]
    assert rows[1].earlier == rows[-1].later == "root"
    assert rows[-1].start == f"root.q{777 + tree.LEVEL:05}"


def test_a_very_deep_queue() -> None:
    path = ".".join(["root", *["q"] * 1_500])
    queues = partition(path, *(f"root.q{number}" for number in range(100)))
    rows = [*tree.rows(queues, path)]
    assert sum(row.is_open for row in rows) == 1_501
    assert len(rows) < 1_501 + 2 * tree.MANY_LEVELS
    assert rows[-1].later == "root"


async def test_search_is_bounded_and_says_so() -> None:
    queues = partition(*(f"root.team{number}" for number in range(tree.MAX_MATCHES + 1)))
    assert await tree.search(queues, "TEAM42") == (["root.team42"], False)
    found, has_more = await tree.search(queues, "team")
    assert len(found) == tree.MAX_MATCHES
    assert has_more
    assert await tree.search(queues, "nothing") == ([], False)


@rows
def test_whether_a_queue_is_open_or_closed(acls: dict[str, str], expected: str) -> None:
    assert tree.openness(partition("root.a", **acls), "root.a", Access.SUBMIT) == expected
    assert tree.openness(partition("root.a", **acls), "root.a", Access.ADMIN) == "closed"
