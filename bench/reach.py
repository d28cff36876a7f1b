"""Who may use a queue, who gains from a change, and claims, computed in this process.

Shows the cost of `queuegate who-can`, `diff --people` and `prove` with a policy of 100,000 queues
and a directory of 100,000 users.
"""

import asyncio
import gc
import json
import random
import statistics
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from bench import policies
from bench.command import CannotMeasure, Scale, main
from bench.policies import QueueSpec
from bench.results import Part, Table, Target, middle, spread
from queuegate.policy.claims import Everyone, NoNewAccess, Only, Uses, Within, refute
from queuegate.policy.decision import Access
from queuegate.policy.difference import compare, people
from queuegate.policy.queue import QueueAcls
from queuegate.policy.reach import SubjectKind, effective_acl, who_can
from queuegate.policy.tree import Partition, build_partition
from queuegate.policy.worlds import OpenWorld, Subject
from queuegate.v1 import access_pb2
from queuegate_server.formats.registry import load_policy
from queuegate_server.runtime import resources
from queuegate_server.server.offline import OfflineServices
from queuegate_server.settings.load import load_settings
from queuegate_server.settings.source_map import Override

_USERS: Final = 100_000
_CHANGED_ONE_IN: Final = 100
_LISTED: Final = 1_000
_MAX_WHO_CAN_MS: Final = 1.0
_MAX_DIFFERENCE: Final = 2.0
_MAX_CLAIM: Final = 0.5


def measure(scale: Scale, folder: Path) -> Part:
    """Load two versions of a policy and ask."""
    resources.configure_gc()  # as the commands do
    queues, users = (5_000, 5_000) if scale.is_quick else (policies.LARGE, _USERS)
    specs = policies.generate(queues)
    changed = _changed(specs)
    old, new, same = (_load(each) for each in (specs, changed, changed))
    members, seconds = _members(users)
    gc.freeze()
    table = Table(
        "Who may use queues, who gains, and claims",
        f"{queues:,} queues with 11 names each, of which 1 in {_CHANGED_ONE_IN} lists another group"
        f" in the new version; a directory of {users:,} users in 5 groups each. Processor time. The"
        " first column is that of the first question, which also parses the ACLs that it needs.",
        ("question", "first, s", "then, s"),
    )
    table.add("to invert the directory", f"{seconds:.2f}", "")
    targets = []
    taken = _seconds(scale, lambda: len(compare(old, new, Access.SUBMIT)))
    table.add("difference by name, submit", f"{taken[0]:.2f}", spread(taken[1:], ".2f"))
    expand = people(members)
    taken = _seconds(scale, lambda: len(compare(old, new, Access.SUBMIT, expand)))
    table.add("difference by people, submit", f"{taken[0]:.2f}", spread(taken[1:], ".2f"))
    what = f"difference of two policies of {queues:,} queues for {users:,} users"
    targets.append(_target(what, taken, _MAX_DIFFERENCE, "s"))
    for name, claim in _claims(specs, same).items():
        taken = _seconds(scale, lambda claim=claim: refute(new, claim, OpenWorld()) is None)  # type: ignore[misc]
        table.add(name, f"{taken[0]:.2f}", spread(taken[1:], ".2f"))
        targets.append(_target(f"{name}, {queues:,} queues", taken[:1], _MAX_CLAIM, "s"))
    listing, target = _who_can(scale, folder)
    return Part([table, listing], [*targets, target])


def _who_can(scale: Scale, folder: Path) -> tuple[Table, Target]:
    table = Table(
        f"Who can use a queue: {_LISTED:,} users",
        "`policy.reach.who_can` of a queue whose effective ACL lists the users by name, or a group"
        " with them; and a page of `ListUsers` in this process, which also decides a check of each"
        " user. Processor time, without that of a directory.",
        ("users", "ms"),
    )
    users = [f"user{number}" for number in range(_LISTED)]
    slowest = [0.0]
    for name, text in (("by name", ",".join(users)), ("in a group", " team")):
        root = QueueAcls("root", text, "")
        partition = build_partition("default", "", [root])
        taken = _seconds(scale, lambda partition=partition: _list(partition, users))  # type: ignore[misc]
        each = [1_000 * seconds for seconds in taken[1:]]
        table.add(name, spread(each, ".2f"))
        slowest = max(slowest, each, key=statistics.median)
    pages = [1_000 * seconds for seconds in asyncio.run(_pages(scale, folder, users))]
    table.add("by name, a page of `ListUsers`", spread(pages, ".2f"))
    what = f"who-can of a queue with {_LISTED:,} users"
    return table, _target(what, slowest, _MAX_WHO_CAN_MS, "ms")


async def _pages(scale: Scale, folder: Path, users: Sequence[str]) -> list[float]:
    """Return the time of each call of `ListUsers` after the first one."""
    policy = folder / "queues.yaml"
    queue = {"name": "root", "submitacl": ",".join(users)}
    policy.write_text(json.dumps({"partitions": [{"name": "default", "queues": [queue]}]}))
    services = OfflineServices(
        load_settings(options=[Override("--policy", ("policy", "path"), str(policy))])
    )
    request = access_pb2.ListUsersRequest(
        queue="root", access=access_pb2.ACCESS_TYPE_SUBMIT, page_size=_LISTED
    ).SerializeToString()
    taken = []
    try:
        await services.load()
        for _ in range(scale.rounds + 1):
            gc.collect()
            start = time.thread_time()
            answer = await services.call("ListUsers", request)
            taken.append(time.thread_time() - start)
            if len(access_pb2.ListUsersResponse.FromString(answer).users) != len(users):
                raise CannotMeasure("the page does not have all users")
    finally:
        await services.close()
    return taken[1:]


def _list(partition: Partition, users: Sequence[str]) -> int:
    acl = effective_acl(partition, "root", Access.SUBMIT)
    return len(who_can(acl, {"team": users}).users)


def _seconds(scale: Scale, work: Callable[[], int]) -> list[float]:
    """Return the time of each round. All must give the same result, which is not 0."""
    taken, results = [], set()
    for _ in range(scale.rounds + 1):
        gc.collect()
        start = time.thread_time()
        results.add(work())
        taken.append(time.thread_time() - start)
    if len(results) != 1 or results == {0}:
        raise CannotMeasure(f"the results are {sorted(results)}")
    return taken


def _claims(
    specs: Sequence[QueueSpec], same: Partition
) -> dict[str, Only | Everyone | Within | NoNewAccess]:
    """Return claims that hold, so that no proof ends early."""
    names = {
        Subject(kind, name)
        for spec in specs
        for kind, listed in (
            (SubjectKind.USER, spec.users + spec.admin_users),
            (SubjectKind.GROUP, (*spec.groups, *spec.admin_groups, "team-new")),
        )
        for name in listed
    }
    everywhere = Uses(Access.ADMIN, "root", with_below=True)
    group = Subject(SubjectKind.GROUP, specs[0].admin_groups[0])
    return {
        "claim: no new access compared with the same": NoNewAccess(same),
        "claim: only these may admin root.**": Only(frozenset(names), everywhere),
        "claim: everyone in the group may submit root.**": Everyone(
            group, Uses(Access.SUBMIT, "root", with_below=True)
        ),
    }


def _target(what: str, taken: Sequence[float], most: float, unit: str) -> Target:
    median = statistics.median(taken)
    return Target(what, f"< {most:g} {unit}", f"{middle(taken, '.2f')} {unit}", median < most)


def _load(specs: Sequence[QueueSpec]) -> Partition:
    loaded = load_policy("yunikorn", policies.to_yaml(specs).encode(), "queues.yaml")
    if not loaded.partitions:
        raise CannotMeasure(f"the generated policy does not load: {loaded.diagnostics[:3]}")
    return loaded.partitions["default"]


def _changed(specs: Sequence[QueueSpec]) -> list[QueueSpec]:
    """Return the policy with another group in some ACLs for submission."""
    return [
        spec._replace(groups=(*spec.groups[1:], "team-new"))
        if number % _CHANGED_ONE_IN == _CHANGED_ONE_IN - 1 and spec.groups
        else spec
        for number, spec in enumerate(specs)
    ]


def _members(users: int) -> tuple[dict[str, frozenset[str]], float]:
    """Return the members of each group of a directory, and the seconds that it took."""
    rng = random.Random(users)
    teams = [f"team{number}" for number in range(users // 10)] + ["team-new"]
    directory = {f"user{number}": rng.sample(teams, 5) for number in range(users)}
    start = time.thread_time()
    members: dict[str, set[str]] = {}
    for user, groups in directory.items():
        for group in groups:
            members.setdefault(group, set()).add(user)
    frozen = {group: frozenset(names) for group, names in members.items()}
    return frozen, time.thread_time() - start


if __name__ == "__main__":
    main(measure, __doc__)
