"""A ResourceManager while queuegate and the directory behind it are killed, stopped (SIGSTOP),
restarted and cut off, with changes of policy and groups between.

    python -m tests.e2e.hadoop.faults [ROUNDS] [SEED]

Hadoop takes groups from queuegate, which asks a real slapd, and YARN's own ACLs are the fallback.
Two kinds of answers are faults: one by a policy or by groups from before a barrier that has
returned, and a denial, or an empty list of groups, that comes from a failed look-up.
"""

import asyncio
import random
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple

import queuegate
from tests.support.eventually import eventually
from tests.support.fakes.tcp_proxy import Proxy
from tests.support.servers.resourcemanager.process import RELEASES
from tests.support.servers.yarn_cluster import GROUPS_OF_QUEUEGATE, Cluster, stopped
from tests.support.servers.yarn_directory import running_directory

KINDS: Final = [
    (part, fault)
    for part in ("queuegate", "directory")
    for fault in ("kill", "stop", "restart", "cut")
]
_COLD: Final = 100
_OWNERS: Final = ("alice", "mallory")
_MEMBER: Final = "steady"
"""Who is always in the group `ops`, and whom YARN's own ACLs let submit as well."""
_JOINER: Final = "dora"
"""Who joins `ops` and leaves it, and whom YARN's own ACLs never let submit."""


class Outcome(NamedTuple):
    """What happened."""

    done: Counter[str]
    answers: int
    failed: int
    """Look-ups of groups that failed, as Hadoop saw them."""
    barriers: int
    waited_out: int
    violations: list[str]


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
        self.done: Counter[str] = Counter()
        self.answers = self.failed = self.barriers = self.waited_out = 0
        self.violations: list[str] = []
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

    def round(self, part: str, fault: str) -> None:
        """Let a part fail, change everything, and compare the answers with what they may be."""
        self.done[f"{fault} {part}"] += 1
        self.cold = (self.cold + 1) % _COLD
        where = f"round {self.done.total()}, {fault} {part}"
        with self._fault(part, fault):
            self.observe(f"{where}, before the change")
            self.change_policy()
            if part == "directory":
                self.barrier_of_policy()
                self.barrier_of_groups()
            else:
                self.change_groups()
                if fault == "cut":
                    self.barrier_of_policy()
                    self.barrier_of_groups()
            self.observe(f"{where}, during the fault")
        if part == "directory":
            self.change_groups()
        self.barrier_of_policy()
        self.barrier_of_groups()
        self.observe(f"{where}, after it")
        eventually(lambda: self.allowed((self.owner, "root.a"), (_JOINER, "root.b")),
                   [True, self.is_member])  # fmt: skip
        self.observe(f"{where}, at its end")

    @contextmanager
    def _fault(self, part: str, fault: str) -> Iterator[None]:
        of_server = part == "queuegate"
        if fault == "cut":
            with self.proxies.cut(self.to_server if of_server else self.to_directory):
                yield
        elif not of_server:
            {"kill": self.slapd.kill, "stop": self.slapd.freeze, "restart": self.slapd.stop}[
                fault
            ]()
            yield
            (self.slapd.thaw if fault == "stop" else self.slapd.start)()
        elif fault == "stop":
            with stopped(self.server):
                yield
        else:
            if fault == "kill":
                self.server.process.kill()
            self.stop()
            yield
            self.start()

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
            self.answers += 1
            answer = self.manager.ask("groups", user=user)
            has_failed = "queuegate could not look up" in answer.get("error", "")
            self.failed += has_failed
            if not has_failed and "ops" not in answer.get("groups", ()):
                self.violations.append(f"{where}: the groups of {user} are {answer}")

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
        self.answers += len(answers)
        for pair, is_allowed in answers.items():
            if is_allowed and pair not in may:
                self.violations.append(f"{where}: {pair} is allowed by an old state")
            if not is_allowed and pair in must:
                self.violations.append(f"{where}: {pair} is denied by a failed look-up")

    def _count(self, waited_out: tuple[str, ...]) -> None:
        self.barriers += 1
        self.waited_out += bool(waited_out)

    def _acls(self) -> dict[str, tuple[str, str]]:
        return {"a": (self.owner, " "), "b": (" ops", " ")}


def drawn(rounds: int, seed: int) -> list[tuple[str, str]]:
    """Return a fault for each round, each kind as often as the others."""
    chance = random.Random(seed)
    kinds: list[tuple[str, str]] = []
    while len(kinds) < rounds:
        kinds += chance.sample(KINDS, len(KINDS))
    return kinds[:rounds]


def run(faults: Iterable[tuple[str, str]], scheduler: str = "capacity", **keys: Any) -> Outcome:
    """Run a round for each fault. `keys` are of queuegate.properties."""
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        made = Run(Path(folder), stack, scheduler, **keys)
        for part, fault in faults:
            made.round(part, fault)
    return Outcome(
        made.done, made.answers, made.failed, made.barriers, made.waited_out, made.violations
    )


if __name__ == "__main__":
    number = int(sys.argv[1]) if len(sys.argv) > 1 else 100
    chosen = int(sys.argv[2]) if len(sys.argv) > 2 else random.randrange(1 << 32)
    result = run(drawn(number, chosen))
    print(f"seed {chosen}, {number} rounds: {dict(result.done)}")
    print(f"{result.answers} answers; {result.failed} failed look-ups; {result.barriers} barriers,")
    print(f"of which {result.waited_out} waited for a lease to end;")
    print(f"{len(result.violations)} wrong answers")
    print(*result.violations[:20], sep="\n")
    sys.exit(bool(result.violations))
