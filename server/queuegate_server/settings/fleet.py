"""Settings for a fleet of servers that share groups and invalidations through Redis or Valkey."""

import re
import socket
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Final, Literal, NamedTuple, Self
from urllib.parse import urlsplit

from pydantic import Field, model_validator

from queuegate_server.config_fields import (
    MIB,
    Duration,
    Section,
    check_file,
    check_not_empty,
    check_with,
)
from queuegate_server.files.safe_open import read_regular
from queuegate_server.settings.listeners import FilePath, HostPort, parse_host_port

MAX_SECRET_BYTES: Final = 4096
MIN_SECRET_BYTES: Final = 32
_PORTS: Final = {"single": 6379, "cluster": 6379, "sentinel": 26_379}
_URL: Final = re.compile(r"(?P<tls>rediss?)(?:\+(?P<kind>sentinel|cluster))?://(?P<rest>.*)")
_FORMS: Final = (
    "write redis://host:port, rediss://host:port (TLS), unix:///path,"
    " redis+sentinel://host:port,host:port/SERVICE or redis+cluster://host:port,host:port"
)

StoreKind = Literal["single", "sentinel", "cluster"]


class StoreAddress(NamedTuple):
    """The address of Redis or Valkey."""

    kind: StoreKind
    """A single server, sentinels that locate it, or a cluster."""
    tls: bool
    hosts: tuple[HostPort, ...] = ()
    """The server, the sentinels, or some nodes of the cluster."""
    path: str = ""
    """The Unix socket, used instead of hosts."""
    service: str = ""
    """The server's name in the sentinels' configuration."""
    database: int = 0


def parse_store_url(url: str) -> StoreAddress:
    """Parse a Redis or Valkey URL. Raises ValueError; its message never quotes a password."""
    if url.startswith("unix://"):
        path = url.removeprefix("unix://")
        if not path.startswith("/") or not path.isprintable() or set(path) & set("?#@"):
            raise ValueError("a Unix socket needs an absolute path: unix:///run/redis.sock")
        return StoreAddress("single", tls=False, path=path)
    match = _URL.fullmatch(url)
    if match is None:
        raise ValueError(f"is not a Redis URL: {_FORMS}")
    kind: StoreKind = match["kind"] or "single"  # type: ignore[assignment]
    authority, _, path = match["rest"].partition("/")
    if "@" in authority:
        raise ValueError("must not contain credentials: use username and password_file")
    if set(url) & set("?#"):
        raise ValueError(f"must not have a query or a fragment: {_FORMS}")
    hosts = tuple(_host(each, _PORTS[kind]) for each in authority.split(","))
    if kind == "single" and len(hosts) > 1:
        raise ValueError("names several hosts: use redis+sentinel:// or redis+cluster://")
    service, database = "", path
    if kind == "sentinel":
        service, _, database = path.partition("/")
        if not service:
            raise ValueError("lacks the service name: redis+sentinel://host:port/SERVICE")
    if database and (kind == "cluster" or not re.fullmatch(r"[0-9]{1,4}", database)):
        raise ValueError(
            "the part after the address must be a database number, such as /0;"
            " a Redis cluster has none"
        )
    return StoreAddress(kind, match["tls"] == "rediss", hosts, "", service, int(database or 0))


def _host(text: str, default_port: int) -> HostPort:
    has_port = urlsplit(f"//{text}").netloc.rpartition("]")[2].rpartition(":")[1]
    try:
        return parse_host_port(text if has_port else f"{text}:{default_port}")
    except ValueError:
        raise ValueError(f"does not name a host and a port: {_FORMS}") from None


def _check_secret(content: bytes) -> None:
    if not MIN_SECRET_BYTES <= len(content.strip()) <= MAX_SECRET_BYTES:
        raise ValueError(
            f"the file must contain a secret of {MIN_SECRET_BYTES} to {MAX_SECRET_BYTES} bytes:"
            " generate one with `openssl rand -hex 32`"
        )


def _check_certificates(content: bytes) -> None:
    from cryptography import x509  # noqa: PLC0415 - takes time, and few servers need it

    try:
        x509.load_pem_x509_certificates(content)
    except ValueError:
        raise ValueError("the file must contain certificates in PEM") from None


CertificateFile = Annotated[FilePath, check_file(_check_certificates)]
ReadableFile = Annotated[FilePath, check_file(check_not_empty)]
SecretFile = Annotated[FilePath, check_file(_check_secret)]


class Fleet(Section):
    """Settings for servers that share users' groups and invalidations."""

    url: Annotated[str, check_with(parse_store_url)] | None = None
    """Redis or Valkey: redis://host:port/database, rediss://… (TLS), unix:///path,
    redis+sentinel://host:port,host:port/SERVICE, redis+cluster://host:port,host:port. If unset, the
    server is not part of a fleet."""
    secret_file: SecretFile | None = None
    """The secret that authenticates values in Redis: at least 32 bytes, the same on all replicas.
    Required with `url`."""
    prefix: Annotated[str, Field(pattern=r"^[A-Za-z0-9][-A-Za-z0-9_.]{0,63}$")] = "queuegate"
    """The prefix for all keys. It must be unique among the fleets on the same Redis."""
    replica: Annotated[str, Field(pattern=r"^[A-Za-z0-9][-A-Za-z0-9_.]{0,252}$")] | None = None
    """A human-readable name for this replica. Default: the host name."""
    read_timeout: Annotated[Duration, Field(ge=0.001, le=10)] = 0.010
    """How long a lookup waits for shared groups before it falls back to the resolver."""
    username: Annotated[str, Field(min_length=1)] | None = None
    """The Redis ACL user; requires password_file."""
    password_file: ReadableFile | None = None
    """The password file, which is read for every connection."""
    sentinel_password_file: ReadableFile | None = None
    """The sentinels' password file, if they require a password."""
    ca_file: CertificateFile | None = None
    """Trusted CA certificates. Default: the system's."""
    cert_file: CertificateFile | None = None
    """The client certificate."""
    key_file: ReadableFile | None = None
    """The private key for cert_file."""

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        if self.url is None:
            keys = sorted(self.model_fields_set - {"url"})
            if keys:
                raise ValueError(
                    f"without url, nothing else may be set: set url, or remove {', '.join(keys)}"
                )
            return self
        if self.secret_file is None:
            raise ValueError("url requires secret_file: generate one with `openssl rand -hex 32`")
        if self.username and not self.password_file:
            raise ValueError("username requires password_file")
        if (self.cert_file is None) != (self.key_file is None):
            raise ValueError("cert_file and key_file must be given together")
        address = parse_store_url(self.url)
        if not address.tls and (self.ca_file or self.cert_file):
            raise ValueError("ca_file, cert_file and key_file require TLS: use rediss://")
        if address.kind != "sentinel" and self.sentinel_password_file:
            raise ValueError("sentinel_password_file requires redis+sentinel://")
        if find_spec("redis") is None:
            raise ValueError("requires redis-py: pip install 'queuegate[server,redis]'")
        return self

    @property
    def is_on(self) -> bool:
        """Whether this server is part of a fleet."""
        return self.url is not None

    @property
    def address(self) -> StoreAddress:
        """The address of Redis or Valkey. `url` must be set."""
        return parse_store_url(self.url or "")

    @property
    def replica_name(self) -> str:
        """The name of this replica."""
        return self.replica or socket.gethostname()

    @property
    def secrets(self) -> tuple[Path, ...]:
        """The files that only the server's account should be able to read."""
        files = (self.secret_file, self.password_file, self.sentinel_password_file, self.key_file)
        return tuple(file for file in files if file is not None)

    def secret(self) -> bytes:
        """Read the fleet's secret. Blocks. Raises OSError, or ValueError for an invalid secret."""
        # Read the file each time, so that new connections use its current contents.
        if self.secret_file is None:
            raise ValueError("secret_file is not set")
        secret = read_regular(self.secret_file, MIB)
        _check_secret(secret)
        return secret.strip()
