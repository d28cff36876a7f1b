"""Names that operators read outside labels, annotations and fields, on a real API server."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.e2e.kube.cluster import ApiServer
from tests.e2e.kube.custom_resources import RESOURCES, define
from tests.e2e.kube.queue_checks import (
    KUEUE,
    NAMESPACE,
    SCHEDULERS,
    QueueWebhook,
    register,
    serving,
    wait_until_enforced,
    write_settings,
)
from tests.e2e.kube.reviews import created, make_namespaces, refusal

pytestmark = pytest.mark.timeout(300)
ARGO = "system:serviceaccount:argo:argo"
WORKFLOWS = f"/apis/argoproj.io/v1alpha1/namespaces/{NAMESPACE}/workflows"
MERGE = "merge-patch+json"


@pytest.fixture(scope="module", autouse=True)
def webhook(cluster: ApiServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[QueueWebhook]:
    make_namespaces(cluster)
    groups = {
        *("apps.kruise.io", "argoproj.io", "clone.kubevirt.io", "flink.apache.org", "grove.io"),
        *("kubeflow.org", "snapshot.kubevirt.io", "sparkoperator.k8s.io", "workspace.devfile.io"),
    }
    define(cluster, [each for each in RESOURCES if each.group in groups])
    queues = {
        "mode": "deny",
        "groups": "kubernetes",
        "schedulers": SCHEDULERS,
        "controllers": [f"^{ARGO}$"],
    }
    config, ca = write_settings(tmp_path_factory.mktemp("queues"), queues)
    with serving(config, ca) as running:
        register(cluster, config, ca, running.address)
        wait_until_enforced(cluster)
        yield running


def stored(queue: str) -> dict[str, Any]:
    """Return the specification that Argo's controller keeps in the status, and executes."""
    template = {"name": "m", "metadata": {"labels": {KUEUE: queue}}, "container": {"image": "i"}}
    return {"entrypoint": "m", "templates": [template]}


@pytest.mark.parametrize(
    "status",
    [
        lambda queue: {"storedWorkflowTemplateSpec": stored(queue)},
        lambda queue: {"storedTemplates": {"namespaced/t/x": stored(queue)["templates"][0]}},
    ],
    ids=["specification", "template"],
)
def test_a_status_that_is_no_subresource(cluster: ApiServer, status: Any) -> None:
    """Everybody who may change a Workflow may change its status, from which Argo makes pods."""
    workflow = {
        "apiVersion": "argoproj.io/v1alpha1",
        "kind": "Workflow",
        "metadata": {"name": "by-status"},
        "spec": {"workflowTemplateRef": {"name": "t"}},
    }
    created(cluster.ask("bob", "POST", WORKFLOWS, workflow))
    one = f"{WORKFLOWS}/by-status"

    def patched(queue: str, user: str = "bob") -> Any:
        change = {"status": status(queue)}
        return cluster.ask("admin", "PATCH", one, change, MERGE, impersonated=user)

    try:
        assert "bob may not submit to root.namespaces.dev.team-closed" in refusal(
            patched("team-closed")
        )
        created(patched("team-open"))
        created(patched("team-closed", ARGO))
        phase = {"status": {"phase": "Running"}}
        created(cluster.ask("bob", "PATCH", one, phase, MERGE))
    finally:
        created(cluster.ask("bob", "DELETE", one))


def spark(**spec: Any) -> dict[str, Any]:
    """Return a SparkApplication."""
    return {
        "apiVersion": "sparkoperator.k8s.io/v1beta2",
        "kind": "SparkApplication",
        "metadata": {"name": "s"},
        "spec": {"mainApplicationFile": "local:///x.py", "driver": {}, "executor": {}, **spec},
    }


def united(**metadata: Any) -> dict[str, Any]:
    """Return a UnitedDeployment of Kruise with a subset that patches the metadata of the pods."""
    subset = {"name": "a", "patch": {"metadata": metadata}}
    return {
        "apiVersion": "apps.kruise.io/v1alpha1",
        "kind": "UnitedDeployment",
        "metadata": {"name": "u"},
        "spec": {
            "template": {"deploymentTemplate": {"spec": {"template": {"metadata": {**BOTH}}}}},
            "topology": {"subsets": [subset]},
        },
    }


LONG = {"yunikorn.apache.org/queue": "root.open"}
BOTH = {"labels": {"queue": "root.closed"}, "annotations": LONG}
"""YuniKorn reads the annotation, if it is in the pod."""
LABELS = {"labels": {"queue": "root.closed", **LONG}}
PODS: dict[str, Any] = {"containers": [{"name": "a", "image": "a"}]}
DEPLOYMENT = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "d", **LABELS},
    "spec": {
        "selector": {"matchLabels": LONG},
        "template": {"metadata": LABELS, "spec": PODS},
    },
}


@pytest.mark.parametrize(
    "thing",
    [
        # The operator copies labels, not annotations.
        {**spark(), "metadata": {"name": "s", **BOTH}},
        spark(driver={"template": {"metadata": LABELS}}),
        united(annotations=None),
        united(**{"$retainKeys": ["labels"]}),
        united(),  # a WorkloadSpread may patch it
        DEPLOYMENT,
    ],
)
def test_a_key_that_is_overridden_outside_a_pod(cluster: ApiServer, thing: dict[str, Any]) -> None:
    """An operator may remove the other key, so that YuniKorn reads this one."""
    group, kind = thing["apiVersion"], thing["kind"]
    path = f"/apis/{group}/namespaces/{NAMESPACE}/{kind.lower()}s?dryRun=All"
    answer = cluster.ask("bob", "POST", path, thing)
    assert "bob may not submit to root.closed" in refusal(answer)


@pytest.mark.parametrize("metadata", [BOTH, LABELS])
def test_a_key_that_is_overridden_in_a_pod(cluster: ApiServer, metadata: dict[str, Any]) -> None:
    """YuniKorn reads the other key."""
    pod = {"metadata": {"name": "p", **metadata}, "spec": PODS}
    path = f"/api/v1/namespaces/{NAMESPACE}/pods"
    created(cluster.ask("bob", "POST", path, pod))
    try:
        removed = {"metadata": {name: {"yunikorn.apache.org/queue": None} for name in metadata}}
        answer = cluster.ask("bob", "PATCH", f"{path}/p", removed, MERGE)
        assert "bob may not submit to root.closed" in refusal(answer)
    finally:
        created(cluster.ask("bob", "DELETE", f"{path}/p"))


def flink(configuration: dict[str, Any]) -> dict[str, Any]:
    """Return a FlinkDeployment."""
    return {
        "apiVersion": "flink.apache.org/v1beta1",
        "kind": "FlinkDeployment",
        "metadata": {"name": "f"},
        "spec": {"flinkConfiguration": configuration},
    }


def workflow(text: str) -> dict[str, Any]:
    """Return a Workflow whose pod has a label."""
    return {
        "apiVersion": "argoproj.io/v1alpha1",
        "kind": "Workflow",
        "metadata": {"name": "w"},
        "spec": {"podMetadata": {"labels": {KUEUE: text}}},
    }


def dry_run(cluster: ApiServer, thing: dict[str, Any]) -> Any:
    plural = f"{thing['kind'].lower()}s"
    path = f"/apis/{thing['apiVersion']}/namespaces/{NAMESPACE}/{plural}?dryRun=All"
    return cluster.ask("bob", "POST", path, thing)


def custom(version: str, kind: str, **spec: Any) -> dict[str, Any]:
    """Return an object of a custom kind."""
    return {"apiVersion": version, "kind": kind, "metadata": {"name": "c"}, "spec": spec}


def katib(**source: Any) -> dict[str, Any]:
    """Return an Experiment whose trials are made from a source."""
    return custom("kubeflow.org/v1beta1", "Experiment", trialTemplate=source)


def scheduled(specification: object) -> dict[str, Any]:
    """Return a ScheduledWorkflow of Kubeflow Pipelines."""
    workflow = {"spec": specification}
    return custom("kubeflow.org/v1beta1", "ScheduledWorkflow", workflow=workflow)


def workspace(*components: dict[str, Any]) -> dict[str, Any]:
    """Return a DevWorkspace."""
    template = {"components": list(components)}
    return custom("workspace.devfile.io/v1alpha2", "DevWorkspace", template=template)


CLONE = ("clone.kubevirt.io/v1beta1", "VirtualMachineClone")
RESTORE = ("snapshot.kubevirt.io/v1beta1", "VirtualMachineRestore")
TRIAL = {"spec": {"template": {"metadata": {"labels": {KUEUE: "team-open"}}, "spec": PODS}}}
POD_AS_TEXT = '{"apiVersion": "v1", "kind": "Pod"}'
LABEL_PATCH = (
    '{"op": "add", "path": "/spec/template/metadata/labels/queue", "value": "root.closed"}'
)
OTHER_PATCH = '{"op": "add", "path": "/spec/runStrategy", "value": "Halted"}'
WRITTEN_AS_TEXT = "the object is written as text"
PATCHED = "spec.patches[0]: the patch may change labels or annotations"
TEMPLATE = "the template is read from elsewhere"
UNKNOWN = {
    "driver-template": (
        spark(sparkConf={"spark.kubernetes.driver.podTemplateFile": "http://files.dev.svc/pod"}),
        f'spec.sparkConf["spark.kubernetes.driver.podTemplateFile"]: {TEMPLATE}',
    ),
    "executor-template": (
        spark(sparkConf={"spark.kubernetes.executor.podTemplateFile": "http://files.dev.svc/pod"}),
        f'spec.sparkConf["spark.kubernetes.executor.podTemplateFile"]: {TEMPLATE}',
    ),
    "pod-group-template": (
        spark(
            sparkConf={
                "spark.kubernetes.scheduler.volcano.podGroupTemplateFile": "http://files.dev.svc/g"
            }
        ),
        TEMPLATE,
    ),
    "template-with-a-sign": (
        spark(sparkConf={"spark.kubernetes.driver.podTemplateFile=http://x/?": "y"}),
        TEMPLATE,
    ),
    "application-as-option": (
        spark(mainApplicationFile="--conf", arguments=["a=b", "local:///x.py"]),
        "spec.mainApplicationFile: spark-submit would read the text as an option",
    ),
    "flink-template": (
        flink({"kubernetes.pod-template-file.jobmanager": "/opt/flink/artifacts/x"}),
        TEMPLATE,
    ),
    "nested-flink-template": (
        flink({"kubernetes": {"pod-template-file": {"default": "/opt/flink/x"}}}),
        TEMPLATE,
    ),
    "flink-labels": (
        flink({"kubernetes.jobmanager.labels": "a:b:c"}),
        "the labels or annotations cannot be read",
    ),
    "katib-configmap": (
        katib(configMap={"configMapNamespace": "web", "configMapName": "t", "templatePath": "p"}),
        f"spec.trialTemplate.configMap.configMapName: {TEMPLATE}",
    ),
    "kubeflow-pipelines": (
        scheduled(f'{{"podMetadata": {{"labels": {{"{KUEUE}": "team-closed"}}}}}}'),
        f"spec.workflow.spec: {WRITTEN_AS_TEXT}",
    ),
    "kubevirt-clone": (custom(*CLONE, patches=[LABEL_PATCH]), PATCHED),
    "kubevirt-restore": (custom(*RESTORE, patches=[LABEL_PATCH]), PATCHED),
    "devworkspace": (
        workspace({"name": "a", "kubernetes": {"inlined": POD_AS_TEXT}}),
        f"spec.template.components[0].kubernetes.inlined: {WRITTEN_AS_TEXT}",
    ),
    "devworkspace-plugin": (
        workspace({"plugin": {"components": [{"openshift": {"inlined": POD_AS_TEXT}}]}}),
        f"components[0].openshift.inlined: {WRITTEN_AS_TEXT}",
    ),
    "devworkspace-template": (
        custom(
            *("workspace.devfile.io/v1alpha2", "DevWorkspaceTemplate"),
            components=[{"name": "a", "kubernetes": {"inlined": POD_AS_TEXT}}],
        ),
        f"spec.components[0].kubernetes.inlined: {WRITTEN_AS_TEXT}",
    ),
    "argo-expression": (
        workflow("{{workflow.parameters.queue}}"),
        "an expression gives the key or the value",
    ),
}


@pytest.mark.parametrize("name", UNKNOWN)
def test_names_that_are_known_later(cluster: ApiServer, name: str) -> None:
    thing, reason = UNKNOWN[name]
    assert reason in refusal(dry_run(cluster, thing))


@pytest.mark.parametrize(
    "thing",
    [
        spark(sparkConf={"spark.kubernetes.driver.podTemplateContainerName": "c"}),
        spark(arguments=["--conf", "a=b"]),
        flink({"kubernetes.jobmanager.labels": "app:x", "taskmanager.numberOfTaskSlots": "2"}),
        workflow("team-open"),
        katib(trialSpec=TRIAL),
        scheduled({"podMetadata": {"labels": {KUEUE: "team-open"}}}),
        custom(*CLONE, patches=[OTHER_PATCH]),
        custom(*RESTORE, patches=[OTHER_PATCH]),
        workspace({"name": "a", "container": {"image": "i"}}),
    ],
    ids=[
        *("spark-properties", "spark-arguments", "flink", "argo", "katib", "kubeflow-pipelines"),
        *("kubevirt-clone", "kubevirt-restore", "devworkspace"),
    ],
)
def test_what_hides_no_name(cluster: ApiServer, thing: dict[str, Any]) -> None:
    created(dry_run(cluster, thing))


@pytest.mark.parametrize("value", [0, False], ids=str)
def test_values_that_are_no_text_are_checked(cluster: ApiServer, value: object) -> None:
    """The API server does not check the types in a resource that keeps unknown members."""
    thing = workflow("x")
    thing["spec"]["podMetadata"]["labels"] = {KUEUE: value}
    expected = f"bob may not submit to root.namespaces.dev.{str(value).lower()}"
    assert expected in refusal(dry_run(cluster, thing))
