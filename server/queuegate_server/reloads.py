"""The causes of a reload of the policy, and the listeners for new snapshots.

In between, `policystore/reloader.py` reads, parses and checks the files, and `Engine.serve` swaps
the snapshot and calls the listeners, in the same step of the event loop.
"""

from enum import StrEnum


class ReloadCause(StrEnum):
    """What causes a reload. Each caller of `Reloader.reload` passes a cause, which is logged."""

    START = "start"
    """The process starts (`server/startup.py`), or a command decides without a server
    (`server/offline.py`)."""
    FILES = "files"
    """A policy file has changed (`Reloader.watch`)."""
    CLUSTER = "cluster"
    """RBAC or queues of a followed cluster have changed (`policystore/kubernetes/`). The policies
    in files are not read again."""
    SETTINGS = "settings"
    """The settings were read again, on SIGHUP: the last of the functions that apply settings
    (`server/lifecycle.py`, `server/webhook.py`). A supervisor passes SIGHUP on to its workers."""
    CALL = "call"
    """The RPC ReloadPolicy (`rpc/policy_service.py`), through `sync/changes.py` or, in a fleet,
    `fleet/changes.py`."""
    FLEET = "fleet"
    """Another replica has reloaded (`fleet/follower.py`)."""
    RETRY = "retry"
    """The parser's process failed a while ago, so the reloader tries again."""


class SnapshotListener(StrEnum):
    """The listeners for new snapshots: each caller of `Engine.on_swap` names one of these.

    A listener drops all that it has derived from the snapshot before, whose memory is then freed.
    """

    GATES = "gates"
    """Sends the policy to gates (`sync/hub.py`)."""
    RESPONSES = "responses"
    """Drops the cached responses (`rpc/access_service.py`)."""
    USER_LISTS = "user lists"
    """Drops the cached lists of users who have access (`rpc/user_listing.py`)."""
    WEBHOOK = "webhook"
    """Drops the names of queues, and which of them a user may use (`admission/queues/reviewer.py`).
    """
