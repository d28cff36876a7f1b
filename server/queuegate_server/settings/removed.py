"""The settings and options that no longer exist, for error messages and the reference page.

A setting that nobody had a reason to change is a constant now, with its reason, in the module that
uses it.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

NAME: Final = "NAME"
"""Stands for a name of the user's choice."""


class RemovedSetting(NamedTuple):
    """A key that the settings no longer have."""

    key: str
    """The path of the key."""
    value: str
    """What applies now."""
    instead: str
    """What to do for those who have set the key."""
    constant: str = ""
    """The constant with the value: its module and name; empty if another setting decides."""


SETTINGS: Final = (
    RemovedSetting(
        "unix_socket_mode",
        "0660",
        "set mode in the section of a Unix socket in listen",
        "server.listeners.UNIX_SOCKET_MODE",
    ),
    RemovedSetting(
        "worker_timeout",
        "30s",
        "nothing",
        "supervisor.supervisor.WORKER_TIMEOUT_SECONDS",
    ),
    RemovedSetting(
        "limits.max_wait",
        "100ms",
        "against overload, lower limits.max_concurrent_calls or set limits.caller_rate",
        "throttling.MAX_WAIT_SECONDS",
    ),
    RemovedSetting(
        "limits.connections.handshake_timeout",
        "10s",
        "nothing",
        "transports.grpcio.HANDSHAKE_SECONDS",
    ),
    RemovedSetting(
        "limits.connections.transfer_timeout",
        "10s",
        "send fewer questions in a batch if the network is slow",
        "transports.stalls.TRANSFER_SECONDS",
    ),
    RemovedSetting(
        "limits.connections.max_metadata",
        "16KiB",
        "remove headers in the proxy that adds them",
        "transports.grpcio.MAX_METADATA",
    ),
    RemovedSetting(
        "limits.connections.max_age_grace",
        "30s",
        "nothing",
        "transports.grpcio.MAX_AGE_GRACE_SECONDS",
    ),
    RemovedSetting(
        "limits.connections.keepalive_interval",
        "2m",
        "let the client ping more often, at most once a minute",
        "transports.grpcio.KEEPALIVE_SECONDS",
    ),
    RemovedSetting(
        "limits.connections.keepalive_timeout",
        "20s",
        "nothing",
        "transports.grpcio.PING_TIMEOUT_SECONDS",
    ),
    RemovedSetting(
        "limits.connections.min_ping_interval",
        "1m",
        "let the client ping less often",
        "transports.grpcio.MIN_PING_SECONDS",
    ),
    RemovedSetting(
        "limits.connections.max_ping_strikes",
        "2",
        "let the client ping less often",
        "transports.grpcio.MAX_PING_STRIKES",
    ),
)


def removed_setting(keys: Sequence[str | int]) -> RemovedSetting | None:
    """Return what is known about the key at a path, if it is one that was removed."""
    return next((each for each in SETTINGS if _matches(each.key.split("."), keys)), None)


def _matches(pattern: Sequence[str], keys: Sequence[str | int]) -> bool:
    return len(pattern) == len(keys) and all(
        wanted in {NAME, key} for wanted, key in zip(pattern, keys, strict=True)
    )


def explained(removed: RemovedSetting) -> tuple[str, str]:
    """Return the message and the remedy for a file that still has a key."""
    remedy = "delete the key"
    if removed.instead != "nothing":
        remedy += f"; instead, {removed.instead}"
    return f"this setting was removed: {removed.value} always applies", remedy
