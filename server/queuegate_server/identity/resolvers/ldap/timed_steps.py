"""Times and counts the steps of lookups and connections, for metrics and `source-check`."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal

from queuegate_server.identity.resolvers.ldap.ldap_faults import LdapFault

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


class StepCounts(dict[tuple[str, str], StepCount]):
    """The counters of all steps, by server and step."""

    def count(self, step: LdapStep) -> None:
        """Count a step and add its duration."""
        count = self.setdefault((step.server, step.name), StepCount())
        count.seconds += step.seconds
        if step.fault:
            count.failed += 1
        else:
            count.succeeded += 1
