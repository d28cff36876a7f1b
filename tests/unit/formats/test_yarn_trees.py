"""Random trees of queues in both formats of YARN, with settings of yarn-site.xml."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from queuegate.policy.decide import decide
from queuegate.policy.decision import Access, Reason
from queuegate.policy.explain import StepOutcome, explain
from queuegate.policy.yarn_acl import Semantics, parse_yarn
from queuegate_server.formats.detection import detect_policy_format
from queuegate_server.formats.registry import FormatOptions, load_policy
from queuegate_server.formats.yarn.load import YarnOptions
from tests.support.generators.yarn_files import (
    ACLS,
    CAPACITY,
    CLOSED,
    FAIR,
    QUEUES,
    by_path,
    capacity_xml,
    created,
    fair_xml,
    prop,
    site,
)
from tests.support.oracles import yarn
from tests.support.rows import rows


@given(
    st.lists(QUEUES, min_size=1, max_size=3),
    ACLS,
    ACLS,
    ACLS,
    st.sampled_from(Semantics),
    st.sampled_from(["queue", "pool"]),
    st.sampled_from(["bob", "u", "x"]),
    st.lists(st.sampled_from(["g", "bob", "*"]), max_size=2),
)
def test_random_trees_agree_with_the_oracle(
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
    options = YarnOptions(semantics=semantics, site=site(admins=admins))
    for format_name, text, expected in (
        (FAIR, xml, created(stated, queues)),
        (CAPACITY, capacity_xml(stated), stated),
    ):
        assert detect_policy_format(text.encode()) == format_name
        loaded = load_policy(format_name, text.encode(), "f", FormatOptions(yarn=options))
        partition = loaded.partitions["default"]
        assert set(partition.queues) == set(expected)
        for path in (*stated, "root.nosuch.queue"):
            for access in Access:
                decision = decide(partition, path, access, user, groups)
                assert decision is not None
                assert decision.allowed is yarn.allowed(
                    expected, path, access, user, groups, semantics=semantics, admins=admins
                )
                explained = explain(partition, path, access, user, groups)
                assert explained.decision == decision
                granted = explained.steps[-1].outcome not in {
                    StepOutcome.NO_MATCH,
                    StepOutcome.EMPTY,
                }
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
        + prop(f"{key}.queues", "a")
        + prop(f"{key}.acl_submit_applications", " ")
        + prop(f"{key}.acl_administer_queue", " ")
        + "</configuration>",
    }[format_name].encode()
    options = YarnOptions(semantics=semantics, site=site(enabled="False"))
    loaded = load_policy(format_name, text, "f", FormatOptions(yarn=options))
    partition = loaded.partitions["default"]
    assert 'yarn.acl.enable is "False": access is granted to everyone' in str(loaded.diagnostics)
    decision = decide(partition, "root", access, "eve", ())
    assert decision is not None
    assert decision.reason is reason
    outcome = explain(partition, "root", access, "eve", ()).steps[-1].outcome
    assert (outcome is StepOutcome.ACLS_DISABLED) is decision.allowed


def test_admins_of_the_cluster_have_their_own_reason() -> None:
    text = f"<allocations><queue name='root'>{CLOSED}</queue></allocations>".encode()
    options = YarnOptions(site=site(admins="bob ops"), daemon_user="yarn", partition="hadoop")
    partition = load_policy(FAIR, text, "f", FormatOptions(yarn=options)).partitions["hadoop"]
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
            assert step.acl is not None
            assert step.acl.text == "yarn,bob ops"


@pytest.mark.parametrize("semantics", Semantics)
@rows
def test_the_text_of_the_admins_names_the_user_of_the_daemon(
    semantics: Semantics, admins: str, daemon_user: str, text: str
) -> None:
    options = YarnOptions(semantics=semantics, site=site(admins=admins), daemon_user=daemon_user)
    source = f"<allocations><queue name='root'>{CLOSED}</queue></allocations>".encode()
    cluster = (
        load_policy(FAIR, source, "f", FormatOptions(yarn=options)).partitions["default"].cluster
    )
    assert cluster is not None
    configured = parse_yarn(admins, semantics)
    assert cluster.admins.text == text
    assert cluster.admins.groups == configured.groups
    assert cluster.admins.proxies == configured.proxies
    assert cluster.admins.allows_all or cluster.admins.users == configured.users | {daemon_user}


def test_a_missing_yarn_site() -> None:
    text = f"<allocations><queue name='root'>{CLOSED}</queue></allocations>".encode()
    partition = load_policy(FAIR, text, "f").partitions["default"]
    decision = decide(partition, "root", Access.SUBMIT, "eve", ())
    assert decision == (False, Reason.NO_MATCH, "", "")
    unset = prop("yarn.resourcemanager.hostname", "rm")
    empty = YarnOptions(site=(f"<configuration>{unset}</configuration>".encode(), "s"))
    partition = load_policy(FAIR, text, "f", FormatOptions(yarn=empty)).partitions["default"]
    decision = decide(partition, "root", Access.SUBMIT, "eve", ())
    assert decision is not None
    assert decision.reason is Reason.ACLS_DISABLED
