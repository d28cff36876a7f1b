"""Records the steps of lookups and connections, for metrics and `source-check`."""

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final, Literal

from queuegate_server.identity.resolvers.ldap.ldap_faults import LdapFault
from queuegate_server.throttling.token_bucket import TokenBucket

_LOG = logging.getLogger("queuegate_server.identity.ldap")

_LINES_A_SECOND: Final = 1.0
_FIRST_LINES: Final = 20

StepName = Literal[
    "resolve", "connect", "starttls", "tls", "bind", "root entry", "user search", "group search",
    "nested search", "primary group", "group names", "ranges", "member search", "schema",
]  # fmt: skip


@dataclass(slots=True)
class LdapStep:
    """A timed step of a lookup or connection attempt, with its result."""

    name: StepName
    server: str
    seconds: float = 0.0
    detail: str = ""
    """A description of the result."""
    fault: str = ""
    """The reason for a failure; empty on success."""
    advice: str = ""
    is_unfinished: bool = False
    """Whether the step was abandoned, for example on a timeout."""


StepObserver = Callable[[LdapStep], None]
"""Called with each step, successful or not."""


@contextmanager
def timed_step(name: StepName, server: str, observe: StepObserver) -> Iterator[LdapStep]:
    """Time a step, and report it to `observe` even if it fails or is cancelled."""
    step = LdapStep(name, server)
    start = time.perf_counter()
    try:
        yield step
    except LdapFault as fault:
        step.fault, step.advice = fault.detail, fault.advice
        raise
    except BaseException as error:
        step.fault, step.is_unfinished = f"abandoned: {type(error).__name__}", True
        raise
    finally:
        step.seconds = time.perf_counter() - start
        observe(step)


@dataclass(slots=True)
class StepCount:
    """How often a step succeeded and failed on one server, and the total time it took."""

    succeeded: int = 0
    failed: int = 0
    seconds: float = 0.0


@dataclass(slots=True)
class LdapStatistics:
    """The resolver's counters since its creation. `observe/metrics.toml` describes them."""

    steps: dict[tuple[str, str], StepCount] = field(default_factory=dict)
    """The counters by server and step."""
    retried: int = 0
    ambiguous: int = 0
    depth_reached: int = 0
    other_spelling: int = 0
    outside_base: int = 0
    skipped_names: int = 0
    other_base: int = 0
    """The number of groups in users' memberOf attributes that are outside `group_base`."""
    other_base_example: str = ""
    """The DN of a group outside `group_base`, as an example."""
    log_rate: TokenBucket = field(
        default_factory=lambda: TokenBucket(_LINES_A_SECOND, _FIRST_LINES, time.monotonic)
    )
    """A rate limiter for log lines about entries, because one lookup may cause thousands."""

    def note_outside(self, dn: str, base: str) -> None:
        """Count and, unless rate-limited, log an entry that is ignored for being outside `base`."""
        self.outside_base += 1
        if self.log_rate.acquire():
            _LOG.warning(
                "ignoring an entry that the server returned outside of %s: %.200r", base, dn
            )

    def note_skipped(self, source: str) -> None:
        """Count and, unless rate-limited, log a group without a readable name."""
        self.skipped_names += 1
        if self.log_rate.acquire():
            _LOG.warning("a group has no readable name: %.200r", source)

    def count(self, step: LdapStep) -> None:
        """Count a step and add its duration."""
        count = self.steps.setdefault((step.server, step.name), StepCount())
        count.seconds += step.seconds
        count.failed += bool(step.fault)
        count.succeeded += not step.fault
