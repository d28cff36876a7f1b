"""From YARN's files to a queues.yaml: the same access, or a report of what is lost."""

from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from queuegate.policy.acl import AclNames
from queuegate.policy.decide import decide
from queuegate.policy.decision import Access
from queuegate.policy.tree import Partition
from queuegate.policy.yarn_acl import Semantics
from queuegate_server.formats.diagnostics import has_errors
from queuegate_server.formats.registry import FormatOptions, load_policy
from queuegate_server.formats.yarn import convert as module
from queuegate_server.formats.yarn.convert import Conversion, convert
from queuegate_server.formats.yarn.load import YarnOptions
from tests.support.generators.yarn_files import by_path, capacity_xml, fair_xml, site

FAIR, CAPACITY = "fair-scheduler", "capacity-scheduler"
USERS = ["bob", "carol", "eve", "a.b@x", "d d", "9", "*", "~bob", "yes", "svc:x"]
GROUPS = ["g", "h", "g h", "g.1", "*", "bob", "null"]
NAMES = st.sampled_from(
    ["a", "b", "c", "d", "null", "q-1", "x#y"] * 3 + ["A", "é", "q q", "@recovery@"]
)
PLAIN = [" ", "bob", " g", "bob g", "carol,bob h", "yes null", " ", "a.b@x"]
ACLS = st.sampled_from(
    [
        *PLAIN * 4,
        "*",
        "bob g h",
        "u,9",
        " *",
        "~bob",
        "g  g",
        "\n bob",
        "d d g",
        "*,a",
        " g.1",
        "b *",
    ]
)
QUEUES: st.SearchStrategy[Any] = st.recursive(
    st.tuples(NAMES, ACLS, ACLS, st.just([])),
    lambda below: st.tuples(NAMES, ACLS, ACLS, st.lists(below, max_size=3)),
    max_leaves=10,
)


def converted(format_name: str, text: str, options: YarnOptions, names: AclNames) -> Conversion:
    result = convert(format_name, text.encode(), "f.xml", options, names)
    assert not has_errors(result.diagnostics)
    return result


def loaded(result: Conversion, names: AclNames) -> Partition:
    found = load_policy(
        "yunikorn", result.text.encode(), "queues.yaml", FormatOptions(acl_names=names)
    )
    assert found.diagnostics == (), (found.diagnostics, result.text)
    return found.partitions["default"]


def granted(
    partition: Partition, path: str, access: Access, user: str, groups: Iterable[str]
) -> bool:
    spelled = partition.canonical_path(path)
    if spelled is None:  # such a request is refused
        return False
    decision = decide(partition, spelled, access, user, list(groups))
    assert decision is not None
    return decision.allowed


@settings(max_examples=150)
@given(
    st.lists(QUEUES, min_size=1, max_size=3),
    st.tuples(ACLS, ACLS),
    st.one_of(st.none(), st.tuples(st.sampled_from(["true"] * 4 + ["false"]), ACLS)),
    st.sampled_from(Semantics),
    st.sampled_from(AclNames),
    st.lists(st.sampled_from(GROUPS), max_size=2),
)
def test_both_sides_decide_alike_without_a_warning(
    queues: list[tuple],  # type: ignore[type-arg]
    root: tuple[str, str],
    stated_site: tuple[str, str] | None,
    semantics: Semantics,
    names: AclNames,
    groups: list[str],
) -> None:
    stated = {"root": root} | by_path(queues, "root")
    options = YarnOptions(semantics=semantics)
    if stated_site:
        enabled, admins = stated_site
        options = YarnOptions(semantics=semantics, site=site(enabled=enabled, admins=admins))
    fair = f"<allocations>{fair_xml([('root', *root, queues)], 'queue')}</allocations>"
    for format_name, text in ((FAIR, fair), (CAPACITY, capacity_xml(stated))):
        result = converted(format_name, text, options, names)
        before = load_policy(format_name, text.encode(), "f.xml", FormatOptions(yarn=options))
        yarn, yunikorn = before.partitions["default"], loaded(result, names)
        lost = {diagnostic.queue for diagnostic in result.lost}
        assert all(diagnostic.message and diagnostic.remedy for diagnostic in result.lost)
        event("exact" if not lost else "not all can be expressed")
        for path in (*yarn.queues, *(f"{path}.nosuch.x" for path in yarn.queues)):
            is_lost = any(path == queue or path.startswith(f"{queue}.") for queue in lost)
            for access in Access:
                for user in USERS:
                    old = granted(yarn, path, access, user, groups)
                    new = granted(yunikorn, path, access, user, groups)
                    # Never more than before, reported or not.
                    assert old or not new, (path, access, user, result.text)
                    assert is_lost or new == old, (path, access, user, result.text)


CLOSED = "<aclSubmitApps> </aclSubmitApps><aclAdministerApps> </aclAdministerApps>"


def in_root(queues: str, acls: str = CLOSED) -> str:
    return f"<allocations><queue name='root'>{acls}{queues}</queue></allocations>"


def queue(name: str, submit: str = " ", below: str = "") -> str:
    return f"<queue name='{name}'><aclSubmitApps>{submit}</aclSubmitApps>{below}</queue>"


@pytest.mark.parametrize(
    ("queues", "expected"),
    [
        (queue("a", "bob g"), []),
        (queue("a", "9,bob g.1"), [("root.a", "drops these names from the submit ACL")]),
        (
            queue("a", "bob", queue("x")) + queue("A", "eve"),
            [
                ("root.a", "differs from a sibling only in case"),
                ("root.A", "differs from a sibling only in case"),
            ],
        ),
        (queue("q q", "bob", queue("x")), [("root.q q", "is not a queue name in YuniKorn")]),
        (queue("é"), [("root.é", "is not a queue name in YuniKorn")]),
        (queue("@Recovery@", "bob"), [("root.@Recovery@", "the recovery queue")]),
        (queue("k") + queue("\u212a"), [("root.\u212a", "is not a queue name")]),
        (queue("a", "bob g h"), []),
    ],
)
def test_losses_are_reported_with_queue_and_position(
    queues: str, expected: list[tuple[str, str]]
) -> None:
    result = converted(FAIR, in_root(queues), YarnOptions(), AclNames.YUNIKORN)
    assert [diagnostic.queue for diagnostic in result.lost] == [path for path, _ in expected]
    for diagnostic, (_, words) in zip(result.lost, expected, strict=True):
        assert words in diagnostic.message
        assert (diagnostic.file, diagnostic.line) == ("f.xml", 1)
        assert diagnostic.column > 1
        assert diagnostic.remedy
    loaded(result, AclNames.YUNIKORN)


def test_proxies_and_disabled_acls_of_hadoop() -> None:
    text = in_root(queue("a", "~knox,bob"))
    hadoop = YarnOptions(semantics=Semantics.HADOOP)
    (diagnostic,) = converted(FAIR, text, hadoop, AclNames.YUNIKORN).lost
    assert 'no proxies, but the submit ACL of root.a lists "~knox"' in diagnostic.message
    off = YarnOptions(semantics=Semantics.HADOOP, site=site(enabled="false"))
    result = converted(FAIR, in_root(queue("a", "bob")), off, AclNames.YUNIKORN)
    assert "the fair scheduler still checks" in result.lost[0].message
    assert "submitacl: 'bob'" in result.text
    capacity = capacity_xml({"root": (" ", " "), "root.a": ("bob", " ")})
    result = converted(CAPACITY, capacity, off, AclNames.YUNIKORN)
    assert result.lost == ()
    assert result.text.count("'*'") == 2
    assert "ACLs are disabled" in result.remarks[0]


def test_administrators_of_the_cluster_administer_the_root() -> None:
    options = YarnOptions(site=site(admins="bob ops"), daemon_user="yarn")
    result = converted(FAIR, in_root(queue("a")), options, AclNames.YUNIKORN)
    assert "adminacl: 'bob,yarn ops'" in result.text
    assert result.lost == ()
    assert "yarn.admin.acl is part of the admin ACL of root" in result.remarks[0]
    hadoop = YarnOptions(semantics=Semantics.HADOOP, site=site(admins="bob"))
    result = converted(FAIR, in_root(queue("a")), hadoop, AclNames.YUNIKORN)
    assert "bob" not in result.text
    assert "in Hadoop it grants no queue access" in result.remarks[0]


def test_an_open_root_becomes_a_wildcard() -> None:
    hadoop = YarnOptions(semantics=Semantics.HADOOP)
    result = converted(FAIR, "<allocations/>", hadoop, AclNames.YUNIKORN)
    assert "submitacl: '*'" in result.text
    assert "adminacl: '*'" in result.text
    assert result.lost == ()
    assert len(result.remarks) == 2


def test_queues_that_are_too_deep_are_left_out() -> None:
    text = queue("a", "bob")
    for _ in range(110):
        text = queue("a", " ", text)
    result = converted(FAIR, in_root(text), YarnOptions(), AclNames.YUNIKORN)
    (diagnostic,) = result.lost
    assert "more than 96 levels deep" in diagnostic.message
    assert len(loaded(result, AclNames.YUNIKORN).queues) == 96


def test_a_result_that_is_too_large_is_not_written(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_BYTES", 100)
    result = convert(FAIR, in_root(queue("a", "bob")).encode(), "f.xml", YarnOptions())
    assert result.text == ""
    assert result.diagnostics[-1].message == "the queues.yaml would be larger than 100 bytes"


def test_a_file_that_does_not_load_is_not_converted() -> None:
    result = convert(FAIR, b"<allocations><queue/></allocations>", "f.xml", YarnOptions())
    assert result.text == ""
    assert has_errors(result.diagnostics)


def test_a_parent_of_the_fair_scheduler_stays_a_parent() -> None:
    data = b"""<allocations><queue name="root">
<queue name="users" type="parent"/><queue name="etl" type="leaf"/>
<queue name="prod" type="parent"><queue name="daily"/></queue>
</queue></allocations>"""
    text = convert("fair-scheduler", data, "fs.xml", YarnOptions()).text
    assert "- name: 'users'\n            parent: true\n" in text
    assert text.count("parent:") == 1
