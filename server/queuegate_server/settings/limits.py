"""Limits on calls, connections and gates, and the timing of a drain."""

from typing import Annotated, Literal

from pydantic import Field

from queuegate_server.config_fields import DAY_SECONDS, KIB, MIB, Duration, Section, Size


class Connections(Section):
    """Limits on connections. Durations are in seconds."""

    most: int = Field(10_000, ge=1, le=1_000_000)
    """The maximum number of open connections on each address."""
    max_streams: int = Field(16, ge=1, le=1_000_000)
    """The maximum number of calls in progress on each connection; gRPC clients queue additional
    calls. Until a client has acknowledged this limit, gRPC reads up to 16 MiB of metadata per
    call."""
    max_age: Annotated[Duration, Field(ge=0, le=30 * DAY_SECONDS)] = 0.0
    """The age at which a connection is closed, plus or minus 10%, so that clients reconnect and
    spread to new servers. 0: never."""


class Limits(Section):
    """Limits on requests."""

    max_concurrent_calls: int = Field(1000, ge=1, le=1_000_000)
    """The maximum number of concurrent calls, not including gates' streams."""
    max_message: Annotated[Size, Field(ge=KIB, le=1024 * MIB)] = 4 * MIB
    """The maximum size of a request, in bytes."""
    caller_rate: Annotated[float, Field(ge=0, le=1_000_000)] = 0.0
    """The sustained rate of calls from one caller, per second. A gate's stream counts once, when it
    is opened. 0: unlimited."""
    caller_burst: int = Field(100, ge=1, le=1_000_000)
    """How many calls one caller may make at once before caller_rate applies."""
    connections: Connections = Connections()


class Drain(Section):
    """The timing of a graceful shutdown. Durations are in seconds."""

    grace: Annotated[Duration, Field(ge=0, le=3600)] = 20.0
    """How long calls in progress may take to finish."""
    delay: Annotated[Duration, Field(ge=0, le=3600)] = 0.0
    """How long to keep accepting calls and reviews after health reports NOT_SERVING. The default
    suits programs that are called directly. Behind a Kubernetes Service or another load balancer,
    use at least 10s, as the manifests and the chart do: until the load balancer notices, it sends
    requests, which would fail.
    """


class Sync(Section):
    """Limits for callers of SyncService."""

    local_decisions: Literal["forbid", "allow"] = "forbid"
    """Whether gates may decide locally while this server writes an audit log. The log does not
    contain their decisions, which gates report only to their own program. Without an audit log,
    gates may always decide locally."""
    streams: int = Field(1000, ge=0, le=1_000_000)
    """The maximum number of open streams of SyncService."""
    streams_per_caller: int = Field(500, ge=1, le=1_000_000)
    """The maximum number of streams per caller, to leave room for others. Gates that share a token
    or a certificate name are one caller."""
