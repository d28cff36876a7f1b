"""Render the gates and replicas that did not confirm a change that `--wait` waited for."""

import math
from typing import Final

from queuegate._results import InvalidationResult, ReloadResult
from queuegate.cli.problems import Exit, Problem
from queuegate.cli.terminal import escape

OLD_POLICY: Final = "the old policy"
OLD_GROUPS: Final = "groups from before the call"


def waited_lines(answer: InvalidationResult | ReloadResult, state: str) -> list[str]:
    """Return the lines that `--wait` adds: gates and replicas that did not confirm, and a
    summary.
    """
    summary = f"no shim or other server still uses {state}"
    if answer.stale_gates:  # these are shims, which the lines above name
        summary = f"no other shim or server still uses {state}"
    return [*unconfirmed_lines(answer, state), summary]


def unconfirmed_lines(answer: InvalidationResult | ReloadResult, state: str) -> list[str]:
    """Return a line for each gate or replica that did not confirm a change."""
    stale = {each.name for each in answer.stale_gates}
    return [
        f"{escape(name)} did not confirm; it has stopped deciding, because its leases have expired"
        for name in answer.waited_out
        if name not in stale
    ] + [
        f"{escape(each.name)} did not confirm; while it cannot reach a server, it may use {state}"
        f" for up to {math.ceil(each.seconds)} s"
        for each in answer.stale_gates
    ]


def stale_problem(answer: InvalidationResult | ReloadResult, state: str) -> Problem | None:
    """Return a problem if a gate may still use old state, so that scripts do not continue."""
    if not answer.stale_gates:
        return None
    seconds = math.ceil(max(each.seconds for each in answer.stale_gates))
    message = (
        f"gates with `stale` may still use {state}: wait {seconds} s, or until they reach a server"
    )
    return Problem(Exit.NO, "STALE_GATES", message)
