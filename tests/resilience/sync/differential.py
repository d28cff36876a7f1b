"""Random questions to a gate and to its server, while policies and groups change.

    python -m tests.resilience.sync.differential [QUESTIONS] [SEED]

All kinds of policies, both semantics, all sets of names in ACLs. Between two rounds the policies
or the groups of some users change, and a barrier is waited for: then each answer must be the same.
"""

import random
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple

import queuegate
from queuegate import Check, CheckFailure
from tests.support.fakes.scripted_directory import ScriptedDirectory, settings_file
from tests.support.gates import KINDS, live_gate
from tests.support.generators.policies import policy_text, random_queues
from tests.support.generators.yarn import RandomCluster, random_cluster
from tests.support.servers.queuegate_server import ADMIN, running_server

ROUND: Final = 1_000
CHANGE_SECONDS: Final = 300.0
"""For a change. A reload may wait for another one, which the watcher of the files has begun, and
both parse in a child process of low priority: a second of processor time can take half a minute on
a machine with twenty busy processes."""
USERS: Final = [f"user{number}" for number in range(40)] + [
    *("bob", "eve", "carol", "knox", "d", "arn:aws:sts::1:assumed-role/Role/jdoe", "9d"),
]
GROUPS: Final = ["g", "ops", "staff", "a.b", "system:masters", "h-1", "/org/team", "3f25-04e0"]
UNKNOWN: Final = ["stranger", "nobody else"]
FAILING: Final = "failing"
YARN: Final = {
    f"{scheduler}-{semantics}": (scheduler, semantics)
    for scheduler in ("fair-scheduler", "capacity-scheduler")
    for semantics in ("documented", "hadoop")
}


class Outcome(NamedTuple):
    """The question."""

    questions: int
    decided: int
    """How many of them the gate decided by itself."""
    differences: list[str]


class World:
    """A server whose policies and groups change."""

    def __init__(self, folder: Path, chance: random.Random) -> None:
        self.chance = chance
        self.folder = folder
        self.directory = ScriptedDirectory(folder)
        self.queues: dict[str, list[str]] = {}
        self.write_policies()
        self.change_groups(USERS)

    def settings(self) -> dict[str, Any]:
        policies: list[dict[str, str]] = [{"path": str(self.folder / "queues.yaml")}]
        partitions: dict[str, Any] = {
            "default": {"resolver": "corp"},
            "extended": {"resolver": "corp", "acl_names": "extended"},
            "any": {"resolver": "corp", "acl_names": "any"},
        }
        for name, (_, semantics) in YARN.items():
            path, site = self.folder / f"{name}.xml", self.folder / f"{name}-site.xml"
            policies.append({"path": str(path), "partition": name, "yarn_site": str(site)})
            partitions[name] = {"resolver": "corp", "semantics": semantics}
        resolvers = {"corp": self.directory.resolver()}
        return {"policies": policies, "partitions": partitions, "resolvers": resolvers}

    def write_policies(self) -> None:
        trees = {
            name: random_queues(self.chance, 60, USERS, GROUPS)
            for name in ("default", "extended", "any")
        }
        text = policy_text({name: ("", queues) for name, queues in trees.items()})
        self._put("queues.yaml", text)
        self.queues = {name: [*queues] for name, queues in trees.items()}
        for name, (scheduler, semantics) in YARN.items():
            cluster: RandomCluster = random_cluster(self.chance, scheduler, semantics)
            self._put(f"{name}.xml", cluster.xml())
            self._put(f"{name}-site.xml", cluster.site())
            self.queues[name] = [*cluster.cluster.queues]

    def _put(self, name: str, text: str) -> None:
        """Put a file in place whole: the server watches it, and must not read a part."""
        draft = self.folder / f"{name}.new"
        draft.write_text(text)
        draft.replace(self.folder / name)

    def change_groups(self, users: list[str]) -> None:
        groups = {user: self.chance.sample(GROUPS, self.chance.randrange(4)) for user in users}
        answers: dict[str, Any] = {user: {"groups": found} for user, found in groups.items()}
        self.directory.answer({**answers, FAILING: {"failed": "down"}})

    def change(self, client: queuegate.Client) -> None:
        """Change something, and wait until no gate decides from the state before."""
        if self.chance.random() < 0.5:
            self.write_policies()
            assert client.reload(wait=True, timeout=CHANGE_SECONDS)
            return
        users = self.chance.sample(USERS, 10)
        self.change_groups(users)
        everyone = self.chance.random() < 0.3
        for partition in self.queues:
            who = None if everyone else users
            client.invalidate(who, partition=partition, wait=True, timeout=CHANGE_SECONDS)

    def question(self) -> Check:
        pick = self.chance.choice
        partition = pick([*self.queues])
        queue = pick(self.queues[partition])
        kind = self.chance.random()
        if kind < 0.1:
            queue += pick([".new", ".Q1", ".a.b.c"])
        elif kind < 0.15:
            queue = pick(["root", "root.@recovery@", "root.@recovery@.x", "ROOT", "é"])
        elif kind < 0.25 and partition in YARN:
            queue = queue.rpartition(".")[2]
        groups = self.chance.choice([None] * 7 + [self.chance.sample(GROUPS, 2)] * 2 + [()])
        user = pick(USERS) if self.chance.random() < 0.95 else pick([*UNKNOWN, FAILING, "é", "*"])
        real_user = pick(["knox", "carol"]) if self.chance.random() < 0.1 else ""
        return Check(user, queue, partition, pick(["submit", "admin"]), groups, real_user)


@contextmanager
def world(seed: int) -> Iterator[tuple[World, str]]:
    """Run a server, and yield it with its address."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        made = World(folder, random.Random(seed))
        config = settings_file(folder, made.settings())
        environment = made.directory.environment
        server = running_server("--config", config, *ADMIN, environment=environment)
        yield made, stack.enter_context(server).address


def run(questions: int, seed: int, kind: str = "blocking") -> Outcome:
    """Ask a gate of this kind, and the server."""
    differences: list[str] = []
    asked = 0
    with (
        world(seed) as (made, address),
        queuegate.Client(address, timeout=60) as client,
        live_gate(address, kind) as gate,
    ):
        while asked < questions:
            made.change(client)
            batch = [made.question() for _ in range(min(ROUND, questions - asked))]
            asked += len(batch)
            for question, expected in zip(batch, client.check_many(batch), strict=True):
                found = _ask(gate, question)
                if found != _comparable(expected):
                    differences.append(f"{question}: {found} instead of {expected}")
        return Outcome(asked, gate.decided, differences)


def _ask(gate: queuegate.Gate, question: Check) -> object:
    try:
        return gate.check(
            question.user,
            question.queue,
            partition=question.partition,
            access=question.access,
            groups=question.groups,
            real_user=question.real_user,
        )
    except queuegate.QueuegateError as error:
        return type(error)


def _comparable(answer: object) -> object:
    return type(answer.error) if isinstance(answer, CheckFailure) else answer


if __name__ == "__main__":
    number = int(sys.argv[1]) if len(sys.argv) > 1 else 100_000
    chosen = int(sys.argv[2]) if len(sys.argv) > 2 else random.randrange(1 << 32)
    differs = False
    for each in KINDS:
        result = run(number, chosen, each)
        made_by_gate = f"{result.decided} decided by the gate"
        print(f"seed {chosen}, {each}: {result.questions} questions, {made_by_gate}")
        print(f"{len(result.differences)} differences")
        print(*result.differences[:20], sep="\n")
        differs |= bool(result.differences)
    sys.exit(differs)
