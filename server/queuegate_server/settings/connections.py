"""Bounds on connections."""

from typing import Annotated, Final

from pydantic import Field

from queuegate_server.settings.section import Section
from queuegate_server.units import Duration, Size

_DAY: Final = 86_400.0
_KIB: Final = 1024


class Connections(Section):
    """What a connection may do, and for how long. Durations in seconds."""

    most: int = Field(
        10_000, ge=1, le=1_000_000, description="How many there may be at once, on each address."
    )
    handshake_timeout: Annotated[Duration, Field(ge=0.1, le=120)] = Field(
        10.0, description="How long a connection may take to be set up, TLS included."
    )
    max_metadata: Annotated[Size, Field(ge=_KIB, le=1024 * _KIB)] = Field(
        16 * _KIB, description="How large the metadata of a call may be, in bytes."
    )
    max_age: Annotated[Duration, Field(ge=0, le=30 * _DAY)] = Field(
        0.0,
        description="After how long clients are made to connect anew, give or take 10 %, so that "
        "they spread over a fleet that grew. 0: never.",
    )
    max_age_grace: Annotated[Duration, Field(ge=0.1, le=_DAY)] = Field(
        30.0, description="How long calls may go on after that; streams end then."
    )
    keepalive_interval: Annotated[Duration, Field(ge=1, le=_DAY)] = Field(
        120.0, description="After how long a silence the server looks whether the client is there."
    )
    keepalive_timeout: Annotated[Duration, Field(ge=0.1, le=3600)] = Field(
        20.0, description="How long the client may take to answer that."
    )
    min_ping_interval: Annotated[Duration, Field(ge=0, le=_DAY)] = Field(
        60.0, description="How often a client may ping while nothing is sent."
    )
    max_ping_strikes: int = Field(
        2, ge=1, le=1000, description="How many pings too many end the connection."
    )
