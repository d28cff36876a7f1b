"""A webhook that is away: which requests continue, and which are refused."""

import asyncio
import itertools
import signal
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.e2e.kube.cluster import ApiServer
from tests.e2e.kube.queue_checks import (
    CONFIGURATIONS,
    DRY,
    JOBS,
    KUEUE,
    NAMESPACE,
    QueueWebhook,
    checked,
    enforced_by,
    job,
    serving,
    submit,
    write_settings,
)
from tests.e2e.kube.reviews import PODS, SPEC, created, make_namespaces, pod
from tests.support.eventually import eventually
from tests.support.fakes.tcp_proxy import Proxy, proxy_to

pytestmark = pytest.mark.timeout(300)
YUNIKORN = "yunikorn.apache.org/queue"
CONTROLLER = "system:serviceaccount:kube-system:replicaset-controller"
DEPLOYMENTS = f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments"
CONFIG_MAPS = f"/api/v1/namespaces/{NAMESPACE}/configmaps"
DRAIN = ("--set", "drain.delay=2s")
"""Less than in the manifests, to save time."""
QUEUES: dict[str, Any] = {
    "mode": "deny",
    "groups": "kubernetes",
    "schedulers": {"yunikorn": {}, "kueue": {}},
}


@pytest.fixture(scope="module", autouse=True)
def namespaces(cluster: ApiServer) -> None:
    make_namespaces(cluster)


def deployment(name: str, labels: dict[str, str]) -> dict[str, Any]:
    template = {"metadata": {"labels": {"a": "b", **labels}}, "spec": SPEC}
    spec = {"selector": {"matchLabels": {"a": "b"}}, "template": template}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name}, "spec": spec}


def labelled(name: str) -> dict[str, Any]:
    thing = pod(name)
    thing["metadata"]["labels"] = {YUNIKORN: "root.open"}
    return thing


def stop(webhook: QueueWebhook) -> None:
    webhook.server.process.send_signal(signal.SIGSTOP)


def kill(webhook: QueueWebhook) -> None:
    webhook.server.process.kill()
    webhook.server.process.wait(30)


@pytest.mark.parametrize("fail", [stop, kill])
def test_objects_without_a_queue_continue(
    cluster: ApiServer, tmp_path: Path, fail: Callable[[QueueWebhook], None]
) -> None:
    """Without the webhook, objects that name a queue are refused, and nothing else is."""
    suffix = fail.__name__
    old = f"old-{suffix}"
    with checked(cluster, tmp_path, **QUEUES) as webhook:
        created(cluster.ask("bob", "POST", DEPLOYMENTS, deployment(old, {YUNIKORN: "root.open"})))
        created(submit(cluster, old, "team-open", query=""))
        fail(webhook)
        try:
            for path, thing in (
                (JOBS, job("named", {KUEUE: "team-open"})),
                (PODS, labelled("named")),
                (DEPLOYMENTS, deployment("named", {YUNIKORN: "root.open"})),
            ):
                answer = cluster.ask("bob", "POST", f"{path}{DRY}", thing)
                assert answer.status_code == 500, answer.text
                assert "failed calling webhook" in answer.json()["message"]
            for path, thing in (
                (JOBS, job("plain")),
                (PODS, pod("plain")),
                (DEPLOYMENTS, deployment("plain", {})),
                (CONFIG_MAPS, {"metadata": {"name": "plain"}}),
            ):
                created(cluster.ask("bob", "POST", f"{path}{DRY}", thing))
            # The pods of Deployments that were accepted before.
            created(cluster.ask(CONTROLLER, "POST", f"{PODS}{DRY}", labelled("child")))
            scale = {"spec": {"replicas": 3}}
            one = f"{DEPLOYMENTS}/{old}"
            created(cluster.ask("bob", "PATCH", f"{one}/scale", scale, "merge-patch+json"))
            change = {"metadata": {"labels": {"unrelated": "x"}}}
            created(cluster.ask("bob", "PATCH", one, change, "merge-patch+json"))
            status = {"status": {"replicas": 2}}
            created(cluster.ask("admin", "PATCH", f"{one}/status", status, "merge-patch+json"))
            options = {"propagationPolicy": "Background"}
            created(cluster.ask("bob", "DELETE", one, options))
            created(cluster.ask("bob", "DELETE", f"{JOBS}/{old}", options))
        finally:
            webhook.server.process.send_signal(signal.SIGCONT)


def test_the_checks_can_be_switched_off(cluster: ApiServer, tmp_path: Path) -> None:
    """The command that the manifest names, for an emergency."""
    with checked(cluster, tmp_path, **QUEUES) as webhook:
        kill(webhook)
        assert submit(cluster, "x", "team-closed").status_code == 500
        name = "queuegate-admission-queues"
        created(cluster.ask("admin", "DELETE", f"{CONFIGURATIONS}/{name}"))
        eventually(lambda: submit(cluster, "x", "team-closed").status_code, 201)


def test_warnings_depend_on_nothing(cluster: ApiServer, tmp_path: Path) -> None:
    with checked(cluster, tmp_path, **{**QUEUES, "mode": "warn"}) as webhook:
        answer = submit(cluster, "x", "team-closed")
        created(answer)
        assert "bob may not submit to" in answer.headers["Warning"]
        kill(webhook)
        answer = submit(cluster, "x", "team-closed")
        created(answer)
        assert "bob may not submit to" not in answer.headers.get("Warning", "")


def test_objects_must_name_a_queue(cluster: ApiServer, tmp_path: Path) -> None:
    """With `unqueued: deny`, creating objects of listed kinds depends on the webhook."""
    with checked(cluster, tmp_path, **{**QUEUES, "unqueued": "deny"}) as webhook:
        plain = cluster.ask("bob", "POST", f"{JOBS}{DRY}", job("plain"))
        assert plain.status_code == 403
        assert "names no queue" in plain.json()["message"]
        created(submit(cluster, "removed", "team-open", query=""))
        gone = {"metadata": {"labels": {KUEUE: None}}}
        answer = cluster.ask("bob", "PATCH", f"{JOBS}/removed", gone, "merge-patch+json")
        assert answer.status_code == 403
        created(
            cluster.ask("bob", "DELETE", f"{JOBS}/removed", {"propagationPolicy": "Background"})
        )
        kill(webhook)
        for path, thing in ((JOBS, job("plain")), (PODS, pod("plain"))):
            assert cluster.ask("bob", "POST", f"{path}{DRY}", thing).status_code == 500
        config_map = {"metadata": {"name": "plain"}}
        created(cluster.ask("bob", "POST", f"{CONFIG_MAPS}{DRY}", config_map))
        created(cluster.ask(CONTROLLER, "POST", f"{PODS}{DRY}", pod("child")))


async def test_a_rolling_update_fails_nothing(cluster: ApiServer, tmp_path: Path) -> None:
    """Webhooks behind one address are replaced one after the other, as by a Deployment."""
    async with proxy_to(0) as service:
        # The proxy needs the event loop.
        await asyncio.to_thread(replace_under_load, cluster, service, tmp_path / "settings")


def replace_under_load(cluster: ApiServer, service: Proxy, folder: Path) -> None:
    config, ca = write_settings(folder, QUEUES)
    with ExitStack() as stack:
        old = stack.enter_context(ExitStack())
        service.target = port_of(old.enter_context(serving(replica(config, 0), ca, *DRAIN)))
        stack.enter_context(enforced_by(cluster, config, ca, f"127.0.0.1:{service.port}"))
        ends = threading.Event()

        def load(user: int) -> int:
            """Return the number of Jobs that were submitted, all of them with the right answer."""
            for number in itertools.count():
                if ends.is_set():
                    return number
                queue, expected = (("team-open", 201), ("team-closed", 403))[number % 2]
                answer = submit(cluster, f"load-{user}", queue)
                assert answer.status_code == expected, answer.text
            raise AssertionError

        with ThreadPoolExecutor(4) as pool:
            loads = [pool.submit(load, user) for user in range(4)]
            try:
                for number in range(1, 4):
                    new = stack.enter_context(ExitStack())
                    webhook = new.enter_context(serving(replica(config, number), ca, *DRAIN))
                    service.target = port_of(webhook)
                    old.close()  # SIGTERM, while its connections are in use
                    old = new
            finally:
                ends.set()
            for each in loads:
                assert each.result(60) > 1


def replica(config: Path, number: int) -> Path:
    """Return settings with an audit log of its own, as a pod has one."""
    settings = yaml.safe_load(config.read_text())
    # Syncing to a busy disk may take longer than a review waits for its record.
    settings["audit"] |= {"path": str(config.with_name(f"audit-{number}.log")), "fsync": "never"}
    own = config.with_name(f"queuegate-{number}.yaml")
    own.write_text(yaml.safe_dump(settings))
    return own


def port_of(webhook: QueueWebhook) -> int:
    return int(webhook.address.rpartition(":")[2])
