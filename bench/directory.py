"""Groups from an LDAP directory, resolved cold: latency, throughput, and one search for many users.

The directory is a slapd on this machine, generated and loaded here. For comparison, a pool of
python-ldap connections with threads performs the same searches.
"""

import asyncio
import itertools
import queue
import statistics
import threading
import time
from pathlib import Path
from typing import Any, Final

import ldap
import ldap.dn

from bench.big_directory import DEPTH, BigDirectory, Size, big_directory, groups_of, user
from bench.command import CannotMeasure, Scale, main
from bench.results import Part, Table, Target, middle, ratios, spread
from queuegate_server.identity.cache import GroupCache
from queuegate_server.identity.group_resolver import GroupResolver
from queuegate_server.identity.guarded_resolver import GuardedResolver
from queuegate_server.identity.options import CacheOptions
from queuegate_server.identity.resolver import KnownUser
from queuegate_server.identity.resolvers.ldap.ldap_options import LdapOptions
from queuegate_server.identity.resolvers.ldap.ldap_resolver import LdapResolver
from tests.support.servers.slapd import GROUPS, PASSWORD, PEOPLE, POSIX, SERVICE

_GOAL: Final = 0.7
_AT_ONCE: Final = 64
_CALLERS: Final = 10_000
_STRATEGIES: Final[dict[str, dict[str, Any]]] = {
    "member_of": {"groups_from": "member_of"},
    "member_dn": {"groups_from": "member_dn"},
    "member_uid": {
        "groups_from": "member_uid",
        "group_base": POSIX,
        "group_filter": "(objectClass=posixGroup)",
        "member_attribute": "memberUid",
    },
    f"member_dn, nested {DEPTH} deep": {"groups_from": "member_dn", "nested": "walk"},
    f"member_of, nested {DEPTH} deep": {"groups_from": "member_of", "nested": "walk"},
}


def measure(scale: Scale, folder: Path) -> Part:
    """Load the directory once and measure everything on it."""
    size = Size(2_000, 200) if scale.is_quick else Size(100_000, 5_000)
    with big_directory(folder, size) as directory:
        part = Part()
        part.remarks.append(
            f"The directory of {size.users:,} users and {size.groups:,} groups of each kind, "
            f"nested {DEPTH} deep, was loaded by slapadd in {directory.load_seconds:.1f} s."
        )
        asyncio.run(_measure(directory, scale, part))
        return part


async def _measure(directory: BigDirectory, scale: Scale, part: Part) -> None:
    latency = Table(
        "A cold lookup, one after the other",
        "`LdapResolver.resolve` for a new user each time, over StartTLS on loopback. Milliseconds.",
        ("strategy", "lookups", "p50", "p90", "p99", "largest", "groups of a user"),
    )
    for name, given in _STRATEGIES.items():
        latency.add(name, *await _latency(directory, given, 200 if scale.is_quick else 2_000))
    part.tables.append(latency)
    part.tables.append(await _throughput(directory, scale, part.targets))
    part.targets.append(await _one_search(directory))


def _options(directory: BigDirectory, **more: Any) -> LdapOptions:
    options: dict[str, Any] = {
        "urls": [directory.slapd.url],
        "ca_file": directory.ca_file,
        "bind_dn": SERVICE,
        "bind_password_file": directory.password_file,
        "user_base": PEOPLE,
        "group_base": GROUPS,
    }
    return LdapOptions.model_validate(options | more)


async def _opened(directory: BigDirectory, **more: Any) -> LdapResolver:
    resolver = LdapResolver(_options(directory, **more))
    await resolver.open()
    await _resolved(resolver, 0)
    return resolver


async def _resolved(resolver: LdapResolver, number: int) -> KnownUser:
    outcome = await resolver.resolve(user(number))
    if not isinstance(outcome, KnownUser):
        raise CannotMeasure(f"{user(number)}: {outcome}")
    return outcome


async def _latency(directory: BigDirectory, options: dict[str, Any], times: int) -> list[str]:
    resolver = await _opened(directory, **options)
    seconds: list[float] = []
    groups: list[int] = []
    for number in range(times):
        chosen = number * 7919 % directory.size.users
        start = time.perf_counter()
        outcome = await _resolved(resolver, chosen)
        seconds.append(time.perf_counter() - start)
        groups.append(len(outcome.groups))
        if len(outcome.groups) < len(groups_of(chosen, directory.size)):
            raise CannotMeasure(f"{user(chosen)} has only {outcome.groups}")
    await resolver.close()
    cuts = statistics.quantiles(seconds, n=100)
    figures = (cuts[49], cuts[89], cuts[98], max(seconds))
    return [
        f"{times:,}",
        *(f"{value * 1000:.2f}" for value in figures),
        f"{statistics.mean(groups):.1f}",
    ]


async def _throughput(directory: BigDirectory, scale: Scale, targets: list[Target]) -> Table:
    table = Table(
        "Cold lookups per second",
        f"`{_AT_ONCE}` lookups at once on `LdapResolver`'s connection, without encryption, "
        "compared with pools of plain python-ldap connections, each with its own thread, that "
        "make the same searches and read the same names. `LdapResolver` has one connection to a "
        "server, and no setting for more, so the goal refers to the pool of 1. The pool of 8 "
        "shows what the directory can deliver over more connections and threads. Below the "
        "rates: the client's processor time per lookup, in microseconds. `LdapResolver`'s event "
        "loop is fully busy, so a second connection would not make it faster; more `workers` "
        "would.",
        ("strategy", "queuegate", "pool of 1", "ratio", "pool of 8", "ratio"),
    )
    plain = {"start_tls": False, "allow_plaintext_bind": True}
    for name, nested in (("member_of", False), ("member_dn", True)):
        resolver = await _opened(directory, **plain, **_STRATEGIES[name])
        pools = {size: Pool(directory, size, searches_groups=nested) for size in (1, 8)}
        ours: list[float] = []
        theirs: dict[int, list[float]] = {size: [] for size in pools}
        costs: dict[int, list[float]] = {size: [] for size in (0, *pools)}
        for _ in range(scale.rounds):
            used = time.process_time()
            ours.append(await _rate(resolver, directory, scale.seconds))
            costs[0].append((time.process_time() - used) / ours[-1] / scale.seconds * 1e6)
            for size, pool in pools.items():
                used = time.process_time()
                theirs[size].append(await asyncio.to_thread(pool.rate, scale.seconds))
                spent = time.process_time() - used
                costs[size].append(spent / theirs[size][-1] / scale.seconds * 1e6)
        await resolver.close()
        compared = {size: ratios(ours, found) for size, found in theirs.items()}
        table.add(
            name,
            spread(ours),
            spread(theirs[1]),
            middle(compared[1], ".2f"),
            spread(theirs[8]),
            middle(compared[8], ".2f"),
        )
        table.add(
            f"{name}, µs",
            spread(costs[0]),
            spread(costs[1]),
            middle(ratios(costs[0], costs[1]), ".2f"),
            spread(costs[8]),
            middle(ratios(costs[0], costs[8]), ".2f"),
        )
        reached = statistics.median(compared[1])
        targets.append(
            Target(
                f"cold lookups with {name}, against a python-ldap pool of the same size (1)",
                f"at least {_GOAL}",
                f"{reached:.2f}",
                reached >= _GOAL,
            )
        )
    return table


async def _rate(resolver: LdapResolver, directory: BigDirectory, seconds: float) -> float:
    numbers = itertools.count(1)
    start = time.perf_counter()
    end = start + seconds

    async def work() -> int:
        done = 0
        while time.perf_counter() < end:
            await _resolved(resolver, next(numbers) * 7919 % directory.size.users)
            done += 1
        return done

    done = sum(await asyncio.gather(*(work() for _ in range(_AT_ONCE))))
    return done / (time.perf_counter() - start)


class Pool:
    """Plain python-ldap connections, with a thread each."""

    def __init__(self, directory: BigDirectory, size: int, *, searches_groups: bool) -> None:
        self._directory = directory
        self._searches_groups = searches_groups
        self._connections: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._size = size
        for _ in range(size):
            connection = ldap.initialize(directory.slapd.url)
            connection.simple_bind_s(SERVICE, PASSWORD)
            self._connections.put(connection)

    def rate(self, seconds: float) -> float:
        """Return the number of users looked up per second."""
        counts: list[int] = []
        numbers = itertools.count(1)
        start = time.perf_counter()

        def work() -> None:
            connection = self._connections.get()
            done = 0
            # At least one, however late the thread gets to run, to avoid dividing by zero.
            while not done or time.perf_counter() < start + seconds:
                self._look_up(connection, user(next(numbers) * 7919 % self._directory.size.users))
                done += 1
            self._connections.put(connection)
            counts.append(done)

        threads = [threading.Thread(target=work) for _ in range(self._size)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return sum(counts) / (time.perf_counter() - start)

    def _look_up(self, connection: Any, name: str) -> list[str]:
        message_id = connection.search_ext_s(
            PEOPLE,
            ldap.SCOPE_SUBTREE,
            f"(&(objectClass=person)(uid={name}))",
            ["uid", "memberOf"],
            timeout=2,
            sizelimit=2,
        )
        if self._searches_groups:
            entries = connection.search_ext_s(
                GROUPS,
                ldap.SCOPE_SUBTREE,
                f"(&(objectClass=groupOfNames)(member={message_id[0][0]}))",
                ["cn"],
                timeout=2,
                sizelimit=5001,
            )
            names = [dn for dn, _ in entries]
        else:
            names = [value.decode() for value in message_id[0][1]["memberOf"]]
        return [ldap.dn.str2dn(dn)[0][0][1] for dn in names]


async def _one_search(directory: BigDirectory) -> Target:
    options = _options(directory, groups_from="member_of")
    resolver = LdapResolver(options)
    users = GroupResolver(
        GuardedResolver("corp", resolver, options),
        GroupCache(CacheOptions(), time.monotonic, time.time),
    )
    await resolver.open()
    answers = await asyncio.gather(*(users.resolve(user(1)) for _ in range(_CALLERS)))
    searches = resolver.statistics.steps[directory.slapd.url, "user search"].succeeded
    await users.close()
    await resolver.close()
    if not all(isinstance(answer.entry.outcome, KnownUser) for answer in answers):
        raise CannotMeasure("not everyone was answered")
    return Target(
        f"{_CALLERS:,} checks at once for one user that is not in the cache",
        "1 search",
        f"{searches} search",
        searches == 1,
    )


if __name__ == "__main__":
    main(measure, __doc__)
