"""Reviews of policies: errors that prevent checks, and warnings about placement rules."""

import pytest

from queuegate_server.admission.queues.policy_review import MAX_READ_BYTES, review_policy
from queuegate_server.formats.registry import DEFAULT_OPTIONS, load_policy
from queuegate_server.policystore.parsing import File, ParseJob, PolicyText
from queuegate_server.runtime.event_loop import run_at_once
from queuegate_server.settings.admission import Admission

QUEUES = "    queues: [{name: root, queues: [{name: dev}, {name: ml, queues: [{name: gpu}]}]}]\n"
POLICY = f"partitions:\n  - name: default\n{QUEUES}"
TWO = POLICY.replace("{name: gpu}", "{name: gpu}, {name: dev}")


def reviewed(
    policy: str,
    schedulers: dict[str, object],
    partition: str = "default",
    max_bytes: int = MAX_READ_BYTES,
) -> list[str]:
    loaded = load_policy("yunikorn", policy.encode(), "queues.yaml")
    assert loaded.partitions
    text = PolicyText(File("queues.yaml", policy.encode()), "", DEFAULT_OPTIONS)
    settings = Admission.model_validate(
        {"queues": {"schedulers": schedulers, "partition": partition}}
    )
    job = ParseJob((text,), "")
    found = run_at_once(review_policy(settings, loaded.partitions, job, max_bytes))
    return [str(each) for each in found]


@pytest.mark.parametrize(
    ("schedulers", "refused"),
    [
        ({"volcano": {}}, True),
        ({"kai": {}}, True),
        ({"koordinator": {}}, True),
        ({"slurm-bridge": {}}, True),
        ({"kueue": {}}, False),
        ({"yunikorn": {}}, False),
        ({"places": [{"label": "example.com/queue"}]}, False),
    ],
)
def test_two_queues_of_one_flat_name(schedulers: dict[str, object], *, refused: bool) -> None:
    assert reviewed(POLICY, schedulers) == []
    found = reviewed(TWO, schedulers)
    assert bool(found) is refused
    if refused:
        (error,) = found
        assert error == (
            'queues.yaml:3:82: error: queue "root.ml.dev" has the same last level as "root.dev"'
            f" (queues.yaml:3:36), and {next(iter(schedulers))} knows queues only by the last level"
            " of their path (rename one of them, here and in the scheduler)"
        )


def test_lines_of_yarn_queues() -> None:
    """The queues of a YARN cluster are found in its scheduler's file."""
    text = """<allocations><queue name="root">
  <queue name="dev"/>
  <queue name="ml"><queue name="dev"/></queue>
</queue></allocations>
"""
    loaded = load_policy("fair-scheduler", text.encode(), "fair-scheduler.xml")
    file = File("fair-scheduler.xml", text.encode())
    job = ParseJob((PolicyText(file, "", DEFAULT_OPTIONS),), "")
    settings = Admission.model_validate({"queues": {"schedulers": {"kai": {}}}})
    (found,) = map(str, run_at_once(review_policy(settings, loaded.partitions, job)))
    assert found.startswith("fair-scheduler.xml:3:")
    assert '"root.dev" (fair-scheduler.xml:2:' in found


def test_many_queues_of_one_name() -> None:
    queues = ", ".join(f"{{name: q{number}, queues: [{{name: dev}}]}}" for number in range(13))
    policy = f"partitions:\n  - name: default\n    queues: [{{name: root, queues: [{queues}]}}]\n"
    found = reviewed(policy, {"kai": {}, "volcano": {}})
    assert len(found) == 11
    assert "and volcano and kai know queues only by the last level" in found[0]
    assert found[-1] == "policy: error: 2 more queues have the last level of another queue"


def test_a_text_that_is_not_read_again_has_no_lines() -> None:
    (found,) = reviewed(TWO, {"kai": {}}, max_bytes=len(TWO) - 1)
    assert found.startswith('policy: error: queue "root.ml.dev" has the same last level as "root.')


def test_a_partition_that_the_policy_lacks() -> None:
    [found] = reviewed(POLICY, {"kueue": {}}, "gpu")
    assert "admission.queues.partition is gpu, but the policy has default" in found


@pytest.mark.parametrize("partition", ["default", "gpu"])
def test_a_partition_for_questions_that_the_policy_lacks(partition: str) -> None:
    loaded = load_policy("yunikorn", POLICY.encode(), "queues.yaml")
    assert loaded.partitions
    settings = Admission.model_validate({"authorize": {"partition": partition}})
    found = [str(each) for each in run_at_once(review_policy(settings, loaded.partitions, None))]
    assert len(found) == (partition == "gpu")
    assert all("admission.authorize.partition is gpu" in each for each in found)


@pytest.mark.parametrize("path", ["root..x y", "root.Dev", "root.x y"])
def test_a_path_for_objects_without_a_queue_that_is_none(path: str) -> None:
    loaded = load_policy("yunikorn", POLICY.encode(), "queues.yaml")
    assert loaded.partitions
    settings = {"queues": {"schedulers": {"kueue": {}}, "unqueued": path}}
    steps = review_policy(Admission.model_validate(settings), loaded.partitions, None)
    [found] = run_at_once(steps)
    assert f'admission.queues.unqueued is "{path}", which is not a queue path' in str(found)


@pytest.mark.parametrize(
    ("rules", "warned"),
    [
        ("", False),
        ("[{name: provided}]", False),
        ("[{name: Provided, create: true}, {name: user, create: true}]", False),
        ("[{name: provided, parent: {name: user, create: true}}]", True),
        ("[{name: provided, filter: {type: deny, users: [bob]}}]", True),
        ("[{name: provided}, {name: provided, parent: {name: user, create: true}}]", False),
        ("[{name: user, create: true}, {name: provided}]", True),
        ("[{name: tag, value: namespace, create: true}]", True),
        ("[{name: fixed, value: root.dev}]", True),
    ],
)
def test_the_first_placement_rule(rules: str, *, warned: bool) -> None:
    policy = POLICY + (f"    placementrules: {rules}\n" if rules else "")
    found = reviewed(policy, {"yunikorn": {}})
    assert bool(found) is warned
    if warned:
        assert found[0].startswith("queues.yaml:4:29: warning: YuniKorn may place applications")
    assert reviewed(policy, {"kueue": {}}) == []


def test_large_texts_are_not_read() -> None:
    policy = f"{POLICY}    placementrules: [{{name: user, create: true}}]\n"
    assert reviewed(policy, {"yunikorn": {}})
    assert reviewed(policy, {"yunikorn": {}}, max_bytes=len(policy) - 1) == []


def test_queues_are_indexed_once_in_steps() -> None:
    loaded = load_policy("yunikorn", POLICY.encode(), "queues.yaml")
    assert loaded.partitions
    settings = Admission.model_validate({"queues": {"schedulers": {"kai": {}}}})
    assert sum(1 for _ in review_policy(settings, loaded.partitions, None)) == 4
    index = loaded.partitions["default"].last_levels
    assert index.paths == {"root": "root", "dev": "root.dev", "ml": "root.ml", "gpu": "root.ml.gpu"}
    assert sum(1 for _ in review_policy(settings, loaded.partitions, None)) == 0
    assert loaded.partitions["default"].last_levels is index
