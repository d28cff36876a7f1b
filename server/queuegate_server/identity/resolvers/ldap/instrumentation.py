"""What every look-up and connection is made of, for statistics and for people."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final

from queuegate_server.identity.resolvers.ldap.errors import LdapFault

NAMES: Final = (
    "resolve",
    "connect",
    "starttls",
    "tls",
    "bind",
    "root entry",
    "user search",
    "group search",
    "nested search",
    "primary group",
    "group names",
    "ranges",
)
"""Every step there is."""


@dataclass(slots=True)
class Step:
    """One thing that was done, and what came of it."""

    name: str
    server: str
    seconds: float = 0.0
    detail: str = ""
    """What came of it, for people."""
    fault: str = ""
    """Why it failed; empty if it did not."""
    advice: str = ""


Observer = Callable[[Step], None]
"""Is told of every step when it has ended."""


@contextmanager
def step(name: str, server: str, observe: Observer) -> Iterator[Step]:
    """Time a step and tell the observer, also if it fails or is cancelled."""
    taken = Step(name, server)
    start = time.perf_counter()
    try:
        yield taken
    except LdapFault as fault:
        taken.fault, taken.advice = fault.detail, fault.advice
        raise
    except BaseException as error:
        taken.fault = f"given up: {type(error).__name__}"
        raise
    finally:
        taken.seconds = time.perf_counter() - start
        observe(taken)


@dataclass(slots=True)
class StepCount:
    """How often a step was taken at a server."""

    succeeded: int = 0
    failed: int = 0
    seconds: float = 0.0
    """Of all of them together."""


@dataclass(slots=True)
class Statistics:
    """Counts since the resolver was built, for metrics."""

    steps: dict[tuple[str, str], StepCount] = field(default_factory=dict)
    """By server and step."""
    retried: int = 0
    """Look-ups that were repeated on another connection."""
    ambiguous: int = 0
    """Look-ups that found several users."""
    other_spelling: int = 0
    """Entries that the directory takes for the user and that are spelled otherwise."""
    skipped_names: int = 0
    """Groups whose name could not be read."""
    depth_reached: int = 0
    """Look-ups in which groups were nested deeper than may be walked."""

    def count(self, taken: Step) -> None:
        """Count a step."""
        count = self.steps.setdefault((taken.server, taken.name), StepCount())
        count.seconds += taken.seconds
        if taken.fault:
            count.failed += 1
        else:
            count.succeeded += 1
