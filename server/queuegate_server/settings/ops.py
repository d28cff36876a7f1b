"""Settings of the operations port."""

from typing import Annotated

from pydantic import AfterValidator, Field
from pydantic_core import PydanticCustomError

from queuegate_server.settings.addresses import MalformedAddress, parse_host_port
from queuegate_server.settings.section import Section


def _checked(text: str) -> str:
    try:
        parse_host_port(text)
    except MalformedAddress as error:
        raise PydanticCustomError("address", "{message}", {"message": str(error)}) from None
    return text


class Ops(Section):
    """The port for probes and Prometheus."""

    listen: Annotated[str, AfterValidator(_checked)] | None = Field(
        None, description="host:port or [ipv6]:port. Without it there is no such port."
    )
