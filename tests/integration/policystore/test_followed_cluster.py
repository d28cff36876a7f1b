"""The RBAC of a cluster is followed: changes, failures, lost changes, and what a server may lie."""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from queuegate.policy.decide import decide
from queuegate.policy.decision import Access
from queuegate_server.formats.kubernetes_rbac.compiler import RbacCompiler
from queuegate_server.formats.kubernetes_rbac.grants import RbacOptions
from queuegate_server.policy_age import PolicyTooOld
from queuegate_server.policystore.kubernetes import (
    api_client,
    cluster_policy,
    decoding,
    resource_watch,
)
from queuegate_server.policystore.kubernetes.account import Kubeconfig
from queuegate_server.policystore.kubernetes.cluster_policy import ClusterPolicy
from queuegate_server.runtime import pauses
from queuegate_server.runtime.pauses import Pauses
from tests.support.fakes.loop import wait_until
from tests.support.fakes.rbac_api import RbacApi, rbac_api

QUEUE = "root.localqueues.ml.training"
MAX_AGE = 600.0


class Following:
    """A policy that follows an API server, and what serves it."""

    def __init__(self, api: RbacApi, kubeconfig: Path) -> None:
        self.api = api
        self.later = 0.0
        """How many seconds more than have passed the clock shows."""
        account = Kubeconfig(kubeconfig)
        self.policy = ClusterPolicy(account, RbacOptions(), MAX_AGE, self.clock)
        self.served = self.policy.partition
        self.serves = True
        self.publications = 0

    def clock(self) -> float:
        return time.monotonic() + self.later

    async def publish(self) -> bool:
        self.publications += 1
        if self.serves:
            self.served = self.policy.partition
        return self.serves

    async def first(self) -> None:
        await self.policy.ready.wait()
        self.served = self.policy.partition

    def may(self, user: str, queue: str = QUEUE) -> bool:
        decision = decide(self.served, queue, Access.SUBMIT, user, ())
        assert decision is not None
        return decision.allowed

    async def until(self, user: str, *, may: bool) -> None:
        await wait_until(lambda: self.may(user) is may)

    @property
    def faults(self) -> str:
        return "\n".join(self.policy.faults)


@asynccontextmanager
async def following(folder: Path, *, empty: bool = False) -> AsyncIterator[Following]:
    async with rbac_api(folder) as (api, kubeconfig):
        if not empty:
            api.role()
            api.bind("team", "ann")
        followed = Following(api, kubeconfig)
        task = asyncio.create_task(followed.policy.run(followed.publish))
        try:
            yield followed
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resource_watch, "MIN_WATCH_SECONDS", 0.0)
    monkeypatch.setattr(resource_watch, "END_SECONDS", 0)
    monkeypatch.setattr(pauses, "API_SERVER", Pauses(0.01, most=0.05))
    monkeypatch.setattr(cluster_policy, "GATHER_SECONDS", 0.0)


async def test_changes_are_followed(tmp_path: Path) -> None:
    async with following(tmp_path) as followed:
        await followed.first()
        assert followed.may("ann")
        assert not followed.may("bob")
        followed.api.bind("team", "bob")
        await followed.until("bob", may=True)
        assert not followed.may("ann")
        followed.api.delete("rolebindings", "ml", "team")
        await followed.until("bob", may=False)
        followed.api.bind("all", "eve", namespace="")
        await followed.until("eve", may=True)
        followed.api.role("other")
        await followed.until("eve", may=False)
        assert followed.may("eve", "root.localqueues.web.other")
        assert followed.faults == ""


async def test_queues_are_listed_and_followed(tmp_path: Path) -> None:
    async with following(tmp_path) as followed:
        followed.api.put("localqueues", "ml", "training")
        followed.api.put("queues", "", "gpu")
        await followed.first()
        # KAI's and Volcano's queues have one name in the API, and two groups.
        await wait_until(lambda: "root.kai-queues.gpu" in followed.served.queues)
        assert {QUEUE, "root.volcano-queues.gpu"} <= followed.served.queues.keys()
        followed.api.delete("localqueues", "ml", "training")
        await wait_until(lambda: QUEUE not in followed.served.queues)


async def test_a_change_that_concerns_no_queue_is_not_served(tmp_path: Path) -> None:
    async with following(tmp_path) as followed:
        await followed.first()
        for number in range(20):
            followed.api.bind(f"view-{number}", "ann", to="view")
        followed.api.bind("last", "bob")
        await followed.until("bob", may=True)
        assert followed.publications <= 2


async def test_aggregated_roles(tmp_path: Path) -> None:
    """The API server fills in their rules, or has none yet."""
    async with following(tmp_path) as followed:
        rule = {"clusterRoleSelectors": [{"matchLabels": {"a": "b"}}]}
        followed.api.put("clusterroles", "", "view", rules=None, aggregationRule=rule)
        await followed.first()
        assert followed.may("ann")
        assert followed.faults == ""


async def test_many_objects_come_in_pages(tmp_path: Path) -> None:
    async with following(tmp_path) as followed:
        for number in range(3 * resource_watch.PAGE_OBJECTS + 1):
            followed.api.bind(f"b{number}", f"user-{number}")
        await followed.first()
        assert followed.may(f"user-{3 * resource_watch.PAGE_OBJECTS}")


async def test_large_objects_come_in_smaller_pages(tmp_path: Path) -> None:
    async with following(tmp_path) as followed:
        for number in range(12):
            followed.api.bind(f"b{number}", f"user-{number}", "x" * 400_000)
        await followed.first()
        assert all(followed.may(f"user-{number}") for number in range(12))
        limits = {each for each in followed.api.requests if "rolebindings?limit" in each}
        assert len(limits) > 2


async def test_a_missed_deletion_does_not_survive(tmp_path: Path) -> None:
    async with following(tmp_path) as followed:
        await followed.first()
        followed.api.delete("rolebindings", "ml", "team", silently=True)
        await asyncio.sleep(0.5)
        assert followed.may("ann")  # nobody told
        followed.api.forget()
        await followed.until("ann", may=False)


async def test_the_list_after_an_interrupted_watch_shows_a_deletion(tmp_path: Path) -> None:
    async with following(tmp_path) as followed:
        await followed.first()
        followed.api.delete("rolebindings", "ml", "team", silently=True)

        async def interrupt(request: web.Request) -> web.StreamResponse | None:
            if "watch" not in request.query:
                return None
            response = web.StreamResponse()
            await response.prepare(request)
            await response.write(b'{"type":')
            assert request.transport is not None
            request.transport.abort()
            return response

        followed.api.instead = interrupt
        await followed.until("ann", may=False)


@pytest.mark.parametrize("status", [401, 403, 404, 409, 429, 500, 503])
async def test_a_refusal_is_not_an_empty_list(tmp_path: Path, status: int) -> None:
    async with following(tmp_path) as followed:
        await followed.first()
        followed.api.statuses["rolebindings"] = status
        followed.api.forget()
        await wait_until(lambda: f"({status})" in followed.faults or str(status) in followed.faults)
        assert followed.may("ann")
        followed.later += MAX_AGE + 60
        assert followed.policy.age.is_too_old
        with pytest.raises(PolicyTooOld, match="no sign of life from the API server"):
            followed.policy.age.check()
        followed.api.bind("team", "bob")
        followed.api.statuses.clear()
        await followed.until("bob", may=True)
        assert not followed.may("ann")
        await wait_until(lambda: not followed.policy.age.is_too_old)


async def test_queues_that_may_not_be_listed_do_not_stop_rbac(tmp_path: Path) -> None:
    async with following(tmp_path) as followed:
        followed.api.statuses["localqueues"] = 403
        await followed.first()
        assert followed.may("ann")
        assert "localqueues.kueue.x-k8s.io: the account has no permission" in followed.faults


async def test_kinds_that_are_installed_later(tmp_path: Path) -> None:
    async with following(tmp_path) as followed:
        followed.api.statuses["localqueues"] = 404
        await followed.first()
        followed.api.put("localqueues", "ml", "training")
        assert QUEUE not in followed.served.queues
        followed.api.statuses.clear()
        await wait_until(lambda: QUEUE in followed.served.queues)


async def test_a_silent_server_is_noticed(tmp_path: Path) -> None:
    async with following(tmp_path) as followed:
        await followed.first()
        # Whatever was asked before has been answered.
        followed.api.is_frozen = True
        await asyncio.sleep(0.5)
        followed.later += MAX_AGE
        await asyncio.sleep(0.5)
        assert followed.policy.age.is_too_old
        assert followed.may("ann")  # whoever serves the partition refuses it by its age
        followed.api.delete("rolebindings", "ml", "team")
        followed.api.is_frozen = False
        await followed.until("ann", may=False)
        await wait_until(lambda: not followed.policy.age.is_too_old)


async def test_idle_watches_are_signs_of_life(tmp_path: Path) -> None:
    async with following(tmp_path) as followed:
        followed.api.sends_bookmarks = True
        await followed.first()
        followed.later += MAX_AGE
        await wait_until(lambda: followed.policy.age.seconds < 60)
        assert followed.publications == 0


async def test_what_cannot_be_served_does_not_count_as_current(tmp_path: Path) -> None:
    async with following(tmp_path) as followed:
        await followed.first()
        followed.serves = False
        followed.api.bind("team", "bob")
        await wait_until(lambda: followed.publications > 2)
        followed.later += MAX_AGE
        await asyncio.sleep(0.5)
        assert followed.policy.age.is_too_old
        followed.serves = True
        await followed.until("bob", may=True)
        await wait_until(lambda: not followed.policy.age.is_too_old)


async def test_the_token_is_read_again(tmp_path: Path) -> None:
    async with following(tmp_path) as followed:
        await followed.first()
        kubeconfig = json.loads((tmp_path / "kubeconfig").read_text())
        # On loopback without TLS, no token is ever sent.
        assert {*followed.api.tokens} == {""}
        kubeconfig["users"][0]["user"] = {"exec": {"command": "sh"}}
        kubeconfig["clusters"][0]["cluster"]["server"] = "https://127.0.0.1:1"
        (tmp_path / "kubeconfig").write_text(json.dumps(kubeconfig))
        await wait_until(lambda: "has a program that prints credentials (exec)" in followed.faults)


def _page(*items: Any, **metadata: Any) -> bytes:
    return json.dumps({"metadata": {"resourceVersion": "5", **metadata}, "items": items}).encode()


def _binding(**changed: Any) -> Any:
    subject = {"kind": "User", "name": "eve"}
    reference = {"kind": "ClusterRole", "name": "user"}
    metadata = {"name": "b", "namespace": "ml"}
    return {"metadata": metadata, "roleRef": reference, "subjects": [subject], **changed}


LIES: dict[str, bytes] = {
    "nothing": b"",
    "no JSON": b"<html>",
    "half of it": _page(_binding())[:-20],
    "not an object": b"[]",
    "deep": b'{"metadata":' + b"[" * 500_000,
    "deep and closed": b'{"x":' + b"[" * 90_000 + b"]" * 90_000 + b"}",
    "no version": json.dumps({"metadata": {}, "items": []}).encode(),
    "an empty version": _page(resourceVersion=""),
    "a number for a version": _page(resourceVersion=5),
    "items of another type": json.dumps(
        {"metadata": {"resourceVersion": "1"}, "items": {}}
    ).encode(),
    "an item that is a number": _page(5),
    "an item without metadata": _page({"roleRef": {}}),
    "a name that is a list": _page(_binding(metadata={"name": ["b"], "namespace": "ml"})),
    "no name": _page(_binding(metadata={"namespace": "ml"})),
    "no namespace": _page(_binding(metadata={"name": "b"})),
    "an impossible namespace": _page(_binding(metadata={"name": "b", "namespace": "@cluster"})),
    "a namespace with a dot": _page(_binding(metadata={"name": "b", "namespace": "a.b"})),
    "a user that is an object": _page(_binding(subjects=[{"kind": "User", "name": {}}])),
    "subjects that are a text": _page(_binding(subjects="eve")),
    "no role": _page({"metadata": {"name": "b", "namespace": "ml"}}),
    "more than was asked for": _page(*[_binding() for _ in range(300)]),
    "not UTF-8": _page(_binding()).replace(b"eve", b"\xff\xfe"),
}


@pytest.mark.parametrize("lie", LIES)
async def test_lies_in_a_list(tmp_path: Path, lie: str) -> None:
    async with following(tmp_path) as followed:
        await followed.first()

        async def answer(request: web.Request) -> web.StreamResponse | None:
            if not request.path.endswith("/rolebindings") or request.query.get("watch"):
                return None
            return web.Response(body=LIES[lie], content_type="application/json")

        followed.api.instead = answer
        followed.api.forget()
        await wait_until(lambda: "rolebindings" in followed.faults)
        assert followed.may("ann")
        assert not followed.may("eve")


@pytest.mark.parametrize(
    "line",
    [
        b"\n",
        b"{}\n",
        b'{"type": "ADDED"}\n',
        b'{"type": 5, "object": {}}\n',
        b'{"type": "ADDED", "object": []}\n',
        b'{"type": "REPLACED", "object": {"metadata": {"name": "b"}}}\n',
        b'{"type": "DELETED", "object": {"metadata": {"name": "b"}}}\n',
        b'{"type": "ERROR", "object": {"code": "410"}}\n',
        b'{"type": "ERROR", "object": {"code": 500}}\n',
        b'{"type": "ADDED", "object": ' + b"[" * 200_000 + b"\n",
        b'{"type": "ADDED", "object": {}}',
    ],
)
async def test_lies_in_a_watch(tmp_path: Path, line: bytes) -> None:
    async with following(tmp_path) as followed:
        await followed.first()
        lists = 0

        async def answer(request: web.Request) -> web.StreamResponse | None:
            nonlocal lists
            if not request.path.endswith("/rolebindings"):
                return None
            if not request.query.get("watch"):
                lists += 1
                return None
            return web.Response(body=line)

        followed.api.instead = answer
        followed.api.wake()
        # After each lie, all objects are listed again.
        await wait_until(lambda: lists > 2)
        assert followed.may("ann")


@pytest.mark.parametrize("kind", ["Foo", "", "Role"])
async def test_a_reference_to_another_kind_grants_nothing(tmp_path: Path, kind: str) -> None:
    async with following(tmp_path) as followed:
        subjects = [{"kind": "User", "name": "eve"}]
        reference = {"kind": kind, "name": "user"}
        followed.api.put("clusterrolebindings", "", "b", roleRef=reference, subjects=subjects)
        followed.api.put("rolebindings", "ml", "b", roleRef=reference, subjects=subjects)
        await followed.first()
        assert not followed.may("eve")


@pytest.mark.parametrize(
    "subject",
    [
        {"kind": "user", "name": "eve"},
        {"kind": "Robot", "name": "eve"},
        {"kind": "User", "name": ""},
        {"kind": "ServiceAccount", "name": "eve"},
    ],
)
async def test_a_subject_that_the_api_server_would_refuse(tmp_path: Path, subject: Any) -> None:
    async with following(tmp_path) as followed:
        reference = {"kind": "ClusterRole", "name": "user"}
        followed.api.put(
            "clusterrolebindings", "", "b", roleRef=reference, subjects=[subject, subject]
        )
        await followed.first()
        assert not followed.may("eve")
        assert not followed.may("")


async def test_an_object_with_too_many_values_grants_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(decoding, "MAX_VALUES", 1_000)
    async with following(tmp_path) as followed:
        followed.api.bind("team", "ann", *(f"user-{number}" for number in range(1_000)))
        followed.api.bind("small", "bob")
        await followed.first()
        assert not followed.may("ann")
        assert followed.may("bob")
        assert "an object is too large to be read" in caplog.text
        followed.api.bind("team", "ann")
        await followed.until("ann", may=True)
        names = [f"q{number}" for number in range(2_000)]
        followed.api.role("training", *names)
        await followed.until("ann", may=False)


async def test_a_cluster_with_too_many_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with following(tmp_path) as followed:
        await followed.first()
        monkeypatch.setattr(resource_watch, "MAX_NAMES", 20)
        for number in range(20):
            followed.api.bind(f"b{number}", f"user-{number}")
        await wait_until(lambda: "more than 20 objects and names in them" in followed.faults)
        assert max(each.names for each in followed.policy.watches) <= 20
        for number in range(20):
            followed.api.delete("rolebindings", "ml", f"b{number}")
        followed.api.bind("team", "bob")
        await followed.until("bob", may=True)


async def test_a_failure_of_the_compiler_is_repaired(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with following(tmp_path) as followed:
        await followed.first()
        broken = RbacCompiler.apply

        def fail(*_: Any) -> Any:
            raise RuntimeError("a bug")

        monkeypatch.setattr(RbacCompiler, "apply", fail)
        followed.api.bind("team", "bob")
        await asyncio.sleep(0.2)
        assert followed.may("ann")
        monkeypatch.setattr(RbacCompiler, "apply", broken)
        await followed.until("bob", may=True)
        assert not followed.may("ann")


def slow(write: Callable[[web.StreamResponse], Any]) -> Any:
    async def answer(request: web.Request) -> web.StreamResponse | None:
        if not request.path.endswith("/rolebindings"):
            return None
        response = web.StreamResponse()
        await response.prepare(request)
        await write(response)
        return response

    return answer


async def test_an_answer_that_never_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(api_client, "ANSWER_SECONDS", 0.5)

    async def drip(response: web.StreamResponse) -> None:
        while True:
            await response.write(b" ")
            await asyncio.sleep(0.01)

    async with following(tmp_path) as followed:
        await followed.first()
        followed.api.instead = slow(drip)
        followed.api.forget()
        await wait_until(lambda: "did not answer in time" in followed.faults)
        assert followed.may("ann")


async def test_an_answer_that_is_endless(tmp_path: Path) -> None:
    async def flood(response: web.StreamResponse) -> None:
        while True:
            await response.write(b" " * 65_536)

    async with following(tmp_path) as followed:
        await followed.first()
        followed.api.instead = slow(flood)
        followed.api.forget()
        await wait_until(lambda: "longer than" in followed.faults)
        assert followed.may("ann")
