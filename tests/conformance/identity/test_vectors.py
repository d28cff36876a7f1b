"""YuniKorn's answers about users and groups, and where ours differ on purpose.

The reasons for the differences are in `tests/vectors/DEVIATIONS.md`.
"""

import json
from pathlib import Path
from typing import Any

import pytest

from queuegate.policy.names import is_user_name
from queuegate_server.identity import resolver_types
from queuegate_server.identity.cache import GroupCache
from queuegate_server.identity.group_resolver import GroupResolver
from queuegate_server.identity.guarded_resolver import GuardedResolver
from queuegate_server.identity.options import CacheOptions, ResolverOptions
from queuegate_server.identity.resolver import KnownUser, LookupFailure, NoSuchUser, Outcome, Source
from tests.support.fakes.clock import ManualClock
from tests.support.fakes.loop import run_ready_callbacks

VECTORS: dict[str, Any] = json.loads(Path("tests/vectors/usergroup_vectors.json").read_text())

FAILING_LISTS = {"testuser5", "invalid-gid-user"}
"""Users of the test table who exist but whose group list cannot be had."""


class _Counting:
    """Counts the lookups of a resolver; answers from a script if there is one."""

    def __init__(
        self, kind: str, script: dict[str, Any], failure: Outcome, clock: ManualClock
    ) -> None:
        self.lookups = 0
        self._script = script
        self._failure = failure
        self._clock = clock
        self._resolver: Source = resolver_types.resolver_type("none" if kind == "script" else kind)(
            ResolverOptions()
        )

    async def open(self) -> None:
        """Need nothing."""

    async def resolve(self, user: str) -> Outcome:
        self.lookups += 1
        if not self._script:
            return await self._resolver.resolve(user)
        phase = [phase for phase in self._script[user] if phase["from"] <= self._clock.now][-1]
        return self._failure if "fail" in phase else KnownUser(tuple(phase["groups"]))

    async def close(self) -> None:
        """Need nothing."""


def partition(resolver: _Counting, clock: ManualClock) -> GroupResolver:
    shared = GuardedResolver("vectors", resolver, ResolverOptions(), clock=clock)
    cache = GroupCache(CacheOptions(), clock, clock, lambda: 0.0)
    return GroupResolver(shared, cache)


async def resolve(kind: str, user: str) -> Outcome:
    return await resolver_types.resolver_type(kind)(ResolverOptions()).resolve(user)


def named(section: str) -> list[Any]:
    return [pytest.param(vector, id=vector["id"]) for vector in VECTORS[section]]


@pytest.mark.parametrize("kind", ["test", "none"])
async def test_a_user_without_a_name_is_refused(kind: str) -> None:
    section = VECTORS["test_resolver" if kind == "test" else "no_resolver"]
    assert [v["error"] for v in section if not v["user"]] == ["empty_user"]
    clock = ManualClock()
    with pytest.raises(ValueError, match="empty"):
        await partition(_Counting(kind, {}, NoSuchUser(""), clock), clock).resolve("")


@pytest.mark.parametrize("vector", named("test_resolver"))
async def test_the_test_table(vector: dict[str, Any]) -> None:
    user = vector["user"]
    if not user:
        return
    outcome = await resolve("test", user)
    if vector["ok"]:
        assert outcome == KnownUser(tuple(vector["groups"]))
    else:
        # The partial list of the reference's failed entry (`groups`) is not to be had.
        assert isinstance(outcome, LookupFailure if user in FAILING_LISTS else NoSuchUser)


@pytest.mark.parametrize("vector", named("no_resolver"))
async def test_no_resolver(vector: dict[str, Any]) -> None:
    if vector["user"]:
        assert await resolve("none", vector["user"]) == KnownUser(tuple(vector["groups"]))


@pytest.mark.parametrize("vector", named("user_names"))
def test_user_names(vector: dict[str, Any]) -> None:
    assert is_user_name(vector["user"]) is vector["valid"]


@pytest.mark.parametrize("vector", named("convert"))
async def test_convert(vector: dict[str, Any]) -> None:
    """A question with groups is about the name only; one without is a lookup.

    Forced submissions are the scheduler's: callers of ours get the answer of an unforced one,
    so that only made-up users and groups differ.
    """
    user: str = vector["user"]
    expected: dict[str, Any] = vector.get("result", {})
    made_up = expected.get("groups") == ["nogroup"]
    if made_up:
        assert vector["force"]
    if not user:
        assert vector.get("error") == "empty_user" or expected["user"] == "nobody"
    elif vector["groups"]:
        assert is_user_name(user) is (vector.get("error") != "invalid_user")
    else:
        outcome = await resolve(vector["resolver"], user)
        if isinstance(outcome, KnownUser):
            assert list(outcome.groups) == expected["groups"]
        else:
            assert made_up or vector["error"] in {"lookup_failed", "invalid_user"}


def test_the_forced_conversions_are_listed() -> None:
    text = Path("tests/vectors/DEVIATIONS.md").read_text()
    forced = [vector["id"] for vector in VECTORS["convert"] if vector["force"]]
    assert [name for name in forced if f"`{name}`" not in text] == []


RETRIED, NOT_KEPT, STALE, REFRESHED = "retried", "not kept", "stale", "refreshed"
"""Why an answer differs: a failure is looked up again after its lifetime; groups of a request,
and made-up ones, are not kept for others; expired groups bridge a failing directory; groups
are refreshed ahead of their expiry."""

# Scenario -> step -> our answer, and why it is not the reference's.
DIFFERENCES: dict[str, dict[int, tuple[str, str]]] = {
    "negative-without-cleaner": {
        3: ("failed, 2 lookups", RETRIED),
        4: ("failed, 3 lookups", RETRIED),
        5: ("failed, 4 lookups", RETRIED),
    },
    "partial-failure": {
        1: ("failed, 2 lookups", RETRIED),
        2: ("failed, 2 lookups", RETRIED),
        4: ("failed, 2 lookups", NOT_KEPT),
    },
    "provided-groups-clear-failure": {2: ("failed, 1 lookups", NOT_KEPT)},
    "provided-groups-replace": {
        2: ("a, 1 lookups", NOT_KEPT),
        4: ("a, 2 lookups", NOT_KEPT),
        5: ("a, 2 lookups", NOT_KEPT),
    },
    "forced-unknown": {
        1: ("failed, 1 lookups", NOT_KEPT),
        2: ("failed, 2 lookups", NOT_KEPT),
        6: ("failed, 2 lookups", NOT_KEPT),
    },
    "forced-empty": {1: ("failed, 1 lookups", NOT_KEPT)},
    "no-resolver": {2: ("bob, 1 lookups", NOT_KEPT)},
    "failure-recovers, could not ask": {
        1: ("g1, 2 lookups", RETRIED),
        3: ("g1, 2 lookups", RETRIED),
        6: ("g1, 3 lookups", REFRESHED),
    },
    "expired-then-failing, could not ask": {
        1: ("g1 g2 (stale), 2 lookups", STALE),
        2: ("g1 g2 (stale), 2 lookups", STALE),
        5: ("g1 g2 (stale), 3 lookups", STALE),
    },
}


@pytest.mark.parametrize("failure", [NoSuchUser("script"), LookupFailure("script")])
@pytest.mark.parametrize("scenario", named("scenarios"))
async def test_scenarios(scenario: dict[str, Any], failure: Outcome) -> None:
    """A failure of the reference is one of two outcomes here: both are tried."""
    clock = ManualClock(0)
    resolver = _Counting(scenario["resolver"], scenario.get("script", {}), failure, clock)
    groups = partition(resolver, clock)
    differences = {}
    for number, step in enumerate(scenario["steps"]):
        clock.now = step["t"]
        # There is no cleaner; groups of a request come with the question and go with it; a
        # forced submission and one without a user name do not reach us.
        if step["op"] == "clean" or step.get("force") or step.get("groups") or not step["user"]:
            continue
        answer = await groups.resolve(step["user"])
        outcome, expected = answer.entry.outcome, step["expect"]
        ours = " ".join(outcome.groups) if isinstance(outcome, KnownUser) else "failed"
        ours += f"{' (stale)' * answer.stale}, {resolver.lookups} lookups"
        await run_ready_callbacks()
        reference = " ".join(expected["groups"]) if expected["ok"] else "failed"
        if ours != f"{reference}, {step['lookups']} lookups":
            differences[number] = ours
    name = scenario["id"]
    if scenario["resolver"] == "script" and isinstance(failure, LookupFailure):
        name += ", could not ask"
    expected_differences = DIFFERENCES.get(name, {})
    assert differences == {step: ours for step, (ours, _) in expected_differences.items()}


def test_the_differences_are_documented() -> None:
    text = Path("tests/vectors/DEVIATIONS.md").read_text()
    for name in DIFFERENCES:
        assert f"`{name.partition(',')[0]}`" in text
