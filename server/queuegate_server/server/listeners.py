"""The server's listeners, their certificates, and the authorization of callers."""

import asyncio
import logging
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from queuegate_server.admin.certificate import ops_certificate
from queuegate_server.files.certificates import CertificateReloader
from queuegate_server.files.safe_open import PUBLIC, PUBLICLY_WRITABLE, warn_of_mode
from queuegate_server.files.watcher import BadFile
from queuegate_server.rpc.authentication import Authenticator
from queuegate_server.rpc.authorization import Authorizer, RateLimiter
from queuegate_server.rpc.tokens import TokenFile
from queuegate_server.runtime.tcp import CannotListen, UnusableFile
from queuegate_server.settings.callers import Callers
from queuegate_server.settings.listeners import ListenAddress, Listener
from queuegate_server.settings.model import Settings
from queuegate_server.transports.credentials import ReloadingCredentials
from queuegate_server.transports.registry import Server
from queuegate_server.transports.sockets import bind

if TYPE_CHECKING:
    from queuegate_server.transports.http.ports import HttpPorts

_LOG = logging.getLogger("queuegate_server.server.listeners")
UNIX_SOCKET_MODE: Final = 0o660
"""The default file mode of a Unix socket: for its owner and group, because the mode controls
access."""


class Listeners:
    """The active listeners, callers and caller rate limits."""

    def __init__(
        self, settings: Settings, clock: Callable[[], float], wall: Callable[[], float]
    ) -> None:
        """Load tokens and certificates. Raises CannotListen if a file is unusable.

        `clock` returns monotonic seconds for rate limits, and `wall` returns Unix seconds for
        certificate validity.
        """
        self._settings = settings
        callers, limits = settings.callers, settings.limits
        self._tokens = _token_file(callers)
        self.certificates: list[CertificateReloader] = []
        """The certificates of the bound listeners and the operations port."""
        self.addresses: list[str] = []
        """The bound addresses, with the ports in use."""
        self.http_addresses: list[str] = []
        """The bound addresses of HTTP."""
        self.ops_certificate = ops_certificate(settings.ops)
        if self.ops_certificate is not None:
            self.certificates.append(self.ops_certificate)
        self._authenticator = Authenticator(callers, settings.listen, self._tokens, wall)
        self.rates: RateLimiter | None = None
        if limits.caller_rate:
            self.rates = RateLimiter(limits.caller_rate, limits.caller_burst, clock)
        self.authorizer = Authorizer(self._authenticator, self.rates)
        self.http_authenticator = Authenticator(callers, settings.http.listen, self._tokens, wall)
        """Authenticates callers over HTTP."""
        self.http_authorizer = Authorizer(self.http_authenticator, self.rates)
        port = settings.ops.listener
        self.ops_authenticator = Authenticator(callers, (port,) if port else (), self._tokens, wall)
        """Authenticates callers of the operations port."""

    def bind(self, server: Server, addresses: Sequence[ListenAddress]) -> list[str]:
        """Bind each listener; return the addresses with the actual ports. Raises CannotListen."""
        for listener, address in zip(self._settings.listen, addresses, strict=True):
            add_port = server.add_insecure_port
            if (certificate := _credentials(listener)) is not None:
                self.certificates.append(certificate)
                add_port = partial(
                    server.add_secure_port, server_credentials=certificate.credentials
                )
            self.addresses.append(_bound(add_port, listener, address))
        return self.addresses

    def bind_http(self, ports: "HttpPorts", addresses: Sequence[ListenAddress]) -> list[str]:
        """Bind each address of HTTP; return them with the actual ports. Raises CannotListen."""
        for listener, address in zip(self._settings.http.listen, addresses, strict=True):
            if (certificate := _certificate(listener)) is not None:
                self.certificates.append(certificate)
            open_port = partial(ports.open, address, certificate)
            self.http_addresses.append(_bound(open_port, listener, address))
        return self.http_addresses

    def warn(self) -> None:
        """Log warnings about settings that are valid but insecure or ineffective."""
        listeners = (*self._settings.listen, *self._settings.http.listen)
        for listener in listeners:
            if listener.is_open:
                _LOG.warning(
                    "listening in plaintext beyond this machine: anyone on the network path can"
                    " read and change calls",
                    extra={"address": listener.address},
                )
        remote = [each.address for each in listeners if not each.parsed.is_local]
        callers = self._settings.callers
        if remote and not callers.certificates and not callers.tokens:
            _LOG.warning(
                "callers on other machines may only call the health service: callers lists no"
                " certificates or tokens",
                extra={"addresses": remote},
            )
        self._warn_of_missing_tokens(callers)
        for path, forbidden in self._sensitive_files():
            warn_of_mode(path, forbidden)

    def _warn_of_missing_tokens(self, callers: Callers) -> None:
        missing = callers.tokens.keys() - (self._tokens.names if self._tokens else ())
        if missing:
            _LOG.warning(
                "callers lists tokens that have no line in token_file: create one with"
                " `queuegate-server token NAME`",
                extra={"names": sorted(missing), "file": str(callers.token_file)},
            )

    def _sensitive_files(self) -> Iterator[tuple[Path, int]]:
        """Yield each sensitive file with the mode bits that should not be set."""
        settings = self._settings
        listeners = (*settings.listen, *settings.http.listen)
        for tls in (*(each.tls for each in listeners), settings.ops.tls):
            if tls is not None:
                yield tls.key_file, PUBLIC
                if tls.client_ca_file is not None:
                    yield tls.client_ca_file, PUBLICLY_WRITABLE
        if self._settings.callers.token_file is not None:
            yield self._settings.callers.token_file, PUBLICLY_WRITABLE

    async def reconfigure(self, callers: Callers) -> None:
        """Apply the rights in `callers`, and reload certificates and tokens."""
        self._authenticator.reconfigure(callers)
        self.http_authenticator.reconfigure(callers)
        self.ops_authenticator.reconfigure(callers)
        async with asyncio.TaskGroup() as group:
            for watched in self._watched():
                group.create_task(watched.reload())
        if self._tokens is not None:
            self._tokens.end_grace()
        self._warn_of_missing_tokens(callers)

    async def watch(self) -> None:
        """Until cancelled, reload certificates and tokens when their files change."""
        async with asyncio.TaskGroup() as group:
            for watched in self._watched():
                group.create_task(watched.watch())

    def _watched(self) -> list[CertificateReloader | TokenFile]:
        tokens = [] if self._tokens is None else [self._tokens]
        return [*self.certificates, *tokens]


def _token_file(callers: Callers) -> TokenFile | None:
    try:
        return TokenFile(callers.token_file) if callers.token_file else None
    except BadFile as error:
        raise UnusableFile(f"callers.token_file: {error}") from None


def _credentials(listener: Listener) -> ReloadingCredentials | None:
    try:
        return ReloadingCredentials(listener.tls, listener.address) if listener.tls else None
    except BadFile as error:
        raise CannotListen(f"{listener.address!r}: {error}") from None


def _certificate(listener: Listener) -> CertificateReloader | None:
    tls = listener.tls
    if tls is None:
        return None
    files = (tls.certificate_file, tls.key_file, tls.client_ca_file)
    try:
        return CertificateReloader(*files, listener=listener.address)
    except BadFile as error:
        raise CannotListen(f"{listener.address!r}: {error}") from None


def _bound(add_port: Callable[[str], int], listener: Listener, address: ListenAddress) -> str:
    return bind(
        add_port,
        address,
        UNIX_SOCKET_MODE if listener.mode is None else listener.mode,
        owner=listener.owner,
        group=listener.group,
    )
