"""Settings of tracing."""

from typing import Annotated

from pydantic import AfterValidator, Field
from pydantic_core import PydanticCustomError

from queuegate_server.settings.section import Section


def _endpoint(text: str) -> str:
    scheme, separator, rest = text.partition("://")
    if scheme not in {"http", "https"} or not separator or not rest:
        raise PydanticCustomError("endpoint", "must be http://host:port or https://host:port")
    return text


class Tracing(Section):
    """Where spans are sent, and how many."""

    enabled: bool = Field(
        False, description="Whether to send spans; needs the extra `tracing` to be installed."
    )
    endpoint: Annotated[str, AfterValidator(_endpoint)] = Field(
        "http://127.0.0.1:4317",
        description="A collector that takes OTLP over gRPC; https:// is encrypted.",
    )
    sample_ratio: float = Field(
        1.0,
        ge=0,
        le=1,
        description="The part of traces to keep of those that begin here; a trace that a caller "
        "has begun is kept if the caller keeps it.",
    )
