"""`queuegate-server` with a fault, named by the variable PLANTED, that the checker must find."""

import functools
import math
import os
from collections.abc import Callable, Collection
from typing import Any

from queuegate_server.cli.main import main
from queuegate_server.engine import Snapshot
from queuegate_server.fleet.replica_log import ReplicaLog
from queuegate_server.fleet.steps import Receipt
from queuegate_server.identity.cache import CacheEntry, GroupCache
from queuegate_server.rpc import response_cache
from queuegate_server.rpc.response_cache import ResponseCache
from queuegate_server.rpc.tokens import TokenFile
from queuegate_server.runtime.single_flight import SingleFlight
from queuegate_server.settings.reload import ConfigReloader
from queuegate_server.supervisor import worker_client


def memo_outlives_invalidation() -> None:
    """Responses stay in the response cache when their groups are invalidated."""
    original = GroupCache.invalidate

    def invalidate(self: GroupCache, users: Collection[str]) -> int:
        entries = [entry for user in users if (entry := self.find(user)) is not None]
        kept = [(entry, entry.fresh_until) for entry in entries]
        dropped = original(self, users)
        for entry, refresh_at in kept:
            entry.fresh_until = refresh_at
        return dropped

    _replace(GroupCache, "invalidate", invalidate)


def slow_look_up_undoes_invalidation() -> None:
    """An answer that the resolver gave before an invalidation is stored after it."""
    _replace(SingleFlight, "outdate", lambda self, user: None)


def groups_never_expire() -> None:
    """Groups are used for as long as nobody invalidates them."""
    original = GroupCache._renew

    def renew(self: GroupCache, entry: CacheEntry, *arguments: Any) -> CacheEntry:
        original(self, entry, *arguments)
        entry.expires_at = entry.fresh_until = math.inf
        return entry

    _replace(GroupCache, "_renew", renew)


def stale_groups_never_expire() -> None:
    """Expired groups are used for as long as the directory is away."""
    _replace(CacheEntry, "stale_until", lambda self, options: math.inf)


def memo_outlives_swap() -> None:
    """Responses of a policy stay in the response cache when another one is served."""

    def reset(self: ResponseCache, snapshot: Snapshot) -> None:
        self._snapshot = snapshot

    _replace(ResponseCache, "reset", reset)


def stale_revision() -> None:
    """A decision names the revision at which it was first made."""
    original = response_cache._encode
    known: dict[Any, Any] = {}

    def encode(decision: Any, evaluated_queue: str, revision: int) -> Any:
        response = original(decision, evaluated_queue, revision)
        return known.setdefault((decision, evaluated_queue), response)

    _replace(response_cache, "_encode", encode)


def memo_ignores_trust() -> None:
    """The response cache does not ask whether the caller may assert groups."""
    for name in ("get", "put", "get_most"):
        original = getattr(ResponseCache, name)

        def method(*arguments: Any, trusted: bool, original: Callable[..., Any] = original) -> Any:
            return original(*arguments, trusted=True)

        _replace(ResponseCache, name, method)


def revoked_token_is_known() -> None:
    """Whose a token is, is remembered for ever."""
    _replace(TokenFile, "name_of", functools.cache(TokenFile.name_of))


def roles_stay() -> None:
    """The settings are not read again, though the reload is reported as done."""

    async def read_nothing(self: ConfigReloader) -> None:
        pass

    _replace(ConfigReloader, "_read_settings", read_nothing)


def invalidation_stays_in_one_worker() -> None:
    """An invalidation is not passed on to the other workers."""
    broadcast = dict(worker_client._BROADCAST)
    del broadcast["InvalidateUserGroups"]
    _replace(worker_client, "_BROADCAST", broadcast)


def replica_ignores_others() -> None:
    """A replica confirms what others invalidate, and keeps using the groups."""
    _replace(Receipt, "must_invalidate", False)


def replica_rejoins_with_old_groups() -> None:
    """A replica that was away invalidates nothing of what was invalidated meanwhile."""
    _replace(ReplicaLog, "missed", lambda self, *events: ())


def fence_accepts_outdated_groups() -> None:
    """Groups in Redis are used though an event has made them outdated."""
    _replace(ReplicaLog, "accepts", lambda self, *value: self.position is not None)


def _replace(owner: Any, name: str, value: Any) -> None:
    assert hasattr(owner, name)
    setattr(owner, name, value)


if __name__ == "__main__":
    globals()[os.environ["PLANTED"]]()
    main()
