"""The world of a server: files and a directory, whose changes are recorded."""

import asyncio
import hashlib
import itertools
import random
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from tests.resilience.history import model
from tests.resilience.history.clients import TOKENS
from tests.resilience.history.recorder import Recorder
from tests.resilience.history.records import FAILED, Groups, Lifetimes
from tests.resilience.history.registers import USER
from tests.support.atomic_files import replace
from tests.support.fakes.scripted_directory import ScriptedDirectory, settings_file

_ROLES = ("check", "read", "admin")
_CHOICES = ((), ("check",), ("check", "read"), ("read",), _ROLES)
FAILURE_TTL = 0.2


class Times(NamedTuple):
    """The seconds for which groups may be used."""

    ttl: float
    max_stale: float
    lookup_timeout: float


SHORT = Times(ttl=1, max_stale=1, lookup_timeout=1)
LONG = Times(ttl=20, max_stale=5, lookup_timeout=10)
"""Groups change only if they are invalidated, and no lookup fails because the machine is busy."""
FAILING, FAILING_OF_FLEET = (0.08,), (0.02, 0.35)
"""The part of changes of groups after which a user cannot be looked up; a round has one of these.
Replicas that are away may use stale groups then: with few failures, most wrong answers are found;
with many, those of replicas that use stale groups for too long."""
SLOW = (0.02, 0.1, 0.3)
"""Seconds of slow lookups: enough for the groups to change before the answer comes."""


class World:
    """The files and the directory of users that the server reads."""

    def __init__(
        self,
        folder: Path,
        workers: int,
        seed: int,
        busy: float,
        *,
        times: Times,
        redis: str,
        failing: float | None,
    ) -> None:
        """Write all files.

        Args:
            folder: For the files.
            workers: How many workers a server has.
            seed: Of the random choices.
            busy: The seconds that the machine may do something else between an answer of the
                directory and the moment when the server stores it.
            times: How long groups may be used.
            redis: The URL of the Redis of a fleet; empty for a server on its own.
            failing: The part of changes of groups after which a user cannot be looked up; None:
                chosen at random.
        """
        lifetimes = Lifetimes(
            groups=times.lookup_timeout + times.ttl + times.max_stale + busy,
            no_such_user=times.lookup_timeout + times.ttl + busy,
            failure=max(SLOW) + FAILURE_TTL + busy,
        )
        self.times = times
        self.is_fleet = bool(redis)
        self.recorder = Recorder(lifetimes, workers, shares_groups=self.is_fleet)
        self.chance = random.Random(seed)
        parts = FAILING_OF_FLEET if self.is_fleet else FAILING
        self._failing = self.chance.choice(parts) if failing is None else failing
        self.counts: Counter[str] = Counter()
        self.directory = ScriptedDirectory(folder)
        self._folder = folder
        self._settings = {
            "workers": workers,
            "resolvers": {
                "corp": self.directory.resolver(lookup_timeout=f"{times.lookup_timeout}s")
            },
            "partitions": {"default": {"resolver": "corp", "cache": _cache(times)}},
            **(_fleet(folder, redis) if redis else {}),
        }
        self._policy = folder / "policy" / "queues.yaml"
        self._policy.parent.mkdir()
        self._tokens = folder / "tokens"
        self._numbers = itertools.count()
        self._versions: Counter[str] = Counter()
        self.policy_is_valid = asyncio.Lock()
        """Held while the file has a policy that cannot be served."""
        for user in model.USERS:
            self.change_groups(user, certain=True)
        self.change_policy()
        self.change_tokens(list(TOKENS))
        self.config = self.change_roles(dict.fromkeys(TOKENS, _ROLES))

    def take_directory_away(self) -> None:
        """Let no user be looked up, until their groups change again."""
        for user in model.USERS:
            with self.recorder.write(USER + user, FAILED):
                self.directory.answer({user: {"failed": "the directory is away"}})

    def change_groups(self, user: str, *, certain: bool = False) -> None:
        """Give a user other groups, or none."""
        self.counts["group changes"] += 1
        self._versions[user] += 1
        kind = 0.5 if certain else self.chance.random()
        answer: dict[str, Any]
        value: Groups
        if kind < 0.08:
            value, answer = None, {"unknown": "not there"}
        elif kind < 0.08 + self._failing:
            value, answer = FAILED, {"failed": "the directory is away"}
        else:
            value = (model.GROUPS[self._versions[user] % len(model.GROUPS)],)
            answer = {"groups": value}
        if self.chance.random() < 0.4:
            answer["seconds"] = self.chance.choice(SLOW)
        with self.recorder.write(USER + user, value):
            self.directory.answer({user: answer})

    def change_policy(self, number: int | None = None) -> None:
        """Write a new policy, or that of an earlier number again."""
        self.counts["policy changes"] += 1
        acls = model.acls(next(self._numbers) if number is None else number)
        text = model.text(acls)
        name = hashlib.sha256(text.encode()).hexdigest().upper()
        self.recorder.policies[name] = acls
        with self.recorder.write("policy", name):
            replace(self._policy, text)

    def break_policy(self) -> None:
        """Write a policy that cannot be served."""
        self.counts["invalid policies"] += 1
        with self.recorder.write("policy", ""):
            replace(self._policy, model.INVALID)

    def an_earlier_policy(self) -> int:
        """Return the number of a policy that was written before."""
        return self.chance.randrange(len(self.recorder.policies))

    def change_tokens(self, names: list[str]) -> None:
        """Let these tokens be known."""
        self.counts["token changes"] += 1
        lines = (f"{name}:{hashlib.sha256(TOKENS[name].encode()).hexdigest()}" for name in names)
        with self.recorder.write("tokens", tuple(names)):
            replace(self._tokens, "\n".join((*lines, "")))

    def change_roles(self, roles: Mapping[str, tuple[str, ...]]) -> str:
        """Give the callers with tokens other roles."""
        self.counts["role changes"] += 1
        callers = {
            "loopback": {"roles": _ROLES},
            "token_file": str(self._tokens),
            "tokens": {name: {"roles": roles[name]} for name in roles},
        }
        settings = {
            **self._settings,
            "policy": {"path": str(self._policy)},
            "callers": callers,
        }
        with self.recorder.write("roles", dict(roles)):
            return settings_file(self._folder, settings)

    def some_tokens(self) -> list[str]:
        return [name for name in TOKENS if self.chance.random() < 0.7]

    def some_roles(self) -> dict[str, tuple[str, ...]]:
        names = [name for name in TOKENS if self.chance.random() < 0.9]
        return {name: self.chance.choice(_CHOICES) for name in names}


def _cache(times: Times) -> dict[str, str]:
    return {
        "positive_ttl": f"{times.ttl}s",
        "negative_ttl": f"{times.ttl}s",
        "failure_ttl": f"{FAILURE_TTL}s",
        "max_stale": f"{times.max_stale}s",
    }


def _fleet(folder: Path, redis: str) -> dict[str, Any]:
    secret = folder / "fleet-secret"
    secret.write_text("5" * 64)
    secret.chmod(0o600)
    # A long time for reads: on a busy machine, too, groups come from Redis.
    return {"fleet": {"url": redis, "secret_file": str(secret), "read_timeout": "1s"}}
