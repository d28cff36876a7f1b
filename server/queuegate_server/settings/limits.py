"""Limits on calls, connections and gates, and the maximum duration of a drain."""

from typing import Annotated, Literal

from pydantic import Field

from queuegate_server.config_fields import DAY_SECONDS, KIB, MIB, Duration, Section, Size


class Connections(Section):
    """Limits on connections. Durations are in seconds."""

    most: int = Field(10_000, ge=1, le=1_000_000)
    """The maximum number of open connections on each address."""
    handshake_timeout: Annotated[Duration, Field(ge=0.1, le=120)] = 10.0
    """How long a connection may take to be set up, including TLS."""
    max_streams: int = Field(16, ge=1, le=1_000_000)
    """The maximum number of calls in progress on each connection; gRPC clients queue further calls.
    Until a client has acknowledged this bound, gRPC reads up to 16 MiB of metadata for each of its
    calls."""
    transfer_timeout: Annotated[Duration, Field(ge=0.1, le=3600)] = 10.0
    """How long a request may take to arrive, and an answer to be read; after that, the call or the
    connection is closed."""
    max_metadata: Annotated[Size, Field(ge=KIB, le=1024 * KIB)] = 16 * KIB
    """The maximum size of a call's metadata, in bytes."""
    max_age: Annotated[Duration, Field(ge=0, le=30 * DAY_SECONDS)] = 0.0
    """The age at which a connection is closed so that the client reconnects, plus or minus 10 %;
    clients thus spread to new servers. 0: never."""
    max_age_grace: Annotated[Duration, Field(ge=0.1, le=DAY_SECONDS)] = 30.0
    """How long calls may continue after that; open streams are then ended."""
    keepalive_interval: Annotated[Duration, Field(ge=1, le=DAY_SECONDS)] = 120.0
    """How long the client may be silent before the server pings it."""
    keepalive_timeout: Annotated[Duration, Field(ge=0.1, le=3600)] = 20.0
    """How long the client may take to answer a ping."""
    min_ping_interval: Annotated[Duration, Field(ge=0, le=DAY_SECONDS)] = 60.0
    """How often a client may ping while the connection is idle."""
    max_ping_strikes: int = Field(2, ge=1, le=1000)
    """How many excess pings close the connection."""


class Limits(Section):
    """Limits on requests."""

    max_concurrent_calls: int = Field(1000, ge=1, le=1_000_000)
    """The maximum number of concurrent calls, not including gates' streams."""
    max_wait: Annotated[Duration, Field(ge=0.001, le=60)] = 0.1
    """How long calls may queue. If longer waits persist, the server is overloaded and rejects calls
    that have waited for an eighth of it; with transport native, single calls as well."""
    max_message: Annotated[Size, Field(ge=KIB, le=1024 * MIB)] = 4 * MIB
    """The maximum size of a request, in bytes."""
    caller_rate: Annotated[float, Field(ge=0, le=1_000_000)] = 0.0
    """The sustained rate of calls per second of one caller. A gate's stream counts only when it is
    opened. The decisions that the caller's gates report have a separate limit of the same rate;
    beyond it, reports wait. 0: unlimited."""
    caller_burst: int = Field(100, ge=1, le=1_000_000)
    """The maximum number of concurrent calls of one caller."""
    connections: Connections = Connections()


class Drain(Section):
    """How the server shuts down. Durations are in seconds."""

    grace: Annotated[Duration, Field(ge=0, le=3600)] = 20.0
    """How long calls in progress may take to finish."""
    delay: Annotated[Duration, Field(ge=0, le=3600)] = 0.0
    """How long new calls are still accepted after health reports NOT_SERVING, so that a load
    balancer can notice."""


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
