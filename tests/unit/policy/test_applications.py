"""Access to applications: the vectors, and the document's tables and examples word for word."""

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from queuegate.policy.applications import (
    Action,
    Application,
    ApplicationsUnsupported,
    decide_application,
)
from queuegate.policy.decision import Reason
from queuegate.policy.spark import SparkError, spark_acls
from queuegate.policy.tree import Partition, build_partition
from queuegate.policy.yarn_acl import Semantics, parse_yarn
from queuegate_server.formats.registry import FormatOptions, load_policy
from queuegate_server.formats.yarn.load import YarnOptions
from tests.support.yarn_vectors import VECTORS, loaded, readings

ACTIONS = {
    "VIEW": Action.VIEW,
    "VIEW_LOGS": Action.VIEW_LOGS,
    "KILL": Action.MODIFY,
    "MOVE": Action.MOVE,
}
APPS = [
    pytest.param(vector["input"], semantics, expect, id=f"{vector['id']}-{semantics}")
    for vector in VECTORS
    if vector["dialect"] == "yarn-app"
    for semantics, expect in readings(vector)
]
SPARK = [vector for vector in VECTORS if vector["dialect"] == "spark"]


@pytest.mark.parametrize(("asked", "semantics", "expect"), APPS)
def test_vectors(asked: dict[str, Any], semantics: Semantics, expect: dict[str, Any]) -> None:
    partition = loaded(asked, semantics).partitions["default"]
    app = asked["app"]
    application = Application(
        app["queue"], app["owner"], app["view_acl"] or " ", app["modify_acl"] or " "
    )
    action, target = ACTIONS[asked["action"]], asked.get("target_queue", "")
    judged = decide_application(
        partition, application, action, asked["user"], asked["groups"], target=target
    )
    assert judged.decision is not None
    assert judged.decision.allowed is expect["allowed"]


def document(semantics: Semantics) -> Partition:
    """Return the queues of the document's two examples; Bob is in `yarn.admin.acl`."""
    text = Path("examples/fair-scheduler.xml").read_bytes()
    site = (Path("examples/yarn-site.xml").read_bytes(), "yarn-site.xml")
    options = YarnOptions(semantics=semantics, site=site)
    return load_policy("fair-scheduler", text, "f", FormatOptions(yarn=options)).partitions[
        "default"
    ]


IN_PRODUCTION = Application("root.Datascience.Production", "John")
IN_TEST = Application("root.Test", "John", view_acl="Jane")


@pytest.mark.parametrize(
    ("application", "user", "action", "allowed", "reason"),
    [
        # "John attempts to kill the application, which is allowed because he is the
        # application owner."
        (IN_PRODUCTION, "John", Action.MODIFY, True, Reason.OWNER),
        # "Jane attempts to kill a job in the queue Production, which she can do as the queue
        # administrator of the parent queue."
        (IN_PRODUCTION, "Jane", Action.MODIFY, True, Reason.USER),
        # "because he is the YARN cluster administrator, he can kill the job."
        (IN_PRODUCTION, "Bob", Action.MODIFY, True, Reason.CLUSTER_ADMIN),
        # "John attempts to view the logs for his job, which is allowed because he is the
        # application owner."
        (IN_TEST, "John", Action.VIEW_LOGS, True, Reason.OWNER),
        # "She is denied access to the Test queue via the queue ACLs"
        (IN_TEST, "Jane", Action.MOVE, False, Reason.NO_MATCH),
        # "She is also unable to kill a job running in queue Test."
        (IN_TEST, "Jane", Action.MODIFY, False, Reason.NO_MATCH),
        # "She then attempts to access the logs and is allowed access via the
        # mapreduce.job.acl-view-job ACL."
        (IN_TEST, "Jane", Action.VIEW_LOGS, True, Reason.USER),
        # "As the YARN cluster administrator, he has access to all queues and can move the
        # application."
        (IN_TEST, "Bob", Action.MOVE, True, Reason.CLUSTER_ADMIN),
    ],
)
def test_examples_of_the_document(
    application: Application, user: str, action: Action, allowed: bool, reason: Reason
) -> None:
    partition = document(Semantics.DOCUMENTED)
    judged = decide_application(partition, application, action, user, (), target="root.Marketing")
    assert judged.decision is not None
    assert (judged.decision.allowed, judged.decision.reason) == (allowed, reason)
    # In Hadoop only Bob's move ends otherwise: he holds no right on the target.
    hadoop = decide_application(
        document(Semantics.HADOOP), application, action, user, (), target="root.Marketing"
    )
    assert hadoop.decision is not None
    assert hadoop.decision.allowed is (allowed and (user, action) != ("Bob", Action.MOVE))


@pytest.mark.parametrize(
    ("semantics", "granting"),
    [
        (Semantics.DOCUMENTED, [("queue submit", "root.Test"), ("queue submit", "root.Dev")]),
        (Semantics.HADOOP, [("owner", ""), ("queue submit", "root.Dev")]),
    ],
)
@pytest.mark.parametrize(("target", "allowed"), [("root.Dev", True), ("root.Marketing", False)])
def test_a_move_names_both_lists_that_grant(
    semantics: Semantics, granting: list[tuple[str, str]], target: str, allowed: bool
) -> None:
    partition = document(semantics)
    judged = decide_application(
        partition, IN_TEST, Action.MOVE, "John", ["developers"], target=target
    )
    assert judged.decision is not None
    assert judged.decision.allowed is allowed
    found = [judged.lists[index][:2] for index in judged.granting]
    assert found == granting[: 1 + allowed]


@pytest.mark.parametrize("user", ["John", "Jane"])
def test_decisions_that_need_no_groups_are_made_without(user: str) -> None:
    partition = document(Semantics.DOCUMENTED)
    judged = decide_application(partition, IN_PRODUCTION, Action.MODIFY, user, None)
    assert judged.decision is not None
    undecided = decide_application(partition, IN_PRODUCTION, Action.MODIFY, "eve", None)
    assert undecided.decision is None
    moving = decide_application(
        partition, IN_TEST, Action.MOVE, "John", None, target="root.Marketing"
    )
    assert moving.decision is None
    group = decide_application(partition, IN_PRODUCTION, Action.MODIFY, "eve", ["yarnadmgroup"])
    assert group.decision == (True, Reason.CLUSTER_ADMIN, "", "yarnadmgroup")


def test_an_unknown_target_is_refused_and_an_unknown_queue_is_judged_above() -> None:
    partition = document(Semantics.DOCUMENTED)
    judged = decide_application(partition, IN_TEST, Action.MOVE, "Bob", (), target="root.nosuch")
    assert judged.decision == (False, Reason.UNKNOWN_QUEUE, "", "")
    assert partition.cluster is not None
    off = replace(partition, cluster=replace(partition.cluster, acls_enabled=False))
    for target, allowed in (("root.nosuch", False), ("root.Marketing", True)):
        judged = decide_application(off, IN_TEST, Action.MOVE, "eve", (), target=target)
        assert judged.decision is not None
        assert judged.decision.allowed is allowed
    elsewhere = Application("root.Datascience.gone", "John")
    judged = decide_application(partition, elsewhere, Action.MODIFY, "Jane", ())
    assert judged.decision == (True, Reason.USER, "root.Datascience", "Jane")


def test_yunikorn_has_no_applications() -> None:
    with pytest.raises(ApplicationsUnsupported):
        decide_application(build_partition("a", "", ()), IN_TEST, Action.VIEW, "Jane", ())
    with pytest.raises(ValueError, match="admin"):
        decide_application(document(Semantics.HADOOP), IN_TEST, Action.ADMIN, "Jane", ())


@pytest.mark.parametrize("vector", SPARK, ids=lambda vector: vector["id"])
def test_spark_vectors(vector: dict[str, Any]) -> None:
    asked, expect = vector["input"], vector["expect"]
    if "error" in expect:
        with pytest.raises(SparkError):
            spark_acls(asked["conf"])
        return
    acls = spark_acls(asked["conf"], asked["spark_user"], asked["process_os_user"])
    if asked["op"] == "check":
        judged = acls.decide(Action(asked["action"]), asked["user"], asked["groups"])
        assert judged.decision is not None
        assert judged.decision.allowed is expect["allowed"]
        return
    for acl, listed in zip(
        acls.yarn_acls(), (expect["view_app"], expect["modify_app"]), strict=True
    ):
        for read in (acl, *(parse_yarn(acl.text, semantics) for semantics in Semantics)):
            assert read.allows_all is listed.get("all_allowed", False)
            assert read.users == set(listed.get("users", ()))
            assert read.groups == set(listed.get("groups", ()))


@pytest.mark.parametrize("text", ["yes", "", "\u00a0true"])
def test_spark_refuses_what_is_no_truth_value(text: str) -> None:
    message = re.escape(f"spark.acls.enable must be true or false, not {text!r}")
    with pytest.raises(SparkError, match=message):
        spark_acls({"spark.acls.enable": text})


def test_spark_trims_entries_as_java_does() -> None:
    acls = spark_acls({"spark.ui.view.acls": "\x1fann\t,\u00a0bob,\u2003*"})
    assert acls.view.users == {"ann", "\u00a0bob", "\u2003*"}
    assert not acls.view.allows_all


def test_a_move_is_none_of_sparks_actions() -> None:
    with pytest.raises(ValueError, match="move"):
        spark_acls({"spark.acls.enable": "true"}).decide(Action.MOVE, "a", ())
