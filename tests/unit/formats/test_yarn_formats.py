"""The files of YARN's schedulers: faults with their places, traps, and random trees."""

from typing import Any
from xml.sax.saxutils import escape, quoteattr

import pytest
from hypothesis import given
from hypothesis import strategies as st

from queuegate_server.formats.files import check_file
from queuegate_server.formats.lint import lint
from queuegate_server.formats.problems import Severity
from queuegate_server.formats.registry import detect_format, load_policy
from queuegate_server.formats.xml_tree import MAX_DEPTH
from queuegate_server.formats.yaml_text import MAX_BYTES
from queuegate_server.formats.yarn.model import YarnOptions
from queuegate_server.policy.decide import decide
from queuegate_server.policy.explain import StepOutcome, explain
from queuegate_server.policy.tree import Access, Reason
from queuegate_server.policy.yarn_acl import Semantics
from tests import naive_yarn

FAIR, CAPACITY = "fair-scheduler", "capacity-scheduler"
CLOSED = "<aclSubmitApps> </aclSubmitApps><aclAdministerApps> </aclAdministerApps>"


END = "</queue></queue>"


def prop(name: str, value: str, more: str = "") -> str:
    return f"<property><name>{name}</name><value>{value}</value>{more}</property>"


def site(*, enabled: str = "true", admins: str = " ") -> tuple[bytes, str]:
    text = prop("yarn.acl.enable", enabled) + prop("yarn.admin.acl", escape(admins))
    return f"<configuration>{text}</configuration>".encode(), "yarn-site.xml"


@pytest.mark.parametrize(
    ("format_name", "text", "line", "column", "words"),
    [
        (FAIR, "<configuration/>", 1, 1, "not <allocations>"),
        (CAPACITY, "<allocations/>", 1, 1, "not <configuration>"),
        (FAIR, "<allocations>\n <queue>", 2, 9, "not valid XML: no element found"),
        (FAIR, "", 1, 1, "no element found"),
        (FAIR, "<allocations>\n é<queue name='a.b'/></allocations>", 2, 3, "has a dot"),
        (FAIR, "<allocations><queue/></allocations>", 1, 14, "has no name"),
        (FAIR, "<allocations><queue name='\u00a0'/></allocations>", 1, 14, "has no name"),
        (FAIR, "<allocations><queue name='Root'/></allocations>", 1, 14, 'is spelled "Root"'),
        (
            FAIR,
            "<allocations><queue name='a'><aclSubmitApps/></queue></allocations>",
            1,
            30,
            "is empty",
        ),
        (
            FAIR,
            '<!DOCTYPE a [<!ENTITY x "y">]>\n<allocations>&x;</allocations>',
            1,
            None,
            "DOCTYPE",
        ),
        (
            CAPACITY,
            "<!DOCTYPE c SYSTEM 'file:///etc/passwd'><configuration/>",
            1,
            None,
            "DOCTYPE",
        ),
        (
            CAPACITY,
            "<configuration>\n<xi:include href='/etc/passwd'/></configuration>",
            2,
            1,
            "included files are not read",
        ),
        (
            CAPACITY,
            f"<configuration>{prop('yarn.scheduler.capacity.root.queues', 'a,,b')}</configuration>",
            1,
            74,
            "a name is empty",
        ),
        (FAIR, '<?xml version="1.0" encoding="klingon"?><allocations/>', 1, None, "encoding"),
    ],
)
def test_faults_have_a_place_and_a_remedy(
    format_name: str, text: str, line: int, column: int | None, words: str
) -> None:
    loaded = load_policy(format_name, text.encode(), "scheduler.xml")
    assert not loaded.partitions
    problem = next(problem for problem in loaded.problems if problem.severity is Severity.ERROR)
    assert words in problem.message
    assert (problem.file, problem.line) == ("scheduler.xml", line)
    assert problem.column == (column or problem.column) > 0
    assert problem.remedy


def test_deep_and_large_files_are_refused() -> None:
    deep = "<allocations>" + "<queue name='a'>" * 10_000
    assert f"more than {MAX_DEPTH} levels" in str(load_policy(FAIR, deep.encode(), "f").problems[0])
    large = b"<allocations>" + b" " * MAX_BYTES
    assert "larger than" in str(load_policy(FAIR, large, "f").problems[0])


@pytest.mark.parametrize(
    ("format_name", "text"),
    [
        (FAIR, f"<allocations>{'<queue/>' * 10_001}</allocations>"),
        (CAPACITY, f"<configuration>{'<include/>' * 10_001}</configuration>"),
        ("yarn-site", f"<configuration>{'<include/>' * 10_001}</configuration>"),
        ("spark-defaults", "spark.acls.enable maybe\n" * 10_001),
    ],
)
def test_errors_without_number_are_no_crash(format_name: str, text: str) -> None:
    found = check_file(format_name, text.encode(), "f", with_lint=True)
    assert any("more than 10000 errors" in problem.message for problem in found)
    if format_name in {FAIR, CAPACITY}:
        assert lint(format_name, text.encode(), "f") == []


@given(st.one_of(st.binary(max_size=60), st.text(max_size=60).map(str.encode)))
def test_no_input_makes_a_loader_raise(data: bytes) -> None:
    for format_name in (FAIR, CAPACITY):
        for start in (b"", b"<allocations>", b"<configuration><property>"):
            load_policy(format_name, start + data, "f", yarn_options=YarnOptions(site=(data, "s")))
            lint(format_name, start + data, "f")
    detect_format(data)


@pytest.mark.parametrize(
    ("queues", "words"),
    [
        ("<queue name='a'/>", ["root has no aclSubmitApps", "root has no aclAdministerApps"]),
        (
            "<queue name='root'><aclSubmitApps> </aclSubmitApps></queue>",
            ["root has no aclAdministerApps"],
        ),
        (
            f"<queue name='root'>{CLOSED}<queue name='a'><aclSubmitApps>\n  bob\n</aclSubmitApps>"
            + END,
            ["a line break or tab", "in Hadoop group 'bob'"],
        ),
        (
            f"<queue name='root'>{CLOSED}<queue name='a'><aclSubmitApps>a, b</aclSubmitApps>" + END,
            ["blank beside the comma"],
        ),
        (
            f"<queue name='root'>{CLOSED}<queue name='a'><aclSubmitApps>*,b</aclSubmitApps>" + END,
            ["a name like any other"],
        ),
        (
            f"<queue name='root'>{CLOSED}<queue name='a'><aclSubmitApps>u g h</aclSubmitApps>"
            + END,
            ["in Hadoop user 'u' and group 'g h'"],
        ),
        (f"<queue name='root'>{CLOSED}<queue name='a'/></queue>", []),
    ],
)
def test_traps_of_the_fair_scheduler(queues: str, words: list[str]) -> None:
    text = f"<allocations>{queues}</allocations>".encode()
    found = lint(FAIR, text, "f")
    assert len(found) == len(words)
    for expected in words:
        assert any(expected in problem.message for problem in found)
    for problem in found:
        assert problem.line
        assert problem.remedy


def test_traps_of_the_capacity_scheduler() -> None:
    key = "yarn.scheduler.capacity.root"
    text = "".join(
        [
            "<configuration>",
            prop(f"{key}.queues", "a"),
            prop(f"{key}.acl_submit_applications", ""),
            prop(f"{key}.a.acl_submit_application", "x"),
            prop("yarn.scheduler.capacity.a.acl_administer_queue", "x"),
            prop(f"{key}.a.acl_administer_queue", "x", "<final>true</final>"),
            prop(f"{key}.a.acl_administer_queue", "y"),
            "</configuration>",
        ]
    ).encode()
    loaded = load_policy(CAPACITY, text, "f")
    assert loaded.partitions["default"].queues["root.a"].admin_acl.text == "x"
    messages = "\n".join(map(str, (*loaded.problems, *lint(CAPACITY, text, "f"))))
    for words in (
        "empty value, which sets nothing",
        '"acl_submit_application" is no property',
        'no queue "a"',
        "is final above",
        "root has no .acl_submit_applications: in Hadoop it is then *",
    ):
        assert words in messages


NAMES = st.sampled_from(["a", "A", "b", "q-1", "é"])
ACLS = st.sampled_from(
    [" ", "*", "bob", " g", "bob g", "bob g x", "u,bob", " *", "~bob", "g  g", "\n bob", "bob\n"]
)
QUEUES: st.SearchStrategy[Any] = st.recursive(
    st.tuples(NAMES, ACLS, ACLS, st.just([])),
    lambda below: st.tuples(NAMES, ACLS, ACLS, st.lists(below, max_size=3)),
    max_leaves=8,
)


def fair_xml(queues: list[tuple], tag: str) -> str:  # type: ignore[type-arg]
    return "".join(
        f"<{tag} name={quoteattr(name)}><aclSubmitApps>{submit}</aclSubmitApps>"
        f"<aclAdministerApps>{admin}</aclAdministerApps>{fair_xml(below, tag)}</{tag}>"
        for name, submit, admin, below in queues
    )


def by_path(queues: list[tuple], above: str) -> dict[str, tuple[str, str]]:  # type: ignore[type-arg]
    found = {}
    for name, submit, admin, below in queues:
        path = f"{above}.{name}"
        found[path] = (submit, admin)
        found |= by_path(below, path)
    return found


def capacity_xml(queues: dict[str, tuple[str, str]]) -> str:
    text = ""
    for path, (submit, admin) in queues.items():
        key = f"yarn.scheduler.capacity.{path}"
        children = [other[len(path) + 1 :] for other in queues if other.rpartition(".")[0] == path]
        if children:
            text += prop(f"{key}.queues", " , ".join(children))
        text += prop(f"{key}.acl_submit_applications", submit)
        text += prop(f"{key}.acl_administer_queue", admin)
    return f"<configuration>{text}</configuration>"


@given(
    st.lists(QUEUES, max_size=3),
    ACLS,
    ACLS,
    ACLS,
    st.sampled_from(Semantics),
    st.sampled_from(["queue", "pool"]),
    st.sampled_from(["bob", "u", "x"]),
    st.lists(st.sampled_from(["g", "bob", "*"]), max_size=2),
)
def test_random_trees_agree_with_the_naive_evaluator(
    queues: list[tuple],  # type: ignore[type-arg]
    submit: str,
    admin: str,
    admins: str,
    semantics: Semantics,
    tag: str,
    user: str,
    groups: list[str],
) -> None:
    stated = {"root": (submit, admin)} | by_path(queues, "root")
    xml = f"<allocations>{fair_xml([('root', submit, admin, queues)], tag)}</allocations>"
    options = YarnOptions(semantics=lambda _: semantics, site=site(admins=admins))
    for format_name, text in ((FAIR, xml), (CAPACITY, capacity_xml(stated))):
        assert detect_format(text.encode()) == format_name
        loaded = load_policy(format_name, text.encode(), "f", yarn_options=options)
        partition = loaded.partitions["default"]
        assert set(partition.queues) == set(stated)
        for path in (*stated, "root.nosuch.queue"):
            for access in Access:
                decision = decide(partition, path, access, user, groups)
                assert decision is not None
                assert decision.allowed is naive_yarn.allowed(
                    stated, path, access, user, groups, semantics=semantics, admins=admins
                )
                told = explain(partition, path, access, user, groups)
                assert told.decision == decision
                granted = told.steps[-1].outcome not in {StepOutcome.NO_MATCH, StepOutcome.EMPTY}
                assert granted is decision.allowed


@pytest.mark.parametrize(
    ("format_name", "semantics", "access", "reason"),
    [
        (FAIR, Semantics.DOCUMENTED, Access.SUBMIT, Reason.ACLS_DISABLED),
        (FAIR, Semantics.HADOOP, Access.SUBMIT, Reason.NO_MATCH),
        (FAIR, Semantics.HADOOP, Access.ADMIN, Reason.ACLS_DISABLED),
        (CAPACITY, Semantics.HADOOP, Access.SUBMIT, Reason.ACLS_DISABLED),
    ],
)
def test_disabled_acls(
    format_name: str, semantics: Semantics, access: Access, reason: Reason
) -> None:
    key = "yarn.scheduler.capacity.root"
    text = {
        FAIR: f"<allocations><queue name='root'>{CLOSED}</queue></allocations>",
        CAPACITY: "<configuration>"
        + prop(f"{key}.acl_submit_applications", " ")
        + prop(f"{key}.acl_administer_queue", " ")
        + "</configuration>",
    }[format_name].encode()
    options = YarnOptions(semantics=lambda _: semantics, site=site(enabled="False"))
    loaded = load_policy(format_name, text, "f", yarn_options=options)
    partition = loaded.partitions["default"]
    assert 'yarn.acl.enable is "False": access is granted to everybody' in str(loaded.problems)
    decision = decide(partition, "root", access, "eve", ())
    assert decision is not None
    assert decision.reason is reason
    outcome = explain(partition, "root", access, "eve", ()).steps[-1].outcome
    assert (outcome is StepOutcome.ACLS_DISABLED) is decision.allowed


def test_admins_of_the_cluster_have_their_own_reason() -> None:
    text = f"<allocations><queue name='root'>{CLOSED}</queue></allocations>".encode()
    options = YarnOptions(site=site(admins="bob ops"), daemon_user="yarn", partition="hadoop")
    partition = load_policy(FAIR, text, "f", yarn_options=options).partitions["hadoop"]
    for user, groups, subject in (
        ("bob", (), "bob"),
        ("eve", ("ops",), "ops"),
        ("yarn", (), "yarn"),
    ):
        for access in Access:
            decision = decide(partition, "root.a", access, user, groups)
            assert decision == (True, Reason.CLUSTER_ADMIN, "", subject)
            step = explain(partition, "root.a", access, user, groups).steps[-1]
            assert (step.outcome, step.queue) == (StepOutcome.CLUSTER_ADMIN, "")


def test_what_a_missing_yarn_site_means() -> None:
    text = f"<allocations><queue name='root'>{CLOSED}</queue></allocations>".encode()
    partition = load_policy(FAIR, text, "f").partitions["default"]
    decision = decide(partition, "root", Access.SUBMIT, "eve", ())
    assert decision == (False, Reason.NO_MATCH, "", "")
    empty = YarnOptions(site=(b"<configuration/>", "s"))
    partition = load_policy(FAIR, text, "f", yarn_options=empty).partitions["default"]
    decision = decide(partition, "root", Access.SUBMIT, "eve", ())
    assert decision is not None
    assert decision.reason is Reason.ACLS_DISABLED
