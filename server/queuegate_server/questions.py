"""What the engine is asked and what it answers, in domain terms."""

from collections.abc import Callable, Sequence
from enum import StrEnum
from typing import Generic, NamedTuple, TypeVar

from queuegate.policy.applications import Judged
from queuegate.policy.decision import Access, Decision
from queuegate.policy.explain import Explanation
from queuegate.policy.tree import Partition
from queuegate_server.identity.cache import CacheEntry

E = TypeVar("E", Explanation, Judged)


class Query(NamedTuple):
    """A validated question. `path` is a full queue path in lower case."""

    user: str
    groups: Sequence[str]
    partition: str
    path: str
    access: Access
    real_user: str = ""
    """The service that acts for the user; empty if none does."""


class Verdict(NamedTuple):
    """A decision, and the cache entry whose groups it used (None if it used none)."""

    decision: Decision
    entry: CacheEntry | None


class ApplicationQuery(NamedTuple):
    """A validated question about an application."""

    user: str
    groups: Sequence[str]
    partition: str
    judge: Callable[[Partition, Sequence[str] | None], Judged]
    """Decides in a partition, given the groups or None."""


class GroupsOrigin(StrEnum):
    """Where the groups of an explained decision came from."""

    NOT_NEEDED = "not needed"
    REQUEST = "request"
    RESOLVER = "resolver"
    CACHE = "cache"
    STALE_CACHE = "stale cache"


class Explained(NamedTuple, Generic[E]):
    """A decision, what led to it, and the groups that it used."""

    decision: Decision
    evaluation: E
    origin: GroupsOrigin
    groups: Sequence[str]
    resolver: str
    detail: str
    """For people: why the user is unknown."""
