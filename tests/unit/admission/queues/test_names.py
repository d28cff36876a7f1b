"""The paths of the queues that names refer to."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from queuegate.policy.decision import Access
from queuegate.policy.names import queue_path
from queuegate.policy.queue import QueueAcls
from queuegate.policy.tree import Partition, PartitionBuilder
from queuegate_server.admission.queues.model import LOCAL_QUEUES, QueueName
from queuegate_server.admission.queues.names import AmbiguousNames, InvalidQueueName, QueueNames
from queuegate_server.settings.queue_schedulers import Schedulers
from tests.support.rows import rows

ALL = Schedulers.model_validate(
    {
        "yunikorn": {},
        "kueue": {},
        "volcano": {"below": "root.research"},
        "kai": {"below": "root.kai"},
        "koordinator": {"below": "root.quotas"},
        "slurm-bridge": {"below": "root.slurm"},
        "places": [{"label": "example.com/queue"}],
    }
)


def partition(*paths: str) -> Partition:
    """Return a partition with queues."""
    builder = PartitionBuilder("default")
    builder.add([QueueAcls(path, "", "") for path in ("root", *paths)])
    return builder.build()


NAMES = QueueNames(
    partition(
        *("root.research", "root.research.training", "root.research.a_dot_b", "root.dev"),
        *("root.kai", "root.kai.team", "root.kai.team.training", "root.kai.deep", "root.slurm"),
        *("root.namespaces", "root.namespaces.ml", "root.namespaces.ml.training"),
        *("root.namespaces.web", "root.namespaces.web.training", "root.clusterqueues"),
        *("root.clusterqueues.gpu", "root.cohorts", "root.cohorts.gpu", "root.quotas"),
    ),
    ALL,
)


def path(scheduler: str, name: str, namespace: str = "ml", template: str = LOCAL_QUEUES) -> str:
    """Return the path of a name."""
    return NAMES.path(QueueName(scheduler, name, "x", Access.SUBMIT, template), namespace)


@rows
def test_paths(scheduler: str, name: str, expected: str) -> None:
    assert path(scheduler, name) == expected


def test_cluster_queues_have_a_template_of_their_own() -> None:
    for namespace in ("ml", ""):
        assert path("kueue", "gpu", namespace, "clusterqueues") == "root.clusterqueues.gpu"
        assert path("kueue", "gpu", namespace, "cohorts") == "root.cohorts.gpu"


@rows
def test_yunikorn_has_no_queues_of_others(name: str, below: str) -> None:
    with pytest.raises(InvalidQueueName, match=f"is below {below}, where the policy has"):
        path("yunikorn", name)
    assert path("yunikorn", "root.kais") == "root.kais"
    assert path("places[0]", "root.kai.training") == "root.kai.training"


def test_a_scheduler_alone_has_all_queues() -> None:
    queues = partition("root.a", "root.a.x", "root.kai")
    alone = QueueNames(queues, Schedulers.model_validate({"kai": {}}))
    for name, expected in (
        *(("x", "root.a.x"), ("a", "root.a"), ("kai", "root.kai")),
        *(("root", "root"), ("missing", "root.missing"), ("root.a", "root.root_dot_a")),
    ):
        assert alone.path(QueueName("kai", name, "x", Access.SUBMIT), "ml") == expected


@rows
def test_how_a_user_writes_a_name(
    scheduler: str, template: str, namespace: str, queue: str, name: str | None
) -> None:
    place = QueueName(scheduler, "", "", Access.SUBMIT, template)
    assert NAMES.name(queue, place, namespace) == name
    if name is not None:
        assert queue.startswith(f"{NAMES.below(place, namespace)}.")


@rows
def test_a_local_queue_of_an_unknown_namespace(template: str, expected: str) -> None:
    """The queue above those of all namespaces decides."""
    schedulers = Schedulers.model_validate({"kueue": {"localqueues": template}})
    names = QueueNames(partition("root.a"), schedulers)
    found = QueueName("kueue", "a", "", Access.SUBMIT)
    assert names.path(found, "") == expected


@pytest.mark.parametrize(
    ("scheduler", "name", "namespace", "message"),
    [
        ("yunikorn", "root.a b", "", "'root.a b' cannot be a queue name: use 1 to 64"),
        ("yunikorn", "root..a", "", "cannot be"),
        ("volcano", "a" * 65, "", "cannot be"),
        ("volcano", "\u212a", "", "cannot be"),
        ("kai", "a" * 1_025, "", "write at most 1024 characters"),
        ("kai", "", "", "cannot be"),
        ("places[0]", "dev", "", "write its full path, such as root.dev"),
        ("places[0]", "{…}", "", "write its full path"),
    ],
)
def test_names_of_no_queue(scheduler: str, name: str, namespace: str, message: str) -> None:
    with pytest.raises(InvalidQueueName) as caught:
        path(scheduler, name, namespace)
    assert message in str(caught.value)
    assert len(str(caught.value)) < 300


def test_ambiguous_names_are_listed() -> None:
    queues = partition("root.a", "root.b", "root.a.x", "root.b.x", "root.a.y", "root.a.y.root")
    only_volcano = Schedulers.model_validate({"volcano": {}})
    with pytest.raises(AmbiguousNames) as caught:
        QueueNames(queues, only_volcano)
    assert str(caught.value) == (
        "volcano knows queues only by the last level of their path, and root may be root or"
        " root.a.y.root; x may be root.a.x or root.b.x: rename all but one queue with each name"
    )


def test_equal_names_matter_below_the_path_only() -> None:
    queues = partition("root.a", "root.b", "root.a.x", "root.b.x", "root.a.y", "root.a.y.a")
    for below, is_ambiguous in (("root", True), ("root.a", False), ("root.b", False)):
        schedulers = Schedulers.model_validate({"kai": {"below": below}})
        if is_ambiguous:
            with pytest.raises(AmbiguousNames, match=r"x may be root\.a\.x or root\.b\.x"):
                QueueNames(queues, schedulers)
        else:
            assert QueueNames(queues, schedulers).partition is queues


def test_a_long_list_of_ambiguous_names_is_cut() -> None:
    parents = [f"root.p{number}" for number in range(12)]
    children = [f"{parent}.x{number}" for parent in parents for number in range(11)]
    with pytest.raises(AmbiguousNames) as caught:
        QueueNames(partition(*parents, *children), Schedulers.model_validate({"kai": {}}))
    assert "or root.p9.x0 or 2 more queues; x1 may be" in str(caught.value)
    assert "; and 1 more name: rename" in str(caught.value)


def test_equal_last_levels_do_not_matter_to_schedulers_with_paths() -> None:
    queues = partition("root.a", "root.b", "root.a.x", "root.b.x")
    schedulers = Schedulers.model_validate({"yunikorn": {}, "kueue": {}})
    assert QueueNames(queues, schedulers).partition is queues


@given(
    st.sampled_from(["yunikorn", "kueue", "volcano", "places[0]"]),
    st.text(max_size=80) | st.from_regex(r"root(\.[a-zA-Z0-9_.-]{1,20}){0,4}", fullmatch=True),
)
def test_every_path_is_canonical(scheduler: str, name: str) -> None:
    try:
        found = path(scheduler, name)
    except InvalidQueueName:
        return
    assert found in NAMES.partition.queues or queue_path(found) == found
