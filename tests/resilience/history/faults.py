"""Rounds against a server with a planted fault."""

from pathlib import Path

from tests.resilience.history import planted, rounds

SECONDS, ROUNDS = 2.5, 12
"""A fault shows within two seconds; on a busy machine some rounds may be needed."""


def kinds_found(fault: str, *, workers: int = 1) -> set[str]:
    """Run rounds until the checker finds something, and return the kinds of violations."""
    for _ in range(ROUNDS):
        one = rounds.run(
            SECONDS,
            workers=workers,
            program=Path(planted.__file__),
            environment={"PLANTED": fault},
        )
        if one.violations:
            break
    return {violation.kind for _, violation in one.violations}
