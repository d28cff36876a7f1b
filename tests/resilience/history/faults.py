"""Rounds against a server with a planted fault."""

from typing import Any

from tests.resilience.history import rounds

ROUNDS = 12
"""A fault shows within one or two; on a busy machine some more may be needed."""


def kinds_found(fault: str, seconds: float = 2.5, **setup: Any) -> set[str]:
    """Run rounds until the checker finds something, and return the kinds of violations."""
    for _ in range(ROUNDS):
        one = rounds.run(seconds, fault=fault, **setup)
        if one.violations:
            break
    return {violation.kind for _, violation in one.violations}
