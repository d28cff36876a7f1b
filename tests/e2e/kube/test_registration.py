"""The webhook configurations for queues, accepted and evaluated by a real kube-apiserver."""

import base64
import json
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
import trustme

from queuegate_server.admission.registration.configurations import Service, webhook_configurations
from queuegate_server.admission.registration.yaml_writer import without_comments
from queuegate_server.settings.admission import Admission
from queuegate_server.settings.queue_schedulers import FLAT, KUEUE, YUNIKORN
from tests.e2e.kube.cluster import ApiServer
from tests.e2e.kube.reviews import SPEC, created
from tests.support.eventually import eventually
from tests.support.rows import rows, table

pytestmark = pytest.mark.timeout(300)
KEY = "kueue.x-k8s.io/queue-name"
NAMED = {KEY: "a"}
CONTROLLER = "system:serviceaccount:kube-system:replicaset-controller"
CONFIGURATIONS = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
CORE, APPS, BATCH = "/api/v1", "/apis/apps/v1", "/apis/batch/v1"
MERGE = "merge-patch+json"
QUEUES: dict[str, Any] = {
    "mode": "deny",
    "exempt": ["^portal$"],
    "schedulers": {
        **{name: {} for name in (YUNIKORN, KUEUE)},
        **{name: {"below": f"root.{name}"} for name in FLAT},
        "places": [
            {"label": "example.com/queue"},
            {"kind": "example.com/Run", "field": "data.queue"},
        ],
    },
}


class Recorder:
    """Allows every request, and records which webhook was asked about it."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, str]] = []
        self.ca = trustme.CA()
        recorder = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                request = json.loads(body)["request"]
                subresource = request.get("subResource")
                kind = request["kind"]["kind"] + (f"/{subresource}" if subresource else "")
                recorder.asked.append((self.path.rpartition("/")[2].partition("?")[0], kind))
                response = {"uid": request["uid"], "allowed": True}
                answer = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview"}
                content = json.dumps({**answer, "response": response}).encode()
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, *_: object) -> None:
                """Write nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.ca.issue_cert("127.0.0.1").configure_cert(context)
        self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    def client_config(self, webhook: str) -> dict[str, str]:
        bundle = base64.b64encode(self.ca.cert_pem.bytes()).decode()
        url = f"https://127.0.0.1:{self._server.server_port}/{webhook}"
        return {"url": url, "caBundle": bundle}

    def taken(self) -> list[tuple[str, str]]:
        asked, self.asked = self.asked, []
        return asked

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def register(cluster: ApiServer, recorder: Recorder, name: str, **queues: Any) -> None:
    """Register the configuration that fits the settings."""
    settings = Admission.model_validate({"queues": {**QUEUES, **queues}})
    documents = webhook_configurations(settings, Service("gates", "webhook"), name)
    document = without_comments(documents[-1])
    for each in document["webhooks"]:
        each["clientConfig"] = recorder.client_config(each["name"].partition(".")[0])
    created(cluster.ask("admin", "POST", CONFIGURATIONS, document))


@pytest.fixture(scope="module")
def recorder(cluster: ApiServer) -> Iterator[Recorder]:
    for name in ("dev", "gates"):
        created(cluster.ask("admin", "POST", f"{CORE}/namespaces", {"metadata": {"name": name}}))
    for kind, plural in (("Run", "runs"), ("Other", "others"), ("RefreshToken", "refreshtokens")):
        define(cluster, kind, plural)
    recorder = Recorder()
    register(cluster, recorder, "test")

    def is_asked() -> bool:
        probe = {"metadata": {"name": "probe", "labels": NAMED}, "data": {"a": "b"}}
        path = f"{CORE}/namespaces/dev/configmaps?dryRun=All"
        created(cluster.ask("bob", "POST", path, probe))
        return bool(recorder.taken())

    eventually(is_asked, True)
    yield recorder
    recorder.close()


def define(cluster: ApiServer, kind: str, plural: str) -> None:
    """Define a kind in the group example.com, whose objects may have any members."""
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": schema},
        "subresources": {"status": {}},
    }
    definition = {
        "metadata": {"name": f"{plural}.example.com"},
        "spec": {
            "group": "example.com",
            "names": {"kind": kind, "plural": plural},
            "scope": "Namespaced",
            "versions": [version],
        },
    }
    path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    created(cluster.ask("admin", "POST", path, definition))
    served = f"/apis/example.com/v1/namespaces/dev/{plural}"
    eventually(lambda: cluster.ask("admin", "GET", served).status_code, 200)


def template(labels: dict[str, str]) -> dict[str, Any]:
    return {"metadata": {"labels": {"a": "b", **labels}}, "spec": SPEC}


def job(labels: dict[str, str]) -> dict[str, Any]:
    return {"template": {**template(labels), "spec": {**SPEC, "restartPolicy": "Never"}}}


RUNS, OTHERS = "/apis/example.com/v1:runs", "/apis/example.com/v1:others"
TOKENS = "/apis/example.com/v1:refreshtokens"
LISTED, OTHER, NOBODY = ["listed"], ["others"], list[str]()


@rows
def test_who_is_asked_about_a_new_object(
    cluster: ApiServer, recorder: Recorder, where: str, content: dict[str, Any], asked: list[str]
) -> None:
    assert create(cluster, recorder, where, content) == asked


def create(
    cluster: ApiServer,
    recorder: Recorder,
    where: str,
    content: dict[str, Any],
    *,
    user: str = "bob",
    name: str = "",
) -> list[str]:
    """Create an object, only as a dry run if it has no name; return the webhooks asked."""
    group, _, plural = where.partition(":")
    kinds = {RUNS: "Run", OTHERS: "Other", TOKENS: "RefreshToken"}
    metadata = {**content.get("metadata", {}), "name": name or "new"}
    document = {**content, "metadata": metadata}
    if where in kinds:
        document |= {"apiVersion": "example.com/v1", "kind": kinds[where]}
    query = "" if name else "?dryRun=All"
    recorder.taken()
    created(cluster.ask(user, "POST", f"{group}/namespaces/dev/{plural}{query}", document))
    return [webhook for webhook, _ in recorder.taken()]


@pytest.mark.parametrize("user", [CONTROLLER, "portal"])
def test_some_requesters_need_no_answer(cluster: ApiServer, recorder: Recorder, user: str) -> None:
    content = {"spec": SPEC, "metadata": {"labels": NAMED}}
    assert create(cluster, recorder, f"{CORE}:pods", content, user=user) == NOBODY
    assert create(cluster, recorder, f"{CORE}:configmaps", content, user=user) == NOBODY


def test_secrets_are_sent_nowhere(cluster: ApiServer, recorder: Recorder) -> None:
    labels = {"metadata": {"labels": NAMED}}
    assert create(cluster, recorder, f"{CORE}:configmaps", labels) == ["others"]
    assert create(cluster, recorder, f"{CORE}:secrets", labels) == NOBODY


def owned(*names: str) -> dict[str, Any]:
    """Return a change of nothing but the owners."""
    kind = {"apiVersion": "v1", "kind": "ConfigMap"}
    return {
        "metadata": {"ownerReferences": [{**kind, "name": each, "uid": each} for each in names]}
    }


def test_changes(cluster: ApiServer, recorder: Recorder) -> None:
    """Only changes of a name, or of a custom resource's specification, are reviewed."""
    pod = {"spec": SPEC, "metadata": {"labels": NAMED}}
    create(cluster, recorder, f"{CORE}:pods", pod, name="old")
    run = {"data": {"queue": "a"}, "metadata": {"labels": NAMED}}
    create(cluster, recorder, RUNS, run, name="old")

    def patch(path: str, content: dict[str, Any]) -> list[str]:
        answer = cluster.ask("bob", "PATCH", path, content, "merge-patch+json")
        assert answer.status_code == 200, answer.text
        # The API server repeats an update, with its reviews, if its cache was out of date.
        return sorted({f"{webhook} {kind}" for webhook, kind in recorder.taken()})

    pods, runs = f"{CORE}/namespaces/dev/pods/old", "/apis/example.com/v1/namespaces/dev/runs/old"
    unrelated = {"metadata": {"labels": {"other": "x"}, "finalizers": ["example.com/x"]}}
    renamed = {"metadata": {"labels": {KEY: "b"}}}
    removed = {"metadata": {"labels": {KEY: None}, "finalizers": None}}
    assert patch(pods, unrelated) == NOBODY
    assert patch(f"{pods}/status", {"status": {"message": "x"}}) == NOBODY
    assert patch(f"{pods}/status", renamed) == ["listed Pod/status"]
    assert patch(pods, removed) == ["listed Pod"]
    assert patch(pods, owned("a")) == NOBODY
    pool = {"metadata": {"labels": {"kai.scheduler/node-pool": "x"}}}
    assert patch(pods, pool) == ["listed Pod"]
    assert patch(pods, owned("b")) == ["listed Pod"]
    assert patch(pods, owned()) == NOBODY
    assert patch(runs, unrelated) == NOBODY
    assert patch(f"{runs}/status", {"status": {"a": 1}}) == NOBODY
    assert patch(runs, {"data": {"other": 1}}) == ["listed Run"]
    assert patch(runs, removed) == ["listed Run"]
    assert patch(runs, owned("a")) == ["listed Run"]
    assert patch(runs, {"metadata": {"finalizers": ["example.com/x"]}}) == NOBODY
    assert patch(runs, {"metadata": {"finalizers": None}}) == NOBODY
    recorder.taken()
    assert cluster.ask("bob", "DELETE", runs).status_code == 200
    assert recorder.taken() == []


def test_bindings_and_namespaces(cluster: ApiServer, recorder: Recorder) -> None:
    create(cluster, recorder, f"{CORE}:pods", {"spec": SPEC}, name="bound")
    target = {"target": {"kind": "Node", "name": "n"}}
    path = f"{CORE}/namespaces/dev/pods/bound/binding?dryRun=All"
    created(cluster.ask("bob", "POST", path, {"metadata": {"name": "bound"}, **target}))
    assert recorder.taken() == []
    named = {"metadata": {"name": "bound", "annotations": {"yunikorn.apache.org/queue": "a"}}}
    created(cluster.ask("bob", "POST", path, {**named, **target}))
    assert recorder.taken() == [("listed", "Binding/binding")]
    parent = {"yunikorn.apache.org/parentqueue": "root.a"}
    namespace = {"metadata": {"name": "new", "annotations": parent}}
    created(cluster.ask("bob", "POST", f"{CORE}/namespaces?dryRun=All", namespace))
    assert recorder.taken() == [("listed", "Namespace")]


@contextmanager
def all_kinds(cluster: ApiServer, recorder: Recorder) -> Iterator[None]:
    """Have the API server ask about all kinds in a block."""

    def is_asked() -> bool:
        return "unlisted" in create(cluster, recorder, OTHERS, {"data": {"queue": "a"}})

    register(cluster, recorder, "all", kinds="all")
    try:
        eventually(is_asked, True)
        yield
    finally:
        created(cluster.ask("admin", "DELETE", f"{CONFIGURATIONS}/all-queues"))
        eventually(is_asked, False)


def test_all_kinds(cluster: ApiServer, recorder: Recorder) -> None:
    """Unlisted custom resources are reviewed when their content changes."""
    two = ["listed", "others"]

    def asked(where: str, content: dict[str, Any]) -> list[str]:
        # The configuration of the other tests is registered as well.
        found = create(cluster, recorder, where, content)
        return sorted({*found} - set(two)) or found

    with all_kinds(cluster, recorder):
        assert asked(OTHERS, {"data": {"queue": "a"}}) == ["unlisted"]
        assert asked(OTHERS, {"metadata": {"annotations": NAMED}}) == ["others", "others"]
        assert asked(RUNS, {"spec": {}}) == ["listed", "listed"]
        assert asked(TOKENS, {"token": "secret"}) == NOBODY

        create(cluster, recorder, OTHERS, {"data": {"a": 1}}, name="changed")
        one = "/apis/example.com/v1/namespaces/dev/others/changed"

        def patch(content: dict[str, Any], subresource: str = "") -> set[str]:
            recorder.taken()
            path = f"{one}{subresource}"
            created(cluster.ask("bob", "PATCH", path, content, "merge-patch+json"))
            return {webhook for webhook, _ in recorder.taken()}

        assert patch({"metadata": {"labels": {"other": "x"}, "finalizers": None}}) == set()
        assert patch({"status": {"a": 1}}, "/status") == set()
        assert patch({"data": {"a": 2}}) == {"unlisted"}
        assert patch(owned("a")) == {"unlisted"}
        assert patch(owned()) == set()


DEV = "namespaces/dev"
NEVER_SENT: list[tuple[str, dict[str, Any]]] = table(__file__, "NEVER_SENT")
"""With `kinds: all`: Secrets, tokens, roles, nodes, leases, events, endpoints."""


def test_what_is_never_sent(cluster: ApiServer, recorder: Recorder) -> None:
    accounts = f"{CORE}/{DEV}/serviceaccounts"
    created(cluster.ask("admin", "POST", accounts, {"metadata": {"name": "x"}}))
    with all_kinds(cluster, recorder):
        for path, content in NEVER_SENT:
            recorder.taken()
            created(cluster.ask("admin", "POST", path, content))
            assert recorder.taken() == [], path
        # The status of nodes is what changes most.
        status = {"status": {"conditions": [{"type": "Ready", "status": "True"}]}}
        created(cluster.ask("admin", "PATCH", f"{CORE}/nodes/n/status", status, MERGE))
        assert recorder.taken() == []


def test_objects_without_a_queue(cluster: ApiServer, recorder: Recorder) -> None:
    """With `unqueued: deny`, listed kinds are reviewed when they are created."""
    register(cluster, recorder, "unqueued", unqueued="deny")

    def asked(where: str = f"{CORE}:pods", content: dict[str, Any] | None = None) -> list[str]:
        return create(cluster, recorder, where, content or {"spec": SPEC})

    try:
        eventually(asked, LISTED)
        assert asked(f"{BATCH}:jobs", {"spec": job({})}) == LISTED
        assert asked(f"{CORE}:configmaps", {"data": {}}) == NOBODY
    finally:
        created(cluster.ask("admin", "DELETE", f"{CONFIGURATIONS}/unqueued-queues"))
        eventually(asked, NOBODY)
