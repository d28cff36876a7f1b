"""Settings for callers that decide in their own process."""

from typing import Literal

from pydantic import Field

from queuegate_server.config_fields import Section


class Sync(Section):
    """Limits for callers of SyncService."""

    local_decisions: Literal["forbid", "report"] = "forbid"
    """Whether gates may decide on their own while this server keeps an audit log. report: they keep
    each decision on disk until it is in the audit log. Without an audit log they always may."""
    streams: int = Field(1000, ge=0, le=1_000_000)
    """The maximum number of open streams of SyncService."""
    streams_per_caller: int = Field(500, ge=1, le=1_000_000)
    """How many of them one caller may open, to leave room for others. All gates with the same
    token, or the same name in their certificates, are one caller."""
