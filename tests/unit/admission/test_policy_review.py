"""Reviews of settings and policies: errors that prevent checks, and warnings."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from queuegate_server.admission.queues.policy_review import (
    MAX_READ_BYTES,
    reload_faults,
    review_policy,
    review_settings,
)
from queuegate_server.formats.registry import DEFAULT_OPTIONS, load_policy
from queuegate_server.policystore.parsing import File, ParseJob, PolicyText
from queuegate_server.settings.admission import QueueChecks
from queuegate_server.settings.load import load_with_origins
from queuegate_server.settings.model import Settings
from tests.support.long_work import finish
from tests.support.rows import rows

QUEUES = "    queues: [{name: root, queues: [{name: dev}, {name: ml, queues: [{name: gpu}]}]}]\n"
POLICY = f"partitions:\n  - name: default\n{QUEUES}"
TWO = POLICY.replace("{name: gpu}", "{name: gpu}, {name: dev}")


def settings_with(**admission: Mapping[str, object]) -> Settings:
    return Settings.model_validate({"policy": {"path": "queues.yaml"}, "admission": admission})


def reviewed(
    policy: str,
    schedulers: dict[str, object],
    partition: str = "default",
    max_bytes: int = MAX_READ_BYTES,
) -> list[str]:
    loaded = load_policy("yunikorn", policy.encode(), "queues.yaml")
    assert loaded.partitions
    text = PolicyText(File("queues.yaml", policy.encode()), "", DEFAULT_OPTIONS)
    queues = {"schedulers": schedulers, "partition": partition, "groups": "kubernetes"}
    settings = settings_with(queues=queues)
    job = ParseJob((text,), "")
    found = finish(review_policy(settings, loaded.partitions, job, max_bytes))
    return [str(each) for each in found]


@rows
def test_two_queues_of_one_flat_name(schedulers: dict[str, object], *, refused: bool) -> None:
    assert reviewed(POLICY, schedulers) == []
    found = reviewed(TWO, schedulers)
    assert bool(found) is refused
    if refused:
        (error,) = found
        assert error == (
            'queues.yaml:3:82: error: queue "root.ml.dev" has the same last level as "root.dev"'
            f" (queues.yaml:3:36), and {next(iter(schedulers))} knows queues only by the last level"
            " of their path (rename one of them, in the policy and in the scheduler)"
        )


@pytest.mark.parametrize(
    ("below", "refused"), [("root", True), ("root.ml", False), ("root.dev", False)]
)
def test_two_queues_of_one_name_below_a_path(below: str, *, refused: bool) -> None:
    assert bool(reviewed(TWO, {"kai": {"below": below}})) is refused


def test_each_scheduler_has_names_of_its_own() -> None:
    queues = "{name: a, queues: [{name: dev}, {name: b, queues: [{name: dev}]}]}"
    policy = (
        "partitions:\n  - name: default\n    queues: [{name: root, queues: [\n"
        f"      {queues},\n      {queues.replace('name: a', 'name: z')}]}}]\n"
    )
    schedulers: dict[str, object] = {"kai": {"below": "root.a"}, "volcano": {"below": "root.z"}}
    volcano, kai = reviewed(policy, schedulers)
    assert 'queues.yaml:5:58: error: queue "root.z.b.dev" has the same last level as' in volcano
    assert '"root.z.dev" (queues.yaml:5:26), and volcano knows queues only by' in volcano
    assert 'queues.yaml:4:58: error: queue "root.a.b.dev"' in kai


@rows
def test_a_path_of_a_scheduler(below: str, message: str) -> None:
    found = reviewed(POLICY, {"kai": {"below": below}})
    assert len(found) == bool(message)
    assert all(message in each for each in found)


@rows
def test_changed_settings_that_do_not_fit_the_policy(
    queues: dict[str, object], message: str
) -> None:
    loaded = load_policy("yunikorn", TWO.encode(), "queues.yaml")
    assert loaded.partitions
    partition = loaded.partitions["default"]
    found = [*map(str, reload_faults(QueueChecks.model_validate(queues), partition))]
    assert len(found) == bool(message)
    assert all("error: " in each and message in each for each in found)


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
    settings = settings_with(queues={"schedulers": {"kai": {}}, "groups": "kubernetes"})
    (found,) = map(str, finish(review_policy(settings, loaded.partitions, job)))
    assert found.startswith("fair-scheduler.xml:3:")
    assert '"root.dev" (fair-scheduler.xml:2:' in found


def test_many_queues_of_one_name() -> None:
    queues = ", ".join(f"{{name: q{number}, queues: [{{name: dev}}]}}" for number in range(13))
    policy = f"partitions:\n  - name: default\n    queues: [{{name: root, queues: [{queues}]}}]\n"
    found = reviewed(policy, {"kai": {}})
    assert len(found) == 11
    assert "and kai knows queues only by the last level" in found[0]
    assert found[-1] == "policy: error: 2 more queues have the last level of another queue"


def test_a_text_that_is_not_read_again_has_no_lines() -> None:
    (found,) = reviewed(TWO, {"kai": {}}, max_bytes=len(TWO) - 1)
    assert found.startswith('policy: error: queue "root.ml.dev" has the same last level as "root.')
    assert found.endswith("the scheduler; queuegate-server validate --config prints their lines)")


def test_a_partition_that_the_policy_lacks() -> None:
    [found] = reviewed(POLICY, {"kueue": {}}, "gpu")
    assert found == (
        'settings: error: admission.queues.partition: "gpu" is not in the policy, which has default'
        " (correct the name)"
    )


@pytest.mark.parametrize("section", ["authorize", "user_info"])
@pytest.mark.parametrize("partition", ["default", "gpu"])
def test_a_partition_for_other_answers_that_the_policy_lacks(partition: str, section: str) -> None:
    settings = {section: {"partition": partition, "groups": "directory"}}
    errors = [each for each in found_with(settings) if "error" in each]
    assert len(errors) == (partition == "gpu")
    assert all(f'admission.{section}.partition: "gpu" is not' in each for each in errors)


def test_a_partition_for_an_annotation_that_is_not_looked_up() -> None:
    assert found_with({"user_info": {"partition": "gpu"}}) == []


@pytest.mark.parametrize("path", ["root..x y", "root.Dev", "root.x y"])
def test_a_path_for_objects_without_a_queue_that_is_none(path: str) -> None:
    [found] = unqueued_findings(path)
    assert f'error: admission.queues.unqueued: "{path}" is not a queue path' in found


@rows
def test_a_path_for_objects_without_a_queue_that_the_policy_lacks(path: str, decides: str) -> None:
    found = unqueued_findings(path)
    warning = (
        f'settings: warning: admission.queues.unqueued: "{path}" is not in the policy, so the ACLs'
        f" of {decides} decide (correct the path, or add the queue)"
    )
    assert found == ([warning] if decides else [])


def test_a_path_for_objects_without_a_queue_that_yarn_creates() -> None:
    policy = """<configuration>
<property><name>yarn.scheduler.capacity.root.queues</name><value>users</value></property>
<property><name>yarn.scheduler.capacity.root.users.capacity</name><value>100</value></property>
<property>
  <name>yarn.scheduler.capacity.root.users.auto-queue-creation-v2.enabled</name>
  <value>true</value>
</property>
</configuration>"""
    assert unqueued_findings("root.users.ann", policy, "capacity-scheduler") == []
    [found] = unqueued_findings("root.other", policy, "capacity-scheduler")
    assert "the ACLs of root decide" in found


def unqueued_findings(path: str, policy: str = POLICY, kind: str = "yunikorn") -> Sequence[str]:
    queues = {"schedulers": {"kueue": {}}, "unqueued": path, "groups": "kubernetes"}
    return found_with({"queues": queues}, policy, kind)


def found_with(
    admission: Mapping[str, object], policy: str = POLICY, kind: str = "yunikorn", **settings: Any
) -> list[str]:
    loaded = load_policy(kind, policy.encode(), "policy")
    assert loaded.partitions
    given = Settings.model_validate({"admission": admission, **settings})
    return [str(each) for each in finish(review_policy(given, loaded.partitions, None))]


@pytest.mark.parametrize("section", ["queues", "authorize", "user_info"])
@pytest.mark.parametrize("groups", ["directory", "both", "kubernetes"])
@rows
def test_groups_of_a_directory_without_a_resolver(
    section: str, groups: str, policy: str, settings: dict[str, Any], *, looks_up: bool
) -> None:
    """The resolver of the policy or of the settings counts; `none` and `no_groups` find nobody."""
    more: dict[str, object] = {"schedulers": {"kueue": {}}} if section == "queues" else {}
    found = found_with({section: {**more, "groups": groups}}, policy, **settings)
    warning = (
        f"settings: warning: admission.{section}.groups: is {groups}, but no resolver looks up"
        " groups for the partition default (set partitions.default.resolver, or groups: kubernetes)"
    )
    assert found == ([] if looks_up or groups == "kubernetes" else [warning])


def test_a_yarn_cluster_has_no_resolver_by_default() -> None:
    policy = '<allocations><queue name="root"/></allocations>'
    queues: dict[str, object] = {"schedulers": {"kueue": {}}}
    [found] = found_with({"queues": queues}, policy, "fair-scheduler")
    assert "admission.queues.groups: is directory, but no resolver" in found


@pytest.mark.parametrize("key", ["controllers", "exempt"])
@rows
def test_patterns_that_match_everyone(key: str, pattern: str, *, matches: bool) -> None:
    queues = {"schedulers": {"kueue": {}}, key: ["^ops$", pattern]}
    found = [str(each) for each in review_settings(settings_with(queues=queues))]
    everyone = [each for each in found if "matches every user, so nobody is checked" in each]
    assert len(everyone) == matches
    assert all(f"warning: admission.queues.{key}[1]: the pattern" in each for each in everyone)


@rows
def test_no_policy(admission: dict[str, object], section: str) -> None:
    found = [
        str(each) for each in review_settings(Settings.model_validate({"admission": admission}))
    ]
    warning = (
        f"settings: warning: admission.{section}: no policy is configured, so the embedded default"
        " decides (set policy.path, or policy.configs for YuniKorn's ConfigMaps)"
    )
    assert found == ([warning] if section else [])
    with_policy = Settings.model_validate({"admission": admission, "policy": {"configs": "/etc/c"}})
    assert [*review_settings(with_policy)] == []


@rows
def test_clients_that_are_not_verified(
    mode: str, tls: dict[str, str] | None, *, warned: bool
) -> None:
    files = {"certificate_file": "/tls/tls.crt", "key_file": "/tls/tls.key"}
    more = {} if tls is None else {"tls": {**files, **tls}}
    raw = {"queues": {"mode": mode, "schedulers": {"kueue": {}}}, **more}
    context: set[Path] = set()
    settings = Settings.model_validate(
        {"policy": {"path": "queues.yaml"}, "admission": raw}, context=context
    )
    found = [str(each) for each in review_settings(settings)]
    assert bool(found) is warned
    assert all("admission.tls: anyone who can connect can post" in each for each in found)


def test_lines_of_settings() -> None:
    text = """\
policy: {path: queues.yaml}
admission:
  queues:
    schedulers: {kueue: {}}
    unqueued: root.nosuch
    exempt: [ops, '.*']
"""
    absent: set[Path] = set()
    settings, source_map = load_with_origins(
        Path("queuegate.yaml"), {}, (), text.encode(), absent_files=absent
    )
    loaded = load_policy("yunikorn", POLICY.encode(), "queues.yaml")
    steps = review_policy(settings, loaded.partitions or {}, None, source_map=source_map)
    found = [*review_settings(settings, source_map), *finish(steps)]
    assert [f"{each}"[:60].partition(" warning")[0] for each in found] == [
        "queuegate.yaml:6:14:",
        "queuegate.yaml:6:19:",
        "queuegate.yaml:3:3:",
        "queuegate.yaml:5:15:",
    ]


@rows
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
    settings = settings_with(queues={"schedulers": {"kai": {}}})
    assert sum(1 for _ in review_policy(settings, loaded.partitions, None)) == 4
    index = loaded.partitions["default"].last_levels("root")
    assert index.paths == {"root": "root", "dev": "root.dev", "ml": "root.ml", "gpu": "root.ml.gpu"}
    assert sum(1 for _ in review_policy(settings, loaded.partitions, None)) == 0
    assert loaded.partitions["default"].last_levels("root") is index
