"""The guide to YARN ACLs, from its first rule to its last example, as it is documented.

Access to applications, with John, Jane and Bob, is in `test_applications.py`.
"""

from queuegate.policy.applications import Action, Application, decide_application
from queuegate.policy.decide import decide
from queuegate.policy.decision import Access, Reason
from queuegate.policy.spark import spark_acls
from queuegate.policy.tree import Partition
from queuegate.policy.yarn_acl import Semantics, parse_yarn
from queuegate_server.formats.registry import FormatOptions, load_policy
from queuegate_server.formats.yarn.load import YarnOptions
from tests.support.rows import rows
from tests.unit.policy.granted import is_granted


@rows
def test_acls(text: str, users: set[str], groups: set[str]) -> None:
    acl = parse_yarn(text, Semantics.DOCUMENTED)
    assert acl.users == users
    assert acl.groups == groups
    assert not acl.allows_all
    assert not is_granted(acl, "somebody", ["else"])
    assert not is_granted(acl, "group_6", ["group_6"])
    for group in groups:
        assert is_granted(acl, "somebody", [group])
        # Groups compare with regard to case.
        assert not is_granted(acl, "somebody", [group.swapcase()])


def test_everyone() -> None:
    assert is_granted(parse_yarn("*", Semantics.DOCUMENTED), "anybody", [])


def site(*, enable: str | None = "true", admins: str | None = " ") -> tuple[bytes, str]:
    text = "<property><name>yarn.resourcemanager.hostname</name><value>rm</value></property>"
    if enable is not None:
        text += (
            f"<property>\n   <name>yarn.acl.enable</name>\n   <value>{enable}</value>\n</property>"
        )
    if admins is not None:
        text += f"<property><name>yarn.admin.acl</name><value>{admins}</value></property>"
    return f"<configuration>{text}</configuration>".encode(), "yarn-site.xml"


def fair(inner: str, stated_site: tuple[bytes, str]) -> Partition:
    text = f"<allocations>{inner}</allocations>".encode()
    options = YarnOptions(site=stated_site)
    return load_policy("fair-scheduler", text, "f", FormatOptions(yarn=options)).partitions[
        "default"
    ]


def reason(
    partition: Partition, path: str, access: Access, user: str, groups: tuple[str, ...] = ()
) -> Reason:
    decision = decide(partition, path, access, user, groups)
    assert decision is not None
    return decision.reason


MARKETING = """\
<queue name="Marketing">
  <aclSubmitApps>john,jane</aclSubmitApps>
  <aclAdministerApps> others</aclAdministerApps>
</queue>
"""


def test_the_example_of_a_queue() -> None:
    queues = fair(MARKETING, site())
    path = "root.Marketing"
    assert reason(queues, path, Access.SUBMIT, "john") is Reason.USER
    assert reason(queues, path, Access.SUBMIT, "jane") is Reason.USER
    assert reason(queues, path, Access.ADMIN, "jane") is Reason.NO_MATCH
    # To administer includes to submit.
    for access in Access:
        assert reason(queues, path, access, "eve", ("others",)) is Reason.GROUP
        assert reason(queues, path, access, "others") is Reason.NO_MATCH


def test_queues_are_closed_unless_an_acl_opens_them() -> None:
    queues = fair("<queue name='a'/>", site())
    for path in ("root", "root.a"):
        for access in Access:
            assert reason(queues, path, access, "john") is Reason.NO_MATCH


def test_acls_are_looked_at_from_the_queue_up_to_the_root() -> None:
    below = "<queue name='leaf'><aclSubmitApps>ann</aclSubmitApps></queue>"
    middle = f"<queue name='mid'><aclAdministerApps>bob</aclAdministerApps>{below}</queue>"
    queues = fair(f"<queue name='root'><aclSubmitApps>carl</aclSubmitApps>{middle}</queue>", site())
    for user, matched in (("ann", "root.mid.leaf"), ("bob", "root.mid"), ("carl", "root")):
        decision = decide(queues, "root.mid.leaf", Access.SUBMIT, user, ())
        assert decision is not None
        assert decision.matched_queue == matched
    # The grants of a queue do not hold above it.
    assert reason(queues, "root.mid", Access.SUBMIT, "ann") is Reason.NO_MATCH
    assert reason(queues, "root", Access.SUBMIT, "bob") is Reason.NO_MATCH


def test_administrators_of_the_cluster_submit_everywhere_and_kill_everything() -> None:
    queues = fair(MARKETING, site(admins="hadoopadmin yarnadmgroup,hadoopadmgroup"))
    for user, groups in (("hadoopadmin", ()), ("eve", ("hadoopadmgroup",))):
        for access in Access:
            assert reason(queues, "root.Marketing", access, user, groups) is Reason.CLUSTER_ADMIN
        app = Application("root.Marketing", "john")
        judged = decide_application(queues, app, Action.MODIFY, user, groups)
        assert judged.decision is not None
        assert judged.decision.reason is Reason.CLUSTER_ADMIN


def test_the_default_administrators_are_everyone() -> None:
    queues = fair(MARKETING, site(admins=None))
    assert reason(queues, "root.Marketing", Access.ADMIN, "anybody") is Reason.CLUSTER_ADMIN


def test_acls_are_off_unless_they_are_enabled() -> None:
    for stated in (site(enable="false"), site(enable=None)):
        queues = fair(MARKETING, stated)
        assert reason(queues, "root.Marketing", Access.SUBMIT, "eve") is Reason.ACLS_DISABLED
        app = Application("root.Marketing", "john")
        judged = decide_application(queues, app, Action.MODIFY, "eve", ())
        assert judged.decision is not None
        assert judged.decision.reason is Reason.ACLS_DISABLED


@rows
def test_acls_of_applications(view_acl: str, modify_acl: str, user: str, may: set[Action]) -> None:
    queues = fair(MARKETING, site())
    app = Application("root.Marketing", "owner", view_acl, modify_acl)
    for action in (Action.VIEW, Action.VIEW_LOGS, Action.MODIFY):
        judged = decide_application(queues, app, action, user, ())
        assert judged.decision is not None
        assert judged.decision.allowed is (action in may)


@rows
def test_a_move_needs_the_right_to_submit_to_both_queues(
    user: str, groups: tuple[str, ...], may: bool
) -> None:
    source = "<queue name='Test'><aclSubmitApps>john,olga others</aclSubmitApps></queue>"
    queues = fair(MARKETING + source, site())
    app = Application("root.Test", "owner")
    judged = decide_application(queues, app, Action.MOVE, user, groups, target="root.Marketing")
    assert judged.decision is not None
    assert judged.decision.allowed is may


@rows
def test_spark(stated: dict[str, str], groups: tuple[str, ...], may: set[Action]) -> None:
    acls = spark_acls(stated, "owner")
    for action in (Action.VIEW, Action.MODIFY, Action.ADMIN):
        decision = acls.decide(action, "eve", groups).decision
        assert decision is not None
        assert decision.allowed is (action in may)
