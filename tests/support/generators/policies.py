"""Random YuniKorn policies."""

import random
from collections.abc import Iterable, Mapping, Sequence

Queues = Mapping[str, tuple[str, str]]
"""(submit ACL, admin ACL) by lower-case path, each queue after its parent."""


def random_queues(
    rng: random.Random, count: int, users: Sequence[str], groups: Sequence[str]
) -> Queues:
    """Return a tree of queues. Most ACLs name a few users and groups, some are empty, and few let
    everyone in.
    """
    queues = {"root": ("", rng.choice(users))}
    while len(queues) < count:
        parent = rng.choice([path for path in queues if path.count(".") < 5])
        queues[f"{parent}.q{len(queues)}"] = (
            _random_acl(rng, users, groups),
            _random_acl(rng, users, groups) if rng.random() < 0.3 else "",
        )
    return queues


def _random_acl(rng: random.Random, users: Sequence[str], groups: Sequence[str]) -> str:
    kind = rng.random()
    if kind < 0.03:
        return "*"
    if kind < 0.4:
        return rng.choice(["", " "])
    some_users = rng.sample(users, rng.randrange(3))
    some_groups = rng.sample(groups, rng.randrange(3))
    return ",".join(some_users) + " " + ",".join(some_groups)


def policy_text(partitions: Mapping[str, tuple[str, Queues]]) -> str:
    """Return the configuration of partitions, each given as a resolver type and its queues."""
    lines = ["partitions:"]
    for name, (resolver, queues) in partitions.items():
        lines += [f"  - name: {name}", f'    usergroupresolver: {{type: "{resolver}"}}']
        lines += ["    queues:", *_queue_lines(queues, "root", 6)]
    return "\n".join(lines) + "\n"


def _queue_lines(queues: Queues, path: str, indent: int) -> Iterable[str]:
    submit_acl, admin_acl = queues[path]
    blank = " " * indent
    yield f'{blank}- name: "{path.rpartition(".")[2]}"'
    yield f'{blank}  submitacl: "{submit_acl}"'
    yield f'{blank}  adminacl: "{admin_acl}"'
    children = [child for child in queues if child.rpartition(".")[0] == path]
    if children:
        yield f"{blank}  queues:"
        for child in children:
            yield from _queue_lines(queues, child, indent + 4)
