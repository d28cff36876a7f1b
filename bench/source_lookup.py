"""A cold lookup in a real Keycloak, compared with the same requests from a bare HTTP client.

Keycloak, the server and this process share the machine's processors.
"""

import asyncio
import itertools
import json
import statistics
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Self

import aiohttp
import trustme
import uvloop
import yaml

from bench.command import CannotMeasure, Scale, main
from bench.results import Part, Table, Target, spread
from queuegate import aio
from queuegate_server.identity.resolver import KnownUser
from queuegate_server.identity.resolvers.keycloak.keycloak_options import KeycloakOptions
from queuegate_server.identity.resolvers.keycloak.keycloak_resolver import KeycloakResolver
from tests.e2e.sources import realms
from tests.support.servers.keycloak import Keycloak, running_keycloak
from tests.support.servers.queuegate_server import running_server

_REALM: Final = "latency"
_TEAMS: Final = 40
_GROUPS_EACH: Final = 5
_GOAL_MS: Final = 2.0
_KEYCLOAK: Final = "the two requests, from a bare client"
_RESOLVER: Final = "`KeycloakResolver.resolve`"
_CHECK: Final = "a check of a user who is new to the server"
_AGAIN: Final = "the same check again, without a lookup"

Ask = Callable[[str], Awaitable[None]]


def measure(scale: Scale, folder: Path) -> Part:
    """Start Keycloak and measure everything on it."""
    ca = trustme.CA()
    with running_keycloak(folder / "keycloak", ca) as keycloak:
        return measure_on(keycloak, ca, scale, folder)


def measure_on(keycloak: Keycloak, ca: trustme.CA, scale: Scale, folder: Path) -> Part:
    """Add a realm to a Keycloak, and measure lookups in it."""
    users = 20 if scale.is_quick else 150
    # Those of the first round, which is not counted, warm up all processes.
    names = [f"user{number}" for number in range(users * (scale.rounds + 1))]
    _add_realm(keycloak, names)
    settings = realms.settings(folder, keycloak, ca, _REALM)
    rounds = [names[start : start + users] for start in range(0, len(names), users)]
    with running_server("--config", str(_configuration(folder, settings))) as server:
        _, *seconds = uvloop.run(_measure(server.address, settings, rounds))
    return _part(seconds, users)


def _part(seconds: Sequence[Mapping[str, Sequence[float]]], users: int) -> Part:
    table = Table(
        "A cold lookup in Keycloak",
        f"Milliseconds, one call after the other, over TLS on loopback; {len(seconds)} rounds of "
        f"{users} users, each in {_GROUPS_EACH} of {_TEAMS} groups. Each user is asked about in "
        "every way, in turn, after the bare client has asked once about everybody, so that "
        "Keycloak has the users in its own cache. The bare client is a session of aiohttp with one "
        "open connection, which sends the requests that the resolver sends (a search for the user, "
        "and the user's groups) and reads the answers. A check includes its gRPC call, which the "
        "last row shows alone. Added: the median beyond the bare client's in the same round.",
        ("lookup", "p50", "p99", "added at p50"),
    )
    medians = {name: [statistics.median(each[name]) for each in seconds] for name in seconds[0]}
    added = {
        name: [ours - bare for ours, bare in zip(medians[name], medians[_KEYCLOAK], strict=True)]
        for name in (_RESOLVER, _CHECK)
    }
    for name, values in medians.items():
        p99 = [statistics.quantiles(each[name], n=100, method="inclusive")[98] for each in seconds]
        more = spread(added[name], ".2f") if name in added else ""
        table.add(name, spread(values, ".2f"), spread(p99, ".2f"), more)
    return Part(
        [table],
        [
            Target(
                f"{name}: added to Keycloak's own latency at the median",
                f"less than {_GOAL_MS:g} ms",
                f"{spread(added[name], '.2f')} ms",
                statistics.median(added[name]) < _GOAL_MS,
            )
            for name in added
        ],
    )


def _groups_of(name: str) -> list[str]:
    first = int(name.removeprefix("user"))
    return [f"/eng/team{(first + 7 * each) % _TEAMS}" for each in range(_GROUPS_EACH)]


def _add_realm(keycloak: Keycloak, names: Sequence[str]) -> None:
    teams = [realms.group(f"team{number}") for number in range(_TEAMS)]
    people = [realms.user(name, *_groups_of(name)) for name in names]
    keycloak.add_realm(realms.realm(_REALM, [realms.group("eng", *teams)], people))


def _configuration(folder: Path, settings: Mapping[str, Any]) -> Path:
    teams = ",".join(f"/eng/team{number}" for number in range(_TEAMS))
    policy = folder / "queues.yaml"
    queues = [{"name": "root", "queues": [{"name": "team", "submitacl": f" {teams}"}]}]
    policy.write_text(yaml.safe_dump({"partitions": [{"name": "default", "queues": queues}]}))
    config = folder / "queuegate.yaml"
    config.write_text(
        yaml.safe_dump(
            {
                "policy": {"path": str(policy)},
                "resolvers": {"corp": {"type": "keycloak", **settings}},
                "partitions": {"default": {"resolver": "corp", "acl_names": "any"}},
            }
        )
    )
    return config


async def _measure(
    address: str, settings: Mapping[str, Any], rounds: Sequence[Sequence[str]]
) -> list[dict[str, list[float]]]:
    """Return the milliseconds of all calls in each round, by what was called."""
    resolver = KeycloakResolver(KeycloakOptions.model_validate(settings))
    await resolver.open()
    try:
        async with aio.Client(address, timeout=60) as client, BareClient(settings) as bare:

            async def resolve(name: str) -> None:
                outcome = await resolver.resolve(name)
                if not isinstance(outcome, KnownUser) or len(outcome.groups) != _GROUPS_EACH:
                    raise CannotMeasure(f"{name}: {outcome}")

            async def check(name: str) -> None:
                if not await client.check(name, "root.team"):
                    raise CannotMeasure(f"{name}: denied")

            ways: dict[str, Ask] = {_KEYCLOAK: bare.ask, _RESOLVER: resolve, _CHECK: check}
            await bare.sign_in()
            for name in itertools.chain(*rounds):
                await bare.ask(name)
            measured = []
            for names in rounds:
                await bare.sign_in()
                measured.append(await _round(names, ways))
            return measured
    finally:
        await resolver.close()


async def _round(names: Sequence[str], ways: Mapping[str, Ask]) -> dict[str, list[float]]:
    milliseconds: dict[str, list[float]] = {name: [] for name in (*ways, _AGAIN)}
    # Each way follows each other one as often, because what has just run answers faster.
    for name, order in zip(names, itertools.cycle(itertools.permutations(ways)), strict=False):
        for way in order:
            milliseconds[way].append(await _timed(ways[way], name))
        milliseconds[_AGAIN].append(await _timed(ways[_CHECK], name))
    return milliseconds


async def _timed(ask: Ask, name: str) -> float:
    begin = time.perf_counter()
    await ask(name)
    return (time.perf_counter() - begin) * 1e3


class BareClient:
    """Sends the requests of the resolver over one connection, without any of its checks."""

    def __init__(self, settings: Mapping[str, Any]) -> None:
        self._settings = settings
        self._url = settings["url"]
        self._headers: dict[str, str] = {}

    async def __aenter__(self) -> Self:
        """Open the session."""
        context = await asyncio.to_thread(
            KeycloakOptions.model_validate(self._settings).tls_context
        )
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=1, ssl=context, keepalive_timeout=600),
            cookie_jar=aiohttp.DummyCookieJar(),
        )
        return self

    async def __aexit__(self, *_: object) -> None:
        """Close the session."""
        await self._session.close()

    async def sign_in(self) -> None:
        """Get a new token."""
        form = {
            "grant_type": "client_credentials",
            "client_id": realms.CLIENT,
            "client_secret": realms.SECRET,
        }
        url = f"{self._url}/realms/{_REALM}/protocol/openid-connect/token"
        async with self._session.post(url, data=form) as response:
            token = json.loads(await response.read())["access_token"]
        self._headers = {"Authorization": f"Bearer {token}"}

    async def ask(self, name: str) -> None:
        """Request a user, and the user's groups."""
        brief = "briefRepresentation=true"
        [user] = json.loads(await self._get(f"/users?username={name}&exact=true&max=3&{brief}"))
        groups = f"/users/{user['id']}/groups?first=0&max=500&{brief}"
        if len(json.loads(await self._get(groups))) != _GROUPS_EACH:
            raise CannotMeasure(f"{name} has other groups")

    async def _get(self, path: str) -> bytes:
        url = f"{self._url}/admin/realms/{_REALM}{path}"
        async with self._session.get(url, headers=self._headers) as response:
            if response.status != 200:
                raise CannotMeasure(f"Keycloak answered {response.status}")
            return await response.read()


if __name__ == "__main__":
    main(measure, __doc__)
