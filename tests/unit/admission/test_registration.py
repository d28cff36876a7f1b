"""The webhook configurations that fit the settings."""

import base64
import json
from pathlib import Path
from typing import Any

import pytest
import trustme
import yaml
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from queuegate_server.admission.queues.kinds import (
    POD_KINDS,
    RESOURCES,
    TEMPLATE_KINDS,
    WORKLOAD_KINDS,
)
from queuegate_server.admission.queues.listed_kinds import TEMPLATES
from queuegate_server.admission.queues.places import FIELDS
from queuegate_server.admission.registration.configurations import Service, webhook_configurations
from queuegate_server.admission.registration.yaml_writer import COMMENT, render, without_comments
from queuegate_server.cli.admission import admission
from queuegate_server.settings.admission import Admission
from tests.support.rows import rows

SERVICE = Service("gates", "webhook")
KUEUE: dict[str, Any] = {"kueue": {}}
"""A key that counts only in listed kinds."""
OWN: dict[str, Any] = {"places": [{"kind": "x.example.com/Run", "field": "data.queue"}]}


def webhooks(**queues: Any) -> list[dict[str, Any]]:
    """Return the webhooks for /queues."""
    settings = Admission.model_validate({"queues": {"schedulers": KUEUE, **queues}})
    documents = webhook_configurations(settings, SERVICE, "a")
    found = [each for each in documents if each["metadata"]["name"] == "a-queues"]
    return [webhook for each in found for webhook in each["webhooks"]]


def conditions(webhook: dict[str, Any]) -> dict[str, str]:
    return {each["name"]: each["expression"] for each in webhook["matchConditions"]}


def resources(webhook: dict[str, Any]) -> set[str]:
    return {
        f"{group}/{resource}"
        for rule in webhook["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
    }


@rows
def test_failure_policy(queues: dict[str, Any], policies: set[str]) -> None:
    assert {each["failurePolicy"] for each in webhooks(**queues)} == policies


def test_two_webhooks_share_what_reviews_need() -> None:
    listed, others = webhooks(mode="deny")
    for each in (listed, others):
        assert each["sideEffects"] == "None"
        assert each["matchPolicy"] == "Equivalent"
        assert each["timeoutSeconds"] == 5
        assert each["clientConfig"]["service"]["path"] == "/queues"
        (selector,) = each["namespaceSelector"]["matchExpressions"]
        assert (selector["operator"], selector["values"]) == ("NotIn", ["kube-system", "gates"])
    assert resources(others) == {"*/*", "*/*/status"}
    assert {"/namespaces", "/pods", "/pods/status", "/pods/binding"} <= resources(listed)


@rows
def test_rules(schedulers: dict[str, Any], expected: set[str], absent: str) -> None:
    found = resources(webhooks(schedulers=schedulers)[0])
    assert expected <= found
    assert not any(each.startswith(absent) for each in found)


def test_all_kinds() -> None:
    """What is not listed is accepted while the webhook is away; nothing else changes."""
    *usual, unlisted = webhooks(mode="deny", kinds="all")
    assert usual == webhooks(mode="deny")
    assert unlisted["failurePolicy"] == "Ignore"
    assert resources(unlisted) == {"*/*"}
    expressions = conditions(unlisted)
    listed, others = (conditions(each) for each in usual)
    assert expressions["not-a-listed-kind"] == others["not-a-listed-kind"]
    assert expressions["no-queue-changes"] == f"!({others['a-queue-changes']})"
    assert expressions["the-requester-is-checked"] == listed["the-requester-is-checked"]
    for group in ("", "rbac.authorization.k8s.io", "authentication.k8s.io", "coordination.k8s.io"):
        assert f'"{group}"' in expressions["a-kind-that-may-contain-pods"]
    assert '!request.resource.resource.matches("' in expressions["a-kind-that-may-contain-pods"]
    *_, alone = webhooks(kinds="all", schedulers=OWN)
    assert "no-queue-changes" not in conditions(alone)


def test_no_kind_belongs_to_both_webhooks() -> None:
    """The second webhook excludes exactly the resources in the rules of the first."""
    listed, others = webhooks()
    excluded = conditions(others)["not-a-listed-kind"]
    for each in resources(listed):
        group, _, resource = each.partition("/")
        assert f'"{group}/{resource.partition("/")[0]}"' in excluded
    listed, others = webhooks(schedulers={**KUEUE, **OWN})
    assert conditions(others)["not-a-listed-kind"] == f"!({conditions(listed)['a-listed-kind']})"
    assert '"x.example.com/Run"' in conditions(listed)["a-listed-kind"]


def test_every_kind_of_the_places_has_a_resource() -> None:
    kinds = {each.kind for fields in FIELDS.values() for each in fields}
    assert kinds | {*POD_KINDS, *WORKLOAD_KINDS, *TEMPLATE_KINDS} <= RESOURCES.keys()
    assert len(set(TEMPLATES)) == len(TEMPLATES)
    assert all(name == name.lower() for name in RESOURCES.values())


def test_subresources_that_can_write_a_name() -> None:
    listed, _ = webhooks(unqueued="deny")
    found = {name.partition("/")[2] for name in resources(listed)}
    assert {name for name in found if "/" in name and not name.endswith("/status")} == {
        "namespaces/finalize",
        "pods/binding",
    }
    assert {"pods/status", "namespaces/status", "jobs/status"} <= found


def test_the_status_of_a_workload_counts_only_if_its_queue_changes() -> None:
    field = '[?"status"][?"admission"][?"clusterQueue"]'
    listed, others = webhooks()
    expression = conditions(listed)["a-queue-may-change"]
    assert f"oldObject != null && object{field} != oldObject{field}" in expression
    assert field not in conditions(others)["a-queue-changes"]
    assert field not in conditions(webhooks(schedulers={"volcano": {}})[0])["a-queue-may-change"]


@rows
def test_keys(schedulers: dict[str, Any], listed_keys: list[str], other_keys: list[str]) -> None:
    def first_keys(expression: str) -> Any:
        return json.loads(expression.partition(".exists(")[0])

    listed, others = webhooks(schedulers=schedulers)
    assert first_keys(conditions(listed)["a-queue-may-change"]) == listed_keys
    assert first_keys(conditions(others)["a-queue-changes"]) == other_keys


def test_fields_alone_need_one_webhook() -> None:
    (listed,) = webhooks(schedulers=OWN)
    expression = conditions(listed)["a-queue-may-change"]
    assert ".?metadata" not in expression
    assert "object[?member] != oldObject[?member]" in expression


def test_requesters() -> None:
    listed, others = webhooks(controllers=[r"^a\.b:"], exempt=['"x'])
    expected = (
        '!(request.userInfo.username.matches("^a\\\\.b:")\n'
        '|| request.userInfo.username.matches("\\"x"))'
    )
    for each in (listed, others):
        assert conditions(each)["the-requester-is-checked"] == expected
    assert "the-requester-is-checked" not in conditions(webhooks(controllers=[])[0])


@pytest.mark.parametrize("unqueued", ["deny", "root.default"])
def test_objects_without_a_queue(unqueued: str) -> None:
    listed, others = webhooks(unqueued=unqueued)
    asked = 'request.operation == "CREATE" && !has(request.subResource)'
    assert asked in conditions(listed)["a-queue-may-change"]
    assert f"With `unqueued: {unqueued}`" in listed[COMMENT]
    assert asked not in conditions(others)["a-queue-changes"]
    assert asked not in conditions(webhooks()[0])["a-queue-may-change"]


@rows
def test_configurations(settings: dict[str, Any], kinds: list[str]) -> None:
    documents = webhook_configurations(Admission.model_validate(settings), SERVICE, "a")
    assert [each["metadata"]["name"] for each in documents] == kinds


@given(
    st.lists(
        st.dictionaries(
            st.text(st.characters(codec="ascii", categories=["L"]), min_size=1),
            st.one_of(
                st.integers(),
                st.text(st.characters(min_codepoint=32, max_codepoint=126)),
                st.lists(st.sampled_from(["*", "", "no", "a/b", "x: y", "-", "1"]), max_size=40),
            ),
            min_size=1,
        ),
        min_size=1,
    )
)
def test_yaml_is_what_was_written(documents: list[dict[str, Any]]) -> None:
    nested = [
        {COMMENT: "first\nsecond", "list": [{COMMENT: "item", **each}], "object": each}
        for each in documents
    ]
    text = render(nested)
    assert list(yaml.safe_load_all(text)) == without_comments(nested)
    assert text.count("# item\n") == len(documents)


def run(folder: Path, settings: str, *arguments: str) -> tuple[int, str, str]:
    file = folder / "queuegate.yaml"
    file.write_text(settings)
    result = CliRunner().invoke(admission, ["manifest", "--config", str(file), *arguments])
    return result.exit_code, result.stdout, result.stderr


SETTINGS = """\
policy: {path: /policy/queues.yaml}
admission:
  tls: {certificate_file: /tls/tls.crt, key_file: /tls/tls.key}
  queues: {mode: deny, schedulers: {kueue: {}}}
"""


def test_command(tmp_path: Path) -> None:
    """Files that only the webhook's pod has need not exist. Keys are not printed."""
    ca = trustme.CA()
    leaf = ca.issue_cert("a")
    file = tmp_path / "ca.pem"
    file.write_bytes(leaf.private_key_pem.bytes() + ca.cert_pem.bytes())
    options = ("--service", "gates/hook", "--name", "q", "--ca-file", str(file))
    code, out, err = run(tmp_path, SETTINGS, *options)
    assert code == 0
    absent, warning = err.splitlines()
    assert absent == (
        "The policy was not checked: /policy/queues.yaml does not exist on this machine."
    )
    assert ": warning: admission.tls: anyone who can connect can post a review" in warning
    (document,) = yaml.safe_load_all(out)
    assert document["metadata"]["name"] == "q-queues"
    client = document["webhooks"][0]["clientConfig"]
    assert client["service"] == {
        "name": "hook",
        "namespace": "gates",
        "path": "/queues",
        "port": 443,
    }
    assert base64.b64decode(client["caBundle"]) == ca.cert_pem.bytes()
    code, out, _ = run(tmp_path, SETTINGS, "--set", "admission.queues.mode=off")
    nothing = "# Nothing is reviewed: admission.queues is not set, or every mode is off.\n"
    assert (code, out) == (0, nothing)


def test_only_the_configuration_for_queues(tmp_path: Path) -> None:
    settings = SETTINGS.replace("kueue", "yunikorn")
    annotated = ("--set", "admission.user_info.groups=kubernetes")
    everything = list(yaml.safe_load_all(run(tmp_path, settings, *annotated)[1]))
    assert len(everything) == 3
    (document,) = yaml.safe_load_all(run(tmp_path, settings, "--queues-only")[1])
    assert document["metadata"]["name"] == "queuegate-admission-queues"
    assert everything[-1] == document
    off = ("--set", "admission.queues.mode=off", "--queues-only")
    assert run(tmp_path, settings, *off)[1].startswith("# Nothing is reviewed")


@rows
def test_a_policy_that_the_webhook_would_refuse(
    tmp_path: Path, queues: str, status: int, said: str
) -> None:
    policy = tmp_path / "queues.yaml"
    policy.write_text(
        f"partitions:\n- {{name: default, queues: [{{name: root, queues: [{queues}]}}]}}\n"
    )
    settings = SETTINGS.replace("/policy/queues.yaml", str(policy)).replace("kueue", "kai")
    code, out, err = run(tmp_path, settings)
    assert code == status
    assert said in err
    assert bool(out) is (status == 0)


@rows
def test_mistakes(tmp_path: Path, settings: str, arguments: tuple[str, ...], said: str) -> None:
    code, _, err = run(tmp_path, settings, *arguments)
    assert code == 2
    assert said in err


def test_a_relative_policy_must_exist(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No volume of a pod would serve it under that name by accident."""
    monkeypatch.chdir(tmp_path)
    settings = SETTINGS.replace("/policy/queues.yaml", "queues.yaml")
    code, out, err = run(tmp_path, settings)
    assert (code, out) == (2, "")
    assert "1:16: error: policy.path: queues.yaml does not exist in this folder" in err
    assert "such as /etc/queuegate/settings/queues.yaml" in err
    (tmp_path / "queues.yaml").write_text("partitions: [{name: default, queues: [{name: root}]}]")
    code, out, err = run(tmp_path, settings)
    assert (code, "failurePolicy: Fail" in out) == (0, True), err
