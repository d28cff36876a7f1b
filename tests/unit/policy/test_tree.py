"""Partitions that are built in parts."""

import pytest

from queuegate.policy.acl import EMPTY, Acl, AclError, parse
from queuegate.policy.decide import decide, evaluated_instead
from queuegate.policy.decision import Access, Reason
from queuegate.policy.queue import QueueAcls
from queuegate.policy.tree import PartitionBuilder
from queuegate.policy.yarn_acl import Cluster, Semantics

QUEUES = [
    QueueAcls("root", "", ""),
    QueueAcls("root.b", "alice dev", EMPTY),
    QueueAcls("root.b.c", "", parse("bob")),
    QueueAcls("root.a", "alice dev", ""),
]


def test_parts_make_the_same_partition_as_the_whole() -> None:
    builder = PartitionBuilder("default", "ldap", resolver_place=(3, 5))
    for queue in QUEUES:
        builder.add([queue])
    partition = builder.build()
    assert [*partition.queues] == ["root", "root.b", "root.b.c", "root.a"]
    assert partition.paths == ("root", "root.a", "root.b", "root.b.c")
    assert (partition.name, partition.resolver_type) == ("default", "ldap")
    assert (partition.depth, partition.resolver_place) == (3, (3, 5))
    decision = decide(partition, "root.b.c.new", Access.SUBMIT, "eve", ["dev"])
    assert decision == (True, Reason.GROUP, "root.b", "dev")


def test_paths_may_be_added_in_their_order() -> None:
    builder = PartitionBuilder("default")
    builder.add(QUEUES)
    builder.add_sorted_paths(["root", "root.a"])
    builder.add_sorted_paths(["root.b", "root.b.c"])
    assert builder.build().paths == ("root", "root.a", "root.b", "root.b.c")


def test_long_texts_are_parsed_beforehand(monkeypatch: pytest.MonkeyPatch) -> None:
    long = ",".join(f"user{number}" for number in range(10_000))
    texts: list[str] = []

    def spy(text: str) -> Acl:
        texts.append(text)
        return parse(text)

    monkeypatch.setattr("queuegate.policy.tree.yunikorn_grammar", lambda _: spy)
    builder = PartitionBuilder("default")
    builder.add([*QUEUES, QueueAcls("root.long", "", long)])
    partition = builder.build()
    partition.parse_long_acls()
    assert texts == ["", long]
    assert len(partition.queues["root.long"].admin_acl.users) == 10_000
    assert texts == ["", long]


def test_equal_texts_are_one_acl_that_is_parsed_when_needed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    texts: list[str] = []

    def parse_acl(text: str) -> Acl:
        texts.append(text)
        return parse(text)

    monkeypatch.setattr("queuegate.policy.tree.yunikorn_grammar", lambda _: parse_acl)
    builder = PartitionBuilder("default")
    builder.add(QUEUES)
    queues = builder.build().queues
    assert texts == []
    assert queues["root.a"].submit_acl is queues["root.b"].submit_acl
    assert texts == ["alice dev"]


def test_a_partition_without_queues_has_a_root() -> None:
    assert PartitionBuilder("default").build().paths == ("root",)


def test_a_root_is_added_above_the_first_queue() -> None:
    builder = PartitionBuilder("default")
    builder.add([QueueAcls("root.a", "alice", "")])
    assert [*builder.build().queues] == ["root", "root.a"]


def test_a_queue_comes_after_its_parent() -> None:
    builder = PartitionBuilder("default")
    with pytest.raises(ValueError, match="after its parent"):
        builder.add([QueueAcls("root.a.b", "alice", "")])


def test_short_names_do_not_depend_on_the_order() -> None:
    cluster = Cluster(Semantics.DOCUMENTED, EMPTY, has_short_names=True)
    paths = ["root", "root.b", "root.b.x", "root.a", "root.a.x", "root.a.y"]
    builder = PartitionBuilder("default", cluster=cluster)
    builder.add([QueueAcls(path, "", "") for path in paths])
    assert builder.build().short_names == {
        "a": "root.a",
        "b": "root.b",
        "x": "x",
        "y": "root.a.y",
    }


def test_an_acl_that_the_parser_refuses_is_refused_when_needed() -> None:
    builder = PartitionBuilder("default")
    builder.add([QueueAcls("root", "a b c", "")])
    with pytest.raises(AclError):
        _ = builder.build().queues["root"].submit_acl


@pytest.mark.parametrize("access", Access)
@pytest.mark.parametrize("acls_enabled", [True, False])
def test_a_short_name_of_several_queues_is_a_queue_without_acls(
    access: Access, acls_enabled: bool
) -> None:
    cluster = Cluster(
        Semantics.HADOOP,
        EMPTY,
        acls_enabled=acls_enabled,
        checks_submission_always=True,
        has_short_names=True,
    )
    builder = PartitionBuilder("default", cluster=cluster)
    builder.add([QueueAcls(path, "*", "*") for path in ("root", "root.a", "root.a.x", "root.x")])
    partition = builder.build()
    decision = decide(partition, "x", access, "alice", [])
    assert decision is not None
    assert decision.allowed is not acls_enabled
    assert evaluated_instead(partition, "x", decision) == ""
