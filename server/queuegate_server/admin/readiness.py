"""Readiness and startup status for probes, without names of users, groups or queues."""

import platform
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from enum import StrEnum
from functools import cache
from importlib.metadata import version
from typing import Any, Final

from queuegate_server.engine import Engine
from queuegate_server.fleet.view import FleetView
from queuegate_server.formats.diagnostics import Diagnostic
from queuegate_server.policystore.reloader import Reloader

MAX_DIAGNOSTICS: Final = 20


class Phase(StrEnum):
    """The phases of the server's life cycle."""

    STARTING = "starting"
    """The initial policy is being loaded."""
    SERVING = "serving"
    DRAINING = "draining"
    """The server is shutting down."""


class Readiness:
    """The readiness of a server process. `server.lifecycle` sets `phase`."""

    def __init__(
        self, engine: Engine, reloader: Reloader, fleet: Callable[[], FleetView] | None = None
    ) -> None:
        self.phase = Phase.STARTING
        self.fleet: Final = fleet
        """Returns this replica's view of the fleet; None without a fleet."""
        self.settings_errors: Sequence[Diagnostic] = ()
        """The errors found in the settings by the last reload."""
        self.pending_settings: Sequence[str] = ()
        """The keys of changed settings that require a restart."""
        self._engine = engine
        self._reloader = reloader

    def report_settings(self, errors: Sequence[Diagnostic], pending: Sequence[str]) -> None:
        """Record the errors found in the settings, and the changed keys that require a restart."""
        self.settings_errors, self.pending_settings = errors, pending

    @property
    def is_ready(self) -> bool:
        """Whether the server accepts calls. A failed reload does not change this."""
        return self.phase is Phase.SERVING

    def startup(self) -> dict[str, Any]:
        """Return a JSON object that states whether the initial policy has been loaded."""
        return {"started": self._policy() is not None, "phase": self.phase}

    def details(self) -> dict[str, Any]:
        """Return a JSON object that states whether the server is ready, with details."""
        policy = self._policy()
        state = self._reloader.state
        return {
            "ready": self.is_ready,
            "phase": self.phase,
            "policy": policy or {"loaded": False},
            # A policy is served only after its partitions' resolvers have been opened.
            "resolvers": {
                "initialised": policy is not None,
                "unusable": [
                    # The reason is only logged, because it may name accounts and files.
                    {"partition": each.partition.name, "resolver": each.key.name}
                    for each in state.unusable
                ],
                "changes": [
                    {
                        "resolver": each.name,
                        "state": each.follower.state,
                        "lag_seconds": round(each.follower.lag, 1),
                    }
                    for _, each in self._reloader.resolvers.resolvers()
                    if each.follower is not None
                ],
            },
            "last_reload": {
                "succeeded": state.succeeded,
                "failed_at": None if state.succeeded else _timestamp(state.ended_at),
                "findings": _locations(state.diagnostics[:MAX_DIAGNOSTICS]),
                "findings_not_shown": max(0, len(state.diagnostics) - MAX_DIAGNOSTICS),
            },
            "settings": {
                "valid": not self.settings_errors,
                "findings": _locations(self.settings_errors[:MAX_DIAGNOSTICS]),
                "require_restart": list(self.pending_settings),
            },
            # A replica isolated from the fleet is still ready, because it can query the directory.
            **({} if self.fleet is None else {"fleet": _fleet(self.fleet())}),
        }

    def _policy(self) -> dict[str, Any] | None:
        snapshot = self._engine.latest
        if snapshot is None:
            return None
        return {
            "loaded": True,
            "revision": snapshot.policy.revision,
            "loaded_at": _timestamp(snapshot.loaded_at),
        }


@cache
def versions() -> dict[str, str]:
    """Return the versions of queuegate, Python and gRPC."""
    return {
        "version": version("queuegate"),
        "python": platform.python_version(),
        "grpc": version("grpcio"),
    }


def _fleet(view: FleetView) -> dict[str, Any]:
    return {
        "connected": view.connected,
        "agreed": view.agreed,
        "problems": view.problems,
        "replicas": [
            {
                "name": each.name,
                "state": "alone" if each.is_self and each.state == "silent" else each.state,
                "self": each.is_self,
                "version": each.version,
                "lag": each.lag,
                "policy_checksum": each.checksum,
            }
            for each in view.replicas
        ],
    }


def _locations(diagnostics: Sequence[Diagnostic]) -> list[dict[str, Any]]:
    """Return the diagnostics without messages. Messages may name users, so they are only logged."""
    names = ("file", "line", "column", "severity")
    return [{name: getattr(each, name) for name in names} for each in diagnostics]


def _timestamp(wall_seconds: float) -> str:
    return datetime.fromtimestamp(wall_seconds, UTC).isoformat(timespec="milliseconds")
