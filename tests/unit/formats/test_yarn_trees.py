"""Random trees of queues in both formats of YARN, and what its site adds to them."""

from typing import Any
from xml.sax.saxutils import quoteattr

import pytest
from hypothesis import given
from hypothesis import strategies as st

from queuegate_server.formats.registry import detect_format, load_policy
from queuegate_server.formats.yarn.model import YarnOptions
from queuegate_server.policy.decide import decide
from queuegate_server.policy.explain import StepOutcome, explain
from queuegate_server.policy.tree import Access, Reason
from queuegate_server.policy.yarn_acl import Semantics
from tests import naive_yarn
from tests.yarn_files import CAPACITY, CLOSED, FAIR, prop, site

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
    assert "yarn.acl.enable is not true" in str(loaded.problems)
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
