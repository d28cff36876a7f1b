"""Random policies and what the naive evaluator makes of them."""

import random
from collections.abc import Iterable, Mapping, Sequence

from tests.support.oracles.queue_access import NaiveAcl, allowed

Queues = Mapping[str, tuple[str, str]]
"""(submit ACL, admin ACL) by lower-case path, each queue after its parent."""


def random_queues(
    chance: random.Random, count: int, users: Sequence[str], groups: Sequence[str]
) -> Queues:
    """Return a tree of queues: most ACLs name a few users and groups, some are empty, few
    let everybody in.
    """
    queues = {"root": ("", chance.choice(users))}
    while len(queues) < count:
        parent = chance.choice([path for path in queues if path.count(".") < 5])
        queues[f"{parent}.q{len(queues)}"] = (
            _random_acl(chance, users, groups),
            _random_acl(chance, users, groups) if chance.random() < 0.3 else "",
        )
    return queues


def _random_acl(chance: random.Random, users: Sequence[str], groups: Sequence[str]) -> str:
    kind = chance.random()
    if kind < 0.03:
        return "*"
    if kind < 0.4:
        return chance.choice(["", " "])
    some_users = chance.sample(users, chance.randrange(3))
    some_groups = chance.sample(groups, chance.randrange(3))
    return ",".join(some_users) + " " + ",".join(some_groups)


def policy_text(partitions: Mapping[str, tuple[str, Queues]]) -> str:
    """Return the configuration of partitions, each a resolver type and its queues."""
    lines = ["partitions:"]
    for name, (resolver, queues) in partitions.items():
        lines += [f"  - name: {name}", f'    usergroupresolver: {{type: "{resolver}"}}']
        lines += ["    queues:", *_queue_lines(queues, "root", 6)]
    return "\n".join(lines) + "\n"


def _queue_lines(queues: Queues, path: str, indent: int) -> Iterable[str]:
    submit_acl, admin_acl = queues[path]
    blank = " " * indent
    yield f"{blank}- name: {path.rpartition('.')[2]}"
    yield f'{blank}  submitacl: "{submit_acl}"'
    yield f'{blank}  adminacl: "{admin_acl}"'
    children = [child for child in queues if child.rpartition(".")[0] == path]
    if children:
        yield f"{blank}  queues:"
        for child in children:
            yield from _queue_lines(queues, child, indent + 4)


class Oracle:
    """Answers for one partition; remembers what it has worked out."""

    def __init__(self, queues: Queues) -> None:
        self._queues = queues
        self._known: dict[tuple[str, str, str, tuple[str, ...]], bool] = {}

    def allows(self, queue: str, access: str, user: str, groups: Sequence[str]) -> bool:
        question = (queue.lower(), access, user, tuple(groups))
        if question not in self._known:
            self._known[question] = allowed(self._queues, *question)
        return self._known[question]

    def needs_groups(self, queue: str, access: str, user: str) -> bool:
        """Say whether an answer depends on the groups of the user."""
        if self.allows(queue, access, user, ()):
            return False
        queue = queue.lower()
        if access == "submit" and (queue + ".").startswith("root.@recovery@."):
            return False
        levels = queue.split(".")
        while levels:
            acls = self._queues.get(".".join(levels), ("", ""))
            if any(NaiveAcl(text).groups for text in acls[access == "admin" :]):
                return True
            levels.pop()
        return False
