"""Rounds against a server with a planted fault."""

from typing import Any

from tests.resilience.history import rounds

SHORT_ROUNDS, LONG_ROUNDS = 4, 8
"""A fault shows within one or two; on a busy machine more may be needed, of twice the length."""


def is_found(kind: str, fault: str, seconds: float = 2.5, **setup: Any) -> bool:
    """Return whether the checker finds a violation of a kind, in one of several rounds."""
    for number in range(SHORT_ROUNDS + LONG_ROUNDS):
        length = seconds if number < SHORT_ROUNDS else 2 * seconds
        violations = rounds.run(length, fault=fault, **setup).violations
        if any(violation.kind == kind for _, violation in violations):
            return True
    return False
