"""A server follows the RBAC of a real API server, which is killed, frozen, and refuses it."""

import random
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, Self

import httpx2
import pytest

from queuegate import Check, CheckFailure, Client
from queuegate_server.policystore.kubernetes.resource_watch import RBAC_RESOURCES
from tests.e2e.kube.account import RBAC, WatcherAccount, watcher_account
from tests.e2e.kube.cluster import ApiServer, program, running_cluster
from tests.e2e.kube.reviews import created
from tests.support.eventually import eventually
from tests.support.servers.admin_port import LISTEN, get, ops_address
from tests.support.servers.queuegate_server import RunningServer, running_server

pytestmark = pytest.mark.timeout(1_800)
QUEUE: Final = "root.localqueues.ml.training"
MAX_AGE: Final = 120
SECONDS: Final = 600
"""How long a change may take to be noticed, on a busy machine."""
USERS: Final = [f"user-{number}" for number in range(6)]
CHANGES: Final = 100
BINDINGS: Final = f"{RBAC}/namespaces/ml/rolebindings"
GROUP: Final = "rbac.authorization.k8s.io"
NOT_FOLLOWED: Final = "RBAC or queues cannot be followed"


def now() -> float:
    """Return seconds of the clock that the server uses."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class Change(NamedTuple):
    """A change, which counts from some time after its start."""

    is_bound: bool
    start: float
    end: float
    """When the API server had confirmed it."""


class Bindings:
    """The RoleBindings of users, and their history."""

    def __init__(self, cluster: ApiServer) -> None:
        self._cluster = cluster
        self._history = {user: [Change(False, 0.0, 0.0)] for user in USERS}

    def put(self, user: str, *, is_bound: bool) -> None:
        """Bind a user to the role, or remove the binding, however often the API server fails."""
        change = Change(is_bound, now(), float("inf"))
        self._history[user].append(change)
        while True:
            try:
                answer = self._ask(user, is_bound=is_bound)
            except httpx2.TransportError:
                time.sleep(0.1)
                continue
            # 409 and 404 follow an attempt whose answer was lost.
            if answer.status_code in {200, 201, 404, 409}:
                break
            time.sleep(0.1)
        self._history[user][-1] = change._replace(end=now())

    def is_bound(self, user: str) -> bool:
        return self._history[user][-1].is_bound

    def possible(self, user: str, since: float, until: float) -> set[bool]:
        """Return whether a user was bound at some time in an interval, and not bound at some."""
        history = self._history[user]
        ends = [each.end for each in history[1:]] + [float("inf")]
        return {
            each.is_bound
            for each, end in zip(history, ends, strict=True)
            if each.start <= until and end >= since
        }

    def _ask(self, user: str, *, is_bound: bool) -> httpx2.Response:
        if not is_bound:
            return self._cluster.ask("admin", "DELETE", f"{BINDINGS}/{user}")
        return self._cluster.ask("admin", "POST", BINDINGS, binding_of(user))


def binding_of(user: str) -> dict[str, Any]:
    return {
        "metadata": {"name": user},
        "roleRef": {"apiGroup": GROUP, "kind": "ClusterRole", "name": "queue-user"},
        "subjects": [{"apiGroup": GROUP, "kind": "User", "name": user}],
    }


@dataclass
class Following:
    """A server that follows the cluster, and what it has answered."""

    cluster: ApiServer
    account: WatcherAccount
    server: RunningServer
    client: Client
    bindings: Bindings
    answers: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)
    _scrape: threading.Lock = field(default_factory=threading.Lock)

    @property
    def age(self) -> float:
        """The age of the policy in seconds, as the server states it."""
        with self._scrape:  # a concurrent scrape would get the same answer
            while True:
                try:
                    status, text = get(ops_address(self.server), "/metrics")
                except OSError:
                    continue  # the port ends connections that are slow on a busy machine
                if status == 200:
                    return float(text.partition("\nqueuegate_cluster_age_seconds ")[2].split()[0])
                assert status == 503, text

    def ask(self) -> list[bool | None]:
        """Return who may use the queue; None for an error.

        Each answer must be that of some time since the policy was current, as the server states it.
        """
        start, age = now(), self.age
        results = self.client.check_many([Check(user, QUEUE, groups=[]) for user in USERS])
        end = now()
        answers = [None if isinstance(each, CheckFailure) else each.allowed for each in results]
        # If the age has fallen, a sign of life has come before the answer.
        is_too_old = MAX_AGE < age <= self.age
        for user, answer in zip(USERS, answers, strict=True):
            self.answers[str(answer)] += 1
            if answer is None:
                continue
            possible = self.bindings.possible(user, start - age, end)
            if is_too_old or answer not in possible:
                self.wrong.append(f"{user}: {answer} at {start}, {age} s after a sign of life")
        return answers

    def until_right(self) -> None:
        """Wait until each answer is that of the API server."""
        wanted = [self._can_i(user) for user in USERS]
        eventually(lambda: self.ask() == wanted, True, SECONDS)

    def _can_i(self, user: str) -> bool:
        attributes = {
            "namespace": "ml",
            "verb": "use",
            "group": "kueue.x-k8s.io",
            "resource": "localqueues",
            "name": "training",
        }
        review = {"spec": {"user": user, "resourceAttributes": attributes}}
        path = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
        wanted = self.bindings.is_bound(user)

        def status() -> bool:
            allowed: bool = created(self.cluster.ask("admin", "POST", path, review))["status"][
                "allowed"
            ]
            return allowed

        eventually(status, wanted, SECONDS)
        return wanted

    def until_young(self) -> None:
        """Wait until the API server has given a sign of life after now."""
        start = now()
        eventually(lambda: now() - self.age > start, True, SECONDS)

    @contextmanager
    def refused(self, status: str, refuse: Callable[[], None]) -> Iterator[None]:
        """Have all requests refused with a status, and run a block once no RBAC is followed."""
        before = len(self.server.logs)
        refuse()

        def kinds() -> set[str]:
            entries = [each for each in self.server.logs[before:] if each["event"] == NOT_FOLLOWED]
            kinds = {each["kind"] for each in entries if f"({status})" in each["error"]}
            return {kind.partition(".")[0] for kind in kinds if kind.endswith(GROUP)}

        eventually(kinds, {each.name for each in RBAC_RESOURCES}, SECONDS)
        yield


@pytest.fixture(scope="module")
def following(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Following]:
    etcd, kube_apiserver = program("etcd"), program("kube-apiserver")
    if etcd is None or kube_apiserver is None:
        pytest.skip("no etcd and kube-apiserver here: `make kube-tools` builds them (Go, 15 min)")
    folder = tmp_path_factory.mktemp("cluster")
    options = {"authorization-mode": "RBAC"}
    with running_cluster(folder, etcd, kube_apiserver, options) as cluster:
        account = watcher_account(cluster, folder)
        created(cluster.ask("admin", "POST", "/api/v1/namespaces", {"metadata": {"name": "ml"}}))
        rule = {"apiGroups": ["kueue.x-k8s.io"], "resources": ["localqueues"], "verbs": ["use"]}
        role = {"metadata": {"name": "queue-user"}, "rules": [rule]}
        created(cluster.ask("admin", "POST", f"{RBAC}/clusterroles", role))
        config = folder / "queuegate.yaml"
        config.write_text(
            f"policy: {{kubernetes: {{kubeconfig: {account.kubeconfig}, max_age: {MAX_AGE}s}}}}"
        )
        with (
            running_server("--config", str(config), *LISTEN) as server,
            Client(server.address, timeout=60) as client,
        ):
            yield Following(cluster, account, server, client, Bindings(cluster))


class Changing:
    """A block during which bindings change and the server is asked."""

    def __init__(self, following: Following) -> None:
        self.following = following
        self.changes = 0
        self._ended = threading.Event()
        self._threads = [
            threading.Thread(target=each, daemon=True) for each in (self._change, self._observe)
        ]

    def __enter__(self) -> Self:
        for each in self._threads:
            each.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        for each in self._threads:
            each.join(SECONDS)

    def _change(self) -> None:
        chance = random.Random(1)
        bindings = self.following.bindings
        while not self._ended.wait(0.05):
            user = chance.choice(USERS)
            bindings.put(user, is_bound=not bindings.is_bound(user))
            self.changes += 1

    def _observe(self) -> None:
        while not self._ended.wait(0.05):
            self.following.ask()


def test_a_binding_counts_until_it_is_deleted(following: Following) -> None:
    first = USERS[0]
    for is_bound in (True, False, True, False):
        following.bindings.put(first, is_bound=is_bound)
        following.until_right()
    assert following.wrong == []


def test_no_deletion_is_missed_while_the_api_server_is_killed(following: Following) -> None:
    for user in USERS:
        following.bindings.put(user, is_bound=True)
    following.until_right()

    def delete() -> None:
        for user in USERS:
            following.bindings.put(user, is_bound=False)

    deleting = threading.Thread(target=delete, daemon=True)
    following.cluster.process.kill()
    deleting.start()
    following.cluster.restart()
    deleting.join(SECONDS)
    following.until_right()
    following.until_young()
    assert following.wrong == []


def test_a_right_that_is_revoked(following: Following) -> None:
    following.bindings.put(USERS[0], is_bound=True)
    following.until_right()
    with following.refused("403", following.account.revoke):
        following.bindings.put(USERS[0], is_bound=False)
        assert following.ask()[0] is not False
        following.account.grant()
    following.until_right()
    following.until_young()
    assert following.wrong == []


def test_a_token_that_expires(following: Following) -> None:
    following.bindings.put(USERS[0], is_bound=True)
    following.until_right()
    key = following.account.folder / "account.key"
    with following.refused("401", lambda: following.account.expire_token(key)):
        following.bindings.put(USERS[0], is_bound=False)
        assert following.ask()[0] is not False
        following.account.renew_token()
    following.until_right()
    following.until_young()
    assert following.wrong == []


def test_changes_during_faults(following: Following) -> None:
    cluster, account = following.cluster, following.account
    key = account.folder / "account.key"
    with Changing(following) as changing:
        cluster.restart()
        following.until_young()
        cluster.process.send_signal(signal.SIGSTOP)
        time.sleep(15)
        cluster.process.send_signal(signal.SIGCONT)
        following.until_young()
        with following.refused("403", account.revoke):
            account.grant()
        cluster.restart()
        with following.refused("401", lambda: account.expire_token(key)):
            account.renew_token()
        following.until_young()
        eventually(lambda: changing.changes >= CHANGES, True, SECONDS)
    following.until_right()
    assert following.wrong == []
    assert following.answers["True"] > CHANGES
    assert following.answers["False"] > CHANGES


def test_a_frozen_api_server_ends_all_answers(following: Following) -> None:
    following.bindings.put(USERS[0], is_bound=True)
    following.until_right()
    following.cluster.process.send_signal(signal.SIGSTOP)
    try:
        eventually(lambda: set(following.ask()) == {None}, True, MAX_AGE + SECONDS)
        assert following.age > MAX_AGE
    finally:
        following.cluster.process.send_signal(signal.SIGCONT)
    following.bindings.put(USERS[0], is_bound=False)
    following.until_right()
    assert following.wrong == []
