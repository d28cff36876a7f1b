"""How far the server is, as probes are told it. Names no user, group or queue."""

from collections.abc import Sequence
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, Final, Protocol

from queuegate_server.engine import Engine, NotReady
from queuegate_server.formats.diagnostics import Diagnostic

_TOLD_FINDINGS: Final = 20


class Phase(StrEnum):
    """What the server is doing."""

    STARTING = "starting"
    """The first policy is being loaded."""
    SERVING = "serving"
    DRAINING = "draining"
    """It is about to end."""


class _ReloadState(Protocol):
    @property
    def succeeded(self) -> bool: ...
    @property
    def failed_at(self) -> float | None: ...
    @property
    def problems(self) -> tuple[Diagnostic, ...]: ...


class _Reloader(Protocol):
    @property
    def state(self) -> _ReloadState: ...


class Status:
    """What is known of the server as a whole. Whoever starts and stops it sets `phase`."""

    def __init__(self, engine: Engine, reloader: _Reloader) -> None:
        """Take what has the policy and what loads it."""
        self.phase = Phase.STARTING
        self._engine = engine
        self._reloader = reloader

    @property
    def is_ready(self) -> bool:
        """Whether new calls should come here. A failed reload changes nothing about that."""
        return self.phase is Phase.SERVING

    def startup(self) -> dict[str, Any]:
        """Return whether the first policy has been loaded, to be written as JSON."""
        return {"started": self._policy() is not None, "phase": self.phase}

    def details(self) -> dict[str, Any]:
        """Return why the server is ready or not, to be written as JSON."""
        policy = self._policy()
        state = self._reloader.state
        return {
            "ready": self.is_ready,
            "phase": self.phase,
            "policy": policy or {"loaded": False},
            # A policy is served only after the resolvers of its partitions are open.
            "resolvers": {"initialised": policy is not None},
            "last_reload": {
                "succeeded": state.succeeded,
                "failed_at": None if state.failed_at is None else _text(state.failed_at),
                "findings": _places(state.problems[:_TOLD_FINDINGS]),
                "findings_not_shown": max(0, len(state.problems) - _TOLD_FINDINGS),
            },
        }

    def _policy(self) -> dict[str, Any] | None:
        try:
            snapshot = self._engine.snapshot
        except NotReady:
            return None
        return {
            "loaded": True,
            "revision": snapshot.policy.revision,
            "loaded_at": _text(snapshot.loaded_at),
        }


def _places(problems: Sequence[Diagnostic]) -> list[dict[str, Any]]:
    """Return where findings are; what they say names users and queues, and is in the log."""
    return [
        {
            "file": problem.file,
            "line": problem.line,
            "column": problem.column,
            "severity": problem.severity,
        }
        for problem in problems
    ]


def _text(wall_seconds: float) -> str:
    return datetime.fromtimestamp(wall_seconds, UTC).isoformat(timespec="milliseconds")
