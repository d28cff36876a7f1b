"""A history: all calls with their answers, and all changes meanwhile, each with its times.

All times are seconds of the machine's monotonic clock. A `start` is taken before the first byte is
sent or written, an `end` after the last one came back, so the true moment lies between them.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

Acls = Mapping[str, tuple[str, str]]
"""The submit ACL and the admin ACL of each queue, by its path."""

FAILED = "failed"
"""The value of a user who cannot be looked up."""
Groups = tuple[str, ...] | str | None
"""The value of a user: the groups, FAILED, or None for a user who does not exist."""


class Question(NamedTuple):
    """A check, as the server should understand it."""

    user: str
    queue: str
    access: str = "submit"
    claimed: tuple[str, ...] = ()
    """The groups in the request, if the caller may assert groups."""


class Answer(NamedTuple):
    """The decision about a question."""

    allowed: bool
    reason: str
    queue: str = ""
    subject: str = ""


class Decided(NamedTuple):
    """A call has shown a decision."""

    question: Question
    answer: Answer
    revision: int


class Resolved(NamedTuple):
    """A call has shown the groups of a user."""

    user: str
    groups: Groups
    fresh: bool = False
    """The resolver was asked for this call."""


@dataclass(frozen=True, slots=True)
class Call:
    """A call, or a message of a stream."""

    method: str
    role: str
    """The role that the method needs."""
    start: float
    end: float
    status: str = "OK"
    session: int = 0
    """The connection."""
    caller: str = ""
    """The name of the token; empty for a caller without one, who may do everything."""
    seen: tuple[Decided | Resolved, ...] = ()
    item_errors: tuple[str, ...] = ()
    """The statuses of the checks that had no answer."""
    revision: int = 0
    """The revision that the response as a whole names; 0 if it names none."""
    policy: str = ""
    """The policy that the response names; empty if it names none."""
    detail: str = ""
    """The message of the status."""

    @property
    def revisions(self) -> set[int]:
        """All revisions that the call has shown."""
        shown = {each.revision for each in self.seen if isinstance(each, Decided)}
        return shown | ({self.revision} if self.revision else set())


class Write(NamedTuple):
    """A register got a value. Registers: `policy`, `tokens`, `roles`, and `user NAME`."""

    register: str
    value: object
    start: float
    end: float


class Confirmation(NamedTuple):
    """The server has confirmed that later calls see what a register held at `start` or after it."""

    register: str
    """The name of a register, or `user *` for those of all users."""
    start: float
    end: float
    unless_failed: bool = False
    """A replica that has not learned of it may use stale groups while a lookup fails."""


class Kill(NamedTuple):
    """A worker was killed, or the server ended: connections end, and are made again to any worker
    that still listens.
    """

    start: float
    end: float


class Lifetimes(NamedTuple):
    """How long an answer of the resolver may be used after it has ceased to be true."""

    groups: float
    no_such_user: float
    failure: float = 0.0


@dataclass(slots=True)
class History:
    """The history of one server or replica, from the start of its process to the end."""

    begin: float
    """When the process was started: it read everything after that."""
    lifetimes: Lifetimes
    policies: Mapping[str, Acls]
    """The policies by the value of the register."""
    workers: int = 1
    shares_groups: bool = False
    """Groups come from other replicas, too: also from before `begin`, and earlier ones after later
    ones."""
    writes: list[Write] = field(default_factory=list)
    """In their order, also those before `begin`."""
    confirmations: list[Confirmation] = field(default_factory=list)
    kills: list[Kill] = field(default_factory=list)
    calls: list[Call] = field(default_factory=list)


def as_text(history: History) -> str:
    """Return a history as lines in the order of their ends, to look at."""
    rows: list[Write | Confirmation | Kill | Call] = [
        *history.writes,
        *history.confirmations,
        *history.kills,
        *history.calls,
    ]
    return "\n".join(map(str, sorted(rows, key=lambda row: row.end)))
