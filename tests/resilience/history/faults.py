"""Rounds against a server with a planted fault."""

from typing import Any

from tests.resilience.history import rounds

SHORT_ROUNDS, LONG_ROUNDS = 4, 8
"""A fault shows within one or two; on a busy machine more may be needed, of twice the length."""


def kinds_found(fault: str, seconds: float = 2.5, **setup: Any) -> set[str]:
    """Run rounds until the checker finds something, and return the kinds of violations."""
    for number in range(SHORT_ROUNDS + LONG_ROUNDS):
        length = seconds if number < SHORT_ROUNDS else 2 * seconds
        one = rounds.run(length, fault=fault, **setup)
        if one.violations:
            break
    return {violation.kind for _, violation in one.violations}
