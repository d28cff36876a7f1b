"""Settings for the log, the operations port, the console, tracing and the audit log."""

from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Final, Literal, Self

from pydantic import BeforeValidator, Field, model_validator

from queuegate_server.config_fields import KIB, MIB, Section, Size, check_with
from queuegate_server.settings.listeners import (
    FilePath,
    Listener,
    ListenerTls,
    parse_address,
    parse_host_port,
)

STDOUT: Final = Path("-")
"""The standard output of the process."""


def lower(value: object) -> object:
    """Return text in lower case, and any other value unchanged."""
    return value.lower() if isinstance(value, str) else value


def _check_endpoint(text: str) -> None:
    scheme, separator, rest = text.partition("://")
    if scheme not in {"http", "https"} or not separator or not rest:
        raise ValueError("must be http://host:port or https://host:port")


def _audit_path(value: object) -> object:
    if isinstance(value, str) and (not value or "\0" in value):
        raise ValueError("must be a file path, or - for standard output")
    return value


class Log(Section):
    """The level and format of the log on stderr."""

    level: Annotated[
        Literal["debug", "info", "warning", "error", "critical"], BeforeValidator(lower)
    ] = "info"
    """The minimum severity to log."""
    format: Annotated[Literal["auto", "json", "console"], BeforeValidator(lower)] = "auto"
    """auto: console on a terminal, otherwise json."""


class OpsTls(ListenerTls):
    """The operations port's certificate, in PEM format. The files are reloaded when they change."""

    client_ca_file: FilePath | None = None
    """The certificate authorities for the console's callers. Callers may present certificates;
    probes need none."""


class Ops(Section):
    """The operations port: probes, Prometheus metrics and the console."""

    listen: Annotated[str, check_with(parse_host_port)] | None = None
    """host:port or [ipv6]:port. If unset, a server has no operations port, and an admission webhook
    uses 127.0.0.1:9465."""
    tls: OpsTls | None = None
    """Serve the port with TLS 1.2 or newer; probes then need https."""

    @property
    def listener(self) -> Listener | None:
        """The operations port as a Listener, for code shared with the gRPC listeners."""
        if self.listen is None:
            return None
        insecure = not self.tls and not parse_address(self.listen).is_local
        return Listener(address=self.listen, tls=self.tls, insecure=insecure)

    @model_validator(mode="after")
    def _tls_has_a_port(self) -> Self:
        if self.tls and self.listen is None:
            raise ValueError("tls requires listen: set the address of the port")
        return self


class Console(Section):
    """The web console on the operations port."""

    enabled: bool = False
    """Whether to serve the console at /console/. Requires the `console` extra and `ops.listen` and,
    beyond loopback, also `ops.tls` and callers with tokens or certificates. Not available with
    several workers.
    """

    @model_validator(mode="after")
    def _is_installed(self) -> Self:
        if self.enabled and find_spec("jinja2") is None:
            raise ValueError(
                "the console requires Jinja, which is not installed:"
                " pip install 'queuegate[console]'"
            )
        return self


class Tracing(Section):
    """The destination and sampling of trace spans."""

    enabled: bool = False
    """Whether to send spans; requires the `tracing` extra."""
    endpoint: Annotated[str, check_with(_check_endpoint)] = "http://127.0.0.1:4317"
    """A collector that accepts OTLP over gRPC; https:// uses TLS."""
    sample_ratio: float = Field(1.0, ge=0, le=1)
    """The fraction of traces started by this server to keep. For a trace that the caller started,
    the caller's decision applies."""


class Audit(Section):
    """Which decisions to record, where, and what happens when recording fails."""

    path: Annotated[Path, BeforeValidator(_audit_path)] | None = None
    """The file, or - for standard output. Default: nothing is recorded."""
    records: Literal["denials", "all", "none"] = "denials"
    """denials: requests that were denied or could not be decided."""
    when_unwritable: Literal["block", "drop"] = "block"
    """block: a response is sent only after its record is written, and calls fail while records
    cannot be written. drop: records that cannot be written are lost and counted."""
    fsync: Literal["never", "interval", "always"] = "interval"
    """When to force records to disk, so that they survive a power loss. always: with every write;
    interval: once a second; never: when the system chooses."""
    max_size: Annotated[Size, Field(ge=4 * KIB, le=1024 * 1024 * MIB)] = 100 * MIB
    """The file is rotated before it exceeds this size."""
    keep: int = Field(5, ge=0, le=1000)
    """How many rotated files to keep."""
    buffer: Annotated[Size, Field(ge=4 * KIB, le=1024 * MIB)] = 16 * MIB
    """The maximum size of the requests and responses waiting to be written, in bytes."""

    @property
    def is_on(self) -> bool:
        """Whether anything is recorded."""
        return self.path is not None and self.records != "none"

    def of_worker(self, index: int) -> "Audit":
        """Return the settings for the given worker. Each worker writes its own file."""
        if self.path in {None, STDOUT}:
            return self
        path = self.path.with_name(f"{self.path.name}.worker-{index}")
        return self.model_copy(update={"path": path})
