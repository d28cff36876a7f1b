"""Random applications in random queues, decided as the oracle decides them."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from queuegate.policy.applications import Action, Application, decide_application
from queuegate.policy.decision import OUTCOMES
from queuegate.policy.spark import SparkError, spark_acls
from queuegate.policy.yarn_acl import Semantics
from queuegate_server.formats.registry import FormatOptions, load_policy
from queuegate_server.formats.yarn.load import YarnOptions
from tests.support.generators.yarn_files import ACLS, QUEUES, by_path, created, fair_xml, site
from tests.support.oracles.applications import (
    YarnApplication,
    YarnCluster,
    application_allowed,
    spark_allowed,
)

USERS = st.sampled_from(["bob", "u", "x"])
GROUPS = st.lists(st.sampled_from(["g", "bob", "*", "g x"]), max_size=2)
OF_YARN = st.sampled_from([Action.VIEW, Action.VIEW_LOGS, Action.MODIFY, Action.MOVE])


@given(
    st.lists(QUEUES, max_size=3),
    st.tuples(ACLS, ACLS, ACLS),
    st.tuples(ACLS, ACLS, st.sampled_from(["bob", "olga"])),
    st.sampled_from(Semantics),
    OF_YARN,
    st.tuples(USERS, GROUPS, st.sampled_from(["", "bob", "x"])),
    st.data(),
)
def test_applications_of_yarn(
    queues: list[tuple],  # type: ignore[type-arg]
    acls: tuple[str, str, str],
    of_app: tuple[str, str, str],
    semantics: Semantics,
    action: Action,
    who: tuple[str, list[str], str],
    data: st.DataObject,
) -> None:
    submit, admin, admins = acls
    stated = created({"root": (submit, admin)} | by_path(queues, "root"), queues)
    xml = f"<allocations>{fair_xml([('root', submit, admin, queues)], 'queue')}</allocations>"
    options = YarnOptions(semantics=semantics, site=site(admins=admins))
    loaded = load_policy("fair-scheduler", xml.encode(), "f", FormatOptions(yarn=options))
    partition = loaded.partitions["default"]
    paths = st.sampled_from([*stated, "root.nosuch.x"])
    queue, target = data.draw(paths), data.draw(paths)
    view, modify, owner = of_app
    user, groups, real_user = who
    judged = decide_application(
        partition,
        Application(queue, owner, view, modify),
        action,
        user,
        groups,
        target=target,
        real_user=real_user,
    )
    assert judged.decision is not None
    assert judged.decision.allowed is OUTCOMES[judged.decision.reason].grants
    assert judged.decision.allowed is application_allowed(
        YarnCluster(stated, semantics, admins),
        YarnApplication(queue, owner, view, modify),
        action,
        user,
        groups,
        target=target,
        real_user=real_user,
    )
    # A decision made without the groups is the same with them.
    early = decide_application(
        partition,
        Application(queue, owner, view, modify),
        action,
        user,
        None,
        target=target,
        real_user=real_user,
    )
    assert early.decision is None or early.decision.allowed is judged.decision.allowed


LISTS = st.sampled_from(["", " ", "bob", "u , bob", "g", "*", "u,*", "bob u", ",", "\tg\n"])
PROPERTIES: st.SearchStrategy[Any] = st.fixed_dictionaries(
    {},
    optional={
        "spark.acls.enable": st.sampled_from(["true", "true", " TRUE ", "false", "yes", ""]),
        "spark.ui.acls.enable": st.just("true"),
        "spark.user.groups.mapping": st.sampled_from(
            ["", "my.Mapping", "org.apache.spark.security.ShellBasedGroupsMappingProvider"]
        ),
        **{
            f"spark.{kind}.acls{groups}": LISTS
            for kind in ("admin", "ui.view", "modify")
            for groups in ("", ".groups")
        },
    },
)


@given(
    PROPERTIES,
    st.sampled_from([Action.VIEW, Action.VIEW_LOGS, Action.MODIFY, Action.ADMIN]),
    USERS,
    GROUPS,
    st.sampled_from(["", "bob", "spark"]),
    st.sampled_from(["", "u"]),
)
def test_applications_of_spark(
    properties: dict[str, str],
    action: Action,
    user: str,
    groups: list[str],
    spark_user: str,
    process_user: str,
) -> None:
    expected = spark_allowed(
        properties, action, user, groups, spark_user=spark_user, process_user=process_user
    )
    try:
        acls = spark_acls(properties, spark_user, process_user)
    except SparkError:
        assert expected is None
        return
    decision = acls.decide(action, user, groups).decision
    assert decision is not None
    assert decision.allowed is expected
    assert decision.allowed is OUTCOMES[decision.reason].grants
