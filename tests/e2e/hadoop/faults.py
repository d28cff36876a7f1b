"""A ResourceManager whose queuegate, or whose directory behind it, is killed, stopped (SIGSTOP),
restarted or cut off, with changes of policy and groups between.

Hadoop takes groups from queuegate, which asks a real slapd, and YARN's own ACLs are the fallback.
Two kinds of answers are violations: one by a policy or by groups from before a barrier that has
returned, and a denial, or an empty list of groups, that comes from a failed look-up.
"""

import asyncio
import random
import threading
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, asynccontextmanager, contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple

import queuegate
from tests.support.eventually import eventually
from tests.support.fakes.tcp_proxy import Proxy
from tests.support.faults import Tally
from tests.support.servers.resourcemanager.process import RELEASES
from tests.support.servers.slapd import Slapd
from tests.support.servers.yarn_cluster import GROUPS_OF_QUEUEGATE, Cluster, stopped
from tests.support.servers.yarn_directory import running_directory

_COLD: Final = 100
_OWNERS: Final = ("alice", "mallory")
_MEMBER: Final = "steady"
"""Who is always in the group `ops`, and whom YARN's own ACLs let submit as well."""
_JOINER: Final = "dora"
"""Who joins `ops` and leaves it, and whom YARN's own ACLs never let submit."""


class Proxies:
    """TCP proxies, on a loop of their own."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever)
        self._thread.start()
        self._made: list[Proxy] = []

    def to(self, port: int) -> Proxy:
        proxy = Proxy(port)
        self._made.append(proxy)
        self._run(proxy.start())
        return proxy

    @contextmanager
    def cut(self, proxy: Proxy) -> Iterator[None]:
        self._run(proxy.refuse())
        yield
        self._run(proxy.start())

    def close(self) -> None:
        for proxy in self._made:
            self._run(proxy.close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(30)
        self._loop.close()

    def _run(self, work: Any) -> None:
        asyncio.run_coroutine_threadsafe(work, self._loop).result(60)


class Run:
    """A directory, a server, a ResourceManager, and what it may answer."""

    def __init__(self, folder: Path, stack: ExitStack, scheduler: str, **keys: Any) -> None:
        self.tally = Tally()
        self.owner, self.owners = _OWNERS[0], {_OWNERS[0]}
        self.is_member = self.was_member = False
        self.cold = -1
        self.proxies = Proxies()
        stack.callback(self.proxies.close)
        cold = [f"cold{number}" for number in range(_COLD)]
        self.directory = stack.enter_context(
            running_directory(folder, (_MEMBER, *cold), (*_OWNERS, _JOINER))
        )
        self.slapd = self.directory.slapd
        self.to_directory = self.proxies.to(self.slapd.tls_port)
        self.cluster = Cluster(folder, scheduler)
        self.to_server = self.proxies.to(self.cluster.port)
        self.cluster.change(self._acls())
        self.start()
        stack.callback(self.stop)
        self.client = stack.enter_context(queuegate.Client(self.cluster.address, timeout=60))
        self.manager = stack.enter_context(
            self.cluster.yarn(
                RELEASES[1],
                core=GROUPS_OF_QUEUEGATE,
                acls={"a": ("local", " "), "b": (",".join([_MEMBER, *cold]), " ")},
                address=f"127.0.0.1:{self.to_server.port}",
                **keys,
            )
        )
        assert "error" not in self.manager.started, self.manager.started

    def start(self) -> None:
        """Start queuegate."""
        # Groups expire at once, so each fault of the directory makes look-ups fail.
        cache = {"positive_ttl": "500ms", "max_stale": "0s"}
        self.running = self.cluster.queuegate(
            callers={"assert_groups": False},
            partition={"cache": cache},
            resolvers={"corp": self.directory.resolver(self.to_directory.tls_url)},
        )
        self.server = self.running.__enter__()

    def stop(self) -> None:
        """Stop queuegate, which a test may have killed before."""
        self.running.__exit__(None, None, None)

    async def round(self, fault: "Fault") -> None:
        """Let a part fail, change everything, and compare the answers with what they may be."""
        await asyncio.to_thread(self._round, fault)

    def _round(self, fault: "Fault") -> None:
        self.cold = (self.cold + 1) % _COLD
        where = f"round {self.tally.rounds.total()}, {self.tally.fault}"
        with fault.of(self):
            self.observe(f"{where}, before the change")
            self.change_policy()
            if fault.is_of_directory:
                self.barrier_of_policy()
                self.barrier_of_groups()
            else:
                self.change_groups()
                if fault.leaves_the_server:
                    self.barrier_of_policy()
                    self.barrier_of_groups()
            self.observe(f"{where}, during the fault")
        if fault.is_of_directory:
            self.change_groups()
        self.barrier_of_policy()
        self.barrier_of_groups()
        self.observe(f"{where}, after it")
        eventually(lambda: self.allowed((self.owner, "root.a"), (_JOINER, "root.b")),
                   [True, self.is_member])  # fmt: skip
        self.observe(f"{where}, at its end")

    def change_policy(self) -> None:
        """Give root.a to the other owner."""
        [self.owner] = {*_OWNERS} - {self.owner}
        self.owners.add(self.owner)
        self.cluster.change(self._acls())

    def change_groups(self) -> None:
        """Let the joiner join or leave."""
        self.is_member = not self.is_member
        self.was_member = True
        self.directory.change(_JOINER, is_member=self.is_member)

    def barrier_of_policy(self) -> None:
        result = self.client.reload(wait=True)
        assert result.succeeded
        self._count(result.waited_out)
        self.owners = {self.owner}

    def barrier_of_groups(self) -> None:
        self._count(self.client.invalidate([_JOINER, _MEMBER], wait=True).waited_out)
        self.was_member = self.is_member

    def observe(self, where: str) -> None:
        """Ask as the scheduler does, and as callers over RPC do, and note each wrong answer."""
        cold = f"cold{self.cold}"
        must = [(_MEMBER, "root.b"), (cold, "root.b")]
        may = {*must, ("local", "root.a"), *((owner, "root.a") for owner in self.owners)}
        may |= {(_JOINER, "root.b")} if self.was_member else set()
        users = ("local", *_OWNERS, _JOINER, _MEMBER, cold, "outsider")
        pairs = [(user, queue) for user in users for queue in ("root.a", "root.b")]
        for user in (cold, _MEMBER, *_OWNERS, _JOINER):
            queues = self.manager.ask("queues", user=user)["queues"]
            usable = {
                name.rpartition(".")[2]
                for name, acls in queues.items()
                if "SUBMIT_APPLICATIONS" in acls
            }
            answers = {(user, f"root.{name}"): name in usable for name in "ab"}
            self._compare(where, answers, must, may)
        for _ in range(50):
            self._compare(where, dict(zip(pairs, self.allowed(*pairs), strict=True)), must, may)
        for user in (_MEMBER, cold):
            self.tally.answers += 1
            answer = self.manager.ask("groups", user=user)
            has_failed = "queuegate could not look up" in answer.get("error", "")
            self.tally.failed["groups"] += has_failed
            if not has_failed and "ops" not in answer.get("groups", ()):
                self.tally.violations.append(f"{where}: the groups of {user} are {answer}")

    def allowed(self, *pairs: tuple[str, str]) -> list[bool]:
        questions = [{"user": user, "queue": queue} for user, queue in pairs]
        allowed: list[bool] = self.manager.ask("check", questions=questions)["allowed"]
        return allowed

    def _compare(
        self,
        where: str,
        answers: dict[tuple[str, str], bool],
        must: list[tuple[str, str]],
        may: set[tuple[str, str]],
    ) -> None:
        self.tally.answers += len(answers)
        for pair, is_allowed in answers.items():
            if is_allowed and pair not in may:
                self.tally.violations.append(f"{where}: {pair} is allowed by an old state")
            if not is_allowed and pair in must:
                self.tally.violations.append(f"{where}: {pair} is denied by a failed look-up")

    def _count(self, waited_out: tuple[str, ...]) -> None:
        self.tally.barriers += 1
        self.tally.waited_out += bool(waited_out)

    def _acls(self) -> dict[str, tuple[str, str]]:
        return {"a": (self.owner, " "), "b": (" ops", " ")}


class Fault(NamedTuple):
    """What happens to a part."""

    of: Callable[[Run], AbstractContextManager[None]]
    is_of_directory: bool = False
    leaves_the_server: bool = False
    """Whether barriers can return meanwhile."""


@contextmanager
def _server_killed(run: Run) -> Iterator[None]:
    run.server.process.kill()
    with _server_restarted(run):
        yield


@contextmanager
def _server_restarted(run: Run) -> Iterator[None]:
    run.stop()
    yield
    run.start()


@contextmanager
def _directory_gone(
    run: Run, begin: Callable[[Slapd], None], end: Callable[[Slapd], None]
) -> Iterator[None]:
    begin(run.slapd)
    yield
    end(run.slapd)


def _of_directory(begin: Callable[[Slapd], None], end: Callable[[Slapd], None]) -> Fault:
    return Fault(partial(_directory_gone, begin=begin, end=end), is_of_directory=True)


FAULTS: Final[Mapping[str, Fault]] = {
    "queuegate-killed": Fault(_server_killed),
    "queuegate-stopped": Fault(lambda run: stopped(run.server)),
    "queuegate-restarted": Fault(_server_restarted),
    "queuegate-cut-off": Fault(lambda run: run.proxies.cut(run.to_server), leaves_the_server=True),
    "directory-killed": _of_directory(Slapd.kill, Slapd.start),
    "directory-stopped": _of_directory(Slapd.freeze, Slapd.thaw),
    "directory-restarted": _of_directory(Slapd.stop, Slapd.start),
    "directory-cut-off": Fault(lambda run: run.proxies.cut(run.to_directory), is_of_directory=True),
}
TABLES: Final = (FAULTS,)


@asynccontextmanager
async def running(
    folder: Path,
    chance: random.Random,
    table: Mapping[str, Fault] = FAULTS,
    *,
    scheduler: str = "capacity",
    **keys: Any,
) -> AsyncIterator[Run]:
    """Run a ResourceManager. `keys` are of queuegate.properties."""
    with ExitStack() as stack:
        yield await asyncio.to_thread(Run, folder, stack, scheduler, **keys)
