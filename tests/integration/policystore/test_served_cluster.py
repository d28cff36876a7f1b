"""A server whose policy is the RBAC of a cluster: each method, gates, and what is too old."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import queuegate
from queuegate import Check
from queuegate.aio import Client, Gate
from queuegate_server.policystore.kubernetes import cluster_policy, resource_watch
from queuegate_server.runtime import pauses
from queuegate_server.runtime.pauses import Pauses
from queuegate_server.server.startup import CannotServe, close_core, load_first
from queuegate_server.server.wiring import ServerParts, build_server
from queuegate_server.settings.listeners import ListenAddress
from queuegate_server.settings.load import load_settings
from tests.support.fakes.loop import wait_until
from tests.support.fakes.rbac_api import RbacApi, rbac_api
from tests.support.servers.http_port import ACTIONS, Reply, asked, send

QUEUE = "root.localqueues.ml.training"
MAX_AGE = 600
FILE = """\
partitions:
  - name: gpu
    queues: [{name: root, submitacl: "ann"}]
"""


class Serving:
    """A server and its API server."""

    def __init__(self, api: RbacApi, parts: ServerParts, address: str) -> None:
        self.api = api
        self.parts = parts
        self.address = address
        self.client = Client(address, timeout=60)

    async def may(self, user: str, queue: str = QUEUE) -> bool:
        return (await self.client.check(user, queue, groups=[])).allowed

    async def until(self, user: str, *, may: bool, queue: str = QUEUE) -> None:
        while await self.may(user, queue) is not may:  # noqa: ASYNC110 - asks again
            await asyncio.sleep(0.01)

    def grow_old(self) -> None:
        """Let ten minutes pass without a sign of life."""
        self.api.is_frozen = True
        cluster: Any = self.parts.core.reloader.cluster
        clock = cluster.age._clock

        def later() -> float:
            return float(clock()) + MAX_AGE + 60

        cluster.age._clock = later
        for each in cluster.watches:
            each.clock = later

    def grow_young(self) -> None:
        self.api.is_frozen = False


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resource_watch, "MIN_WATCH_SECONDS", 0.0)
    monkeypatch.setattr(pauses, "API_SERVER", Pauses(0.01, most=0.05))
    monkeypatch.setattr(cluster_policy, "GATHER_SECONDS", 0.0)


@pytest.fixture
async def serving(tmp_path: Path) -> AsyncIterator[Serving]:
    async with following(tmp_path) as served:
        yield served


@asynccontextmanager
async def following(tmp_path: Path, rbac: str = "", *more: str) -> AsyncIterator[Serving]:
    """Run a server that follows an API server, with further settings of RBAC and of all."""
    policy = tmp_path / "queues.yaml"
    policy.write_text(FILE)
    async with rbac_api(tmp_path) as (api, kubeconfig):
        api.role()
        api.bind("team", "ann")
        api.put("localqueues", "ml", "training")
        text = f"[{{path: {policy}}}, {{kubernetes: {{kubeconfig: {kubeconfig}{rbac}}}}}]"
        roles = "callers.loopback.roles=[check, read, sync, admin]"
        options = ["listen=127.0.0.1:0", f"policies={text}", roles, *more]
        settings = load_settings(None, {}, options)
        parts = build_server(settings, settings, "grpcio", None)
        assert await load_first(parts.core, asyncio.Event())
        (address,) = parts.listeners.bind(parts.server, [each.parsed for each in settings.listen])
        await parts.server.start()
        served = Serving(api, parts, address)
        try:
            yield served
        finally:
            await served.client.close()
            parts.core.reloader.close()
            parts.draining.set()
            await parts.server.stop(None)
            await close_core(parts.core)


async def test_changes_count(serving: Serving) -> None:
    assert await serving.may("ann")
    assert not await serving.may("bob")
    assert await serving.may("ann")  # from the cache of responses
    serving.api.bind("team", "bob")
    await serving.until("bob", may=True)
    assert not await serving.may("ann")
    policy = await serving.client.get_policy()
    assert policy.revision > 1
    assert "the API server in" in policy.source


async def test_audit_records_name_the_binding(tmp_path: Path) -> None:
    audit = f"audit={{path: {tmp_path / 'audit.log'}, records: all}}"
    async with following(tmp_path, "", audit) as serving:
        serving.api.role("other", name="one")
        serving.api.bind("one", "bob", namespace="", to="one")
        await serving.until("bob", may=True, queue="root.localqueues.web.other")
        assert await serving.may("ann")
        assert not await serving.may("eve")
        assert await serving.client.check("ann", "root", partition="gpu", groups=[])
        await serving.client.check_many([Check("ann", QUEUE, groups=[])] * 50)
    lines = (tmp_path / "audit.log").read_text().splitlines()
    records = {(each["user"], each["queue"]): each for each in map(json.loads, lines)}
    assert records["ann", QUEUE]["origins"] == ["RoleBinding ml/team, ClusterRole user"]
    assert records["ann", QUEUE]["method"] == "BatchCheckQueueAccess"
    of_bob = records["bob", "root.localqueues.web.other"]
    assert of_bob["origins"] == ["ClusterRoleBinding one, ClusterRole one"]
    assert {user for (user, _), each in records.items() if "origins" not in each} == {"ann", "eve"}


async def test_explanations_name_the_binding(serving: Serving) -> None:
    explanation = await serving.client.explain("ann", QUEUE, groups=[])
    assert "RoleBinding ml/team, ClusterRole user" in repr(explanation)
    assert await serving.client.list_queues("ann", groups=[]) == [
        "root.localqueues.ml",
        QUEUE,
    ]


async def test_the_only_action_is_found_over_http(tmp_path: Path) -> None:
    async with following(tmp_path, "", "http.listen=127.0.0.1:0") as serving:
        parts = serving.parts
        assert parts.http is not None
        wanted = ListenAddress("127.0.0.1:0", "127.0.0.1", 0)
        (address,) = parts.listeners.bind_http(parts.http, [wanted])
        await parts.http.start()

        async def search(user: str, queue: str) -> Reply:
            body = asked(user, "submit", queue, groups=[])
            return await asyncio.to_thread(send, address, ACTIONS, body)

        assert (await search("ann", QUEUE)).content["results"] == [{"name": "submit"}]
        assert (await search("bob", QUEUE)).content["results"] == []
        malformed = await search("ann", "root..x")
        assert (malformed.status, malformed.content.partition(":")[0]) == (400, "resource.id")
        await parts.http.stop(None)


BATCH_OF_ONE: dict[str, Callable[[Client, Check], Coroutine[Any, Any, Any]]] = {
    "one": lambda client, check: client.check_many([check]),
    "a batch": lambda client, check: client.check_many(
        [check, replace(check, queue="root.cohorts.x")]
    ),
    "columns": lambda client, check: client.check_many([check] * 50),
}


@pytest.mark.parametrize("method", BATCH_OF_ONE)
async def test_nobody_asserts_a_group_of_the_system(serving: Serving, method: str) -> None:
    check = Check("eve", QUEUE, groups=["system:masters", "system:nodes"])
    for _ in range(2):
        results = await BATCH_OF_ONE[method](serving.client, check)
        assert not any(each.allowed for each in results)
    serving.api.put(
        "clusterrolebindings",
        "",
        "all",
        roleRef={"kind": "ClusterRole", "name": "user"},
        subjects=[{"kind": "Group", "name": "system:authenticated"}],
    )
    await serving.until("joe", may=True)
    # Groups that nobody asserts count in each way to ask.
    results = await BATCH_OF_ONE[method](serving.client, check)
    assert results[0].allowed


OIDC = ", users_prefix: 'oidc:', groups_prefix: 'oidc:'"
PEOPLE = ("resolvers={people: {type: test}}", "partitions.default.resolver=people")
"""In this resolver, testuser1 and testuser2 are in group1001, and only testuser1 in group1000."""


async def test_names_with_a_prefix(tmp_path: Path) -> None:
    async with following(tmp_path, OIDC, *PEOPLE) as serving:
        api, client = serving.api, serving.client
        api.bind("team", "oidc:ann", "testuser2")
        groups = [{"kind": "Group", "name": name} for name in ("oidc:group1000", "group1001")]
        role = {"kind": "ClusterRole", "name": "user"}
        api.put("rolebindings", "ml", "groups", roleRef=role, subjects=groups)
        await serving.until("ann", may=True)
        while not await client.check("testuser1", QUEUE):  # noqa: ASYNC110 - asks again
            await asyncio.sleep(0.01)
        # The API server's users and groups without a prefix are other ones.
        assert not await client.check("testuser2", QUEUE)
        assert not await client.check("bob", QUEUE, groups=["group1001"])
        assert await client.check("bob", QUEUE, groups=["group1000"])
        explanation = await client.explain("testuser1", QUEUE)
        assert explanation.decision.matched_subject == "oidc:group1000"
        assert set(explanation.groups.groups) == {
            *("system:authenticated", "oidc:group1000", "oidc:group1001")
        }
        assert QUEUE in await client.list_queues("testuser1")
        pages = [page async for page in client.list_users(QUEUE)]
        assert [each.user for page in pages for each in page.users] == [
            *("oidc:ann", "oidc:testuser1", "testuser2")
        ]


@pytest.mark.parametrize("method", BATCH_OF_ONE)
async def test_names_that_have_the_prefix_already(tmp_path: Path, method: str) -> None:
    """They may be meant either way."""
    async with following(tmp_path, OIDC, *PEOPLE) as serving:
        serving.api.bind("team", "oidc:ann", "oidc:oidc:ann")
        await serving.until("ann", may=True)
        for check in (
            Check("oidc:ann", QUEUE, groups=[]),
            Check("ann", QUEUE, groups=["oidc:group1000"]),
        ):
            results = await BATCH_OF_ONE[method](serving.client, check)
            assert isinstance(results[0], queuegate.CheckFailure)
            with pytest.raises(queuegate.InvalidArgument, match="write the name without it"):
                await serving.client.check(check.user, QUEUE, groups=check.groups)


@pytest.mark.parametrize("queue", ["root.localqueues.ml.Training", "root.LocalQueues.ml.training"])
async def test_no_path_is_folded(serving: Serving, queue: str) -> None:
    with pytest.raises(queuegate.InvalidArgument):
        await serving.client.check("ann", queue, groups=[])
    [result] = await serving.client.check_many([Check("ann", queue, groups=[])])
    assert not result
    async with Gate(serving.address, partitions=["default"]) as gate:
        await wait_until(lambda: gate.state is queuegate.GateState.LIVE)
        with pytest.raises(queuegate.InvalidArgument):
            await gate.check("ann", queue, groups=[])


async def test_a_gate_asks_the_server(serving: Serving) -> None:
    async with Gate(serving.address, partitions=["default", "gpu"]) as gate:
        await wait_until(lambda: gate.state is queuegate.GateState.LIVE)
        assert await gate.check("ann", QUEUE, groups=[])
        assert not await gate.check("bob", QUEUE, groups=["system:masters"])
        assert gate.decided == 0
        assert await gate.check("ann", "root", partition="gpu", groups=[])
        assert gate.decided == 1
        serving.api.bind("team", "bob")
        await serving.until("bob", may=True)
        assert not await gate.check("ann", QUEUE, groups=[])
        assert await gate.check("bob", QUEUE, groups=[])
        serving.grow_old()
        with pytest.raises(queuegate.Unavailable, match="may have changed"):
            await gate.check("bob", QUEUE, groups=[])
        assert await gate.check("ann", "root", partition="gpu", groups=[])
        assert gate.decided == 2


async def _users(client: Client) -> Any:
    return [page async for page in client.list_users(QUEUE)]


ASKED: dict[str, Callable[[Client], Coroutine[Any, Any, Any]]] = {
    "check": lambda client: client.check("ann", QUEUE, groups=[]),
    "check of nobody": lambda client: client.check("bob", QUEUE, groups=[]),
    "check with groups of a resolver": lambda client: client.check("ann", QUEUE),
    "explain": lambda client: client.explain("ann", QUEUE, groups=[]),
    "list queues": lambda client: client.list_queues("ann", groups=[]),
    "explain queues": lambda client: client.explain_queues("ann", groups=[]),
    "list users": _users,
}


@pytest.mark.parametrize("asked", ASKED)
async def test_a_policy_that_is_too_old_answers_nothing(serving: Serving, asked: str) -> None:
    ask = ASKED[asked]
    await ask(serving.client)
    await ask(serving.client)  # and from caches
    serving.grow_old()
    for _ in range(2):
        with pytest.raises(queuegate.Unavailable, match="no sign of life from the API server in"):
            await ask(serving.client)
    assert await serving.client.check("ann", "root", partition="gpu", groups=[])
    serving.grow_young()
    await _recovered(serving, ask)


async def _recovered(serving: Serving, ask: Callable[[Client], Coroutine[Any, Any, Any]]) -> None:
    while True:
        try:
            await ask(serving.client)
        except queuegate.Unavailable:
            await asyncio.sleep(0.01)
        else:
            return


@pytest.mark.parametrize("number", [1, 50])
async def test_a_batch_about_a_policy_that_is_too_old(serving: Serving, number: int) -> None:
    checks = [Check("ann", QUEUE, groups=[])] * number
    assert all(await serving.client.check_many(checks))
    serving.grow_old()
    results = await serving.client.check_many(checks)
    errors = {type(each.error) for each in results if isinstance(each, queuegate.CheckFailure)}
    assert errors == {queuegate.ServerUnavailable}
    assert len(results) == number
    mixed = [*checks, Check("ann", "root", partition="gpu", groups=[])]
    assert (await serving.client.check_many(mixed))[-1]


async def test_what_is_shown_is_not_refused(serving: Serving) -> None:
    """Whoever looks for the cause sees the policy."""
    serving.grow_old()
    assert QUEUE in {each.path for each in (await serving.client.get_policy()).queues}


async def test_a_changed_file_counts_while_the_cluster_changes(
    serving: Serving, tmp_path: Path
) -> None:
    policy = tmp_path / "queues.yaml"
    async with Gate(serving.address, partitions=["gpu"]) as gate:
        await wait_until(lambda: gate.state is queuegate.GateState.LIVE)

        async def change_the_cluster() -> None:
            for number in range(10_000):
                serving.api.bind(f"b{number % 7}", f"user-{number}")
                await asyncio.sleep(0.005)

        changing = asyncio.create_task(change_the_cluster())
        policy.write_text(FILE.replace("ann", "bob"))
        assert (await serving.client.reload()).succeeded
        while await gate.check("ann", "root", partition="gpu", groups=[]):  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        assert not changing.done()
        changing.cancel()


async def test_a_reload_keeps_the_cluster(serving: Serving, tmp_path: Path) -> None:
    (tmp_path / "queues.yaml").write_text("partitions: [")
    assert not (await serving.client.reload()).succeeded
    serving.api.bind("team", "bob")
    await serving.until("bob", may=True)
    # The file is still wrong.
    assert (await serving.client.get_policy()).reload_failed_at is not None
    (tmp_path / "queues.yaml").write_text(FILE)
    assert (await serving.client.reload()).succeeded
    assert await serving.may("bob")


async def test_rbac_in_files_is_not_served(tmp_path: Path) -> None:
    role = tmp_path / "role.yaml"
    role.write_text(
        "{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, metadata: {name: user}}"
    )
    settings = load_settings(None, {}, ["listen=127.0.0.1:0", f"policy.path={role}"])
    parts = build_server(settings, settings, "grpcio", None)
    with pytest.raises(CannotServe, match="only for commands that need no server"):
        await load_first(parts.core, asyncio.Event())
    await close_core(parts.core)


async def test_two_policies_of_one_partition(tmp_path: Path) -> None:
    policy = tmp_path / "queues.yaml"
    policy.write_text(FILE.replace("gpu", "default"))
    async with rbac_api(tmp_path) as (_, kubeconfig):
        text = f"[{{path: {policy}}}, {{kubernetes: {{kubeconfig: {kubeconfig}}}}}]"
        settings = load_settings(None, {}, ["listen=127.0.0.1:0", f"policies={text}"])
        parts = build_server(settings, settings, "grpcio", None)
        with pytest.raises(CannotServe, match="default"):
            await load_first(parts.core, asyncio.Event())
        parts.core.reloader.close()
        await close_core(parts.core)
