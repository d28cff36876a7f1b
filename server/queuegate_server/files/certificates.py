"""TLS certificates and keys in PEM files, validated and reloaded on change.

`cryptography` is imported on first use, which saves 40 ms and 11 MB in servers without TLS.
"""

import asyncio
import logging
import math
import ssl
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from queuegate_server.files.watcher import BadFile, Files, WatchedValue
from queuegate_server.runtime.pacing import beats

if TYPE_CHECKING:
    from cryptography.x509 import Certificate

_LOG = logging.getLogger("queuegate_server.files")
_READ_SECONDS: Final = 10.0
_RETRY_SECONDS: Final = 10.0
_BEGIN: Final = b"-----BEGIN "
_END: Final = b"-----END "
_NO_CERTIFICATE: Final = "contains no readable PEM certificate"


@dataclass(frozen=True, slots=True)
class ServerCertificate:
    """A certificate chain, its key and any client CAs, in PEM format."""

    chain: bytes
    key: bytes
    client_ca: bytes | None
    leaf: "Certificate"
    not_before: float
    """The latest start of validity in the chain, in Unix seconds."""
    not_after: float
    """The earliest expiry in the chain, in Unix seconds."""
    context: ssl.SSLContext
    """An SSL context that presents the certificate, for TLS 1.2 or later."""
    authorities: "Sequence[Period]"
    """When the client CAs are valid; empty if there are none."""

    def validity_fault(self) -> str:
        """Return why clients refuse the certificate at this time; empty if it is valid."""
        if self.not_before > time.time():
            return "the certificate is not valid yet: clients refuse to connect"
        if self.not_after <= time.time():
            return "the certificate has expired: clients refuse to connect"
        return ""

    def authority_fault(self) -> str:
        """Return why the server refuses all client certificates now; empty if it does not."""
        if not self.authorities or _ends(self.authorities, time.time()):
            return ""
        return "no authority in it is valid now: client certificates are refused"


class Period(NamedTuple):
    """The start and the end of validity, in Unix seconds."""

    begin: float
    end: float


def _ends(periods: Iterable[Period], now: float) -> list[float]:
    """Return the ends of the periods that have begun and not ended."""
    return [each.end for each in periods if each.begin <= now < each.end]


class CertificateReloader(WatchedValue[tuple[bytes, ...], ServerCertificate]):
    """A server certificate, reloaded when its files change."""

    def __init__(
        self,
        certificate_file: Path,
        key_file: Path,
        client_ca_file: Path | None = None,
        check: Callable[[ServerCertificate], None] = lambda _: None,
        *,
        listener: str = "",
        requires_client: bool = True,
    ) -> None:
        """Load the files for the first time. Blocks for at most ten seconds.

        Args:
            certificate_file: The certificate, followed by its chain.
            key_file: Its private key, without a passphrase.
            client_ca_file: The CAs for client certificates.
            check: Raises BadFile for an unusable certificate.
            listener: The address of the listener that presents the certificate, for metrics.
            requires_client: Whether clients must present a certificate if there are CAs.

        Raises:
            BadFile: A file cannot be read or used.
        """
        self.listener = listener
        self._certificate_file = certificate_file
        self._key_file = key_file
        self._client_ca_file = client_ca_file
        self._check = check
        self._client_mode = ssl.CERT_REQUIRED if requires_client else ssl.CERT_OPTIONAL
        self._in_use: ServerCertificate | None = None
        self._retry_at = math.inf
        """When to load a certificate again that was not valid yet, in Unix seconds."""
        self._paths = [*filter(None, (certificate_file, key_file, client_ca_file))]
        self._files = Files(*self._paths)
        super().__init__(self._files, self._load, _READ_SECONDS)

    @property
    def expires(self) -> float:
        """The expiry time of the certificate chain, in Unix seconds."""
        return self.value.not_after

    async def watch(self) -> None:
        """Reload when the files change or their certificate becomes valid, until canceled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(super().watch())
            group.create_task(self._reload_when_valid())

    async def _reload_when_valid(self) -> None:
        async for _ in beats(_RETRY_SECONDS):
            if self._retry_at <= time.time():
                await self.reload()

    async def reload(self) -> None:
        """Reload the files if they have changed, or if their certificate has become valid."""
        if self._retry_at <= time.time():
            self._retry_at, self._last = math.inf, ""
        await super().reload()

    def _load(self, contents: tuple[bytes, ...]) -> ServerCertificate:
        from cryptography import x509  # noqa: PLC0415 - see above

        chain, key, *authorities = contents
        for path, content in zip(self._paths, contents, strict=True):
            if content.count(_BEGIN) != content.count(_END):
                raise BadFile(f"{path}: is incomplete: a PEM block in it begins but does not end")
        try:
            leaf, *_ = certificates = x509.load_pem_x509_certificates(chain)
        except ValueError:
            raise BadFile(f"{self._certificate_file}: {_NO_CERTIFICATE}") from None
        context = self._context()
        loaded = ServerCertificate(
            chain,
            key,
            authorities[0] if authorities else None,
            leaf,
            max(each.not_valid_before_utc.timestamp() for each in certificates),
            min(each.not_valid_after_utc.timestamp() for each in certificates),
            context,
            _authorities(context),
        )
        self._check(loaded)
        self._refuse_invalid(loaded)
        # OpenSSL has read the files itself, and may have read a newer version of one of them.
        if self._files.read() != contents:
            raise BadFile(f"{self._certificate_file}: is being changed")
        self._in_use = loaded
        self._warn_if_invalid(loaded)
        return loaded

    def _context(self) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        if self._client_ca_file is not None:
            context.verify_mode = self._client_mode
            try:
                context.load_verify_locations(self._client_ca_file)
            except ssl.SSLError:
                raise BadFile(f"{self._client_ca_file}: {_NO_CERTIFICATE}") from None
        try:
            # With an empty passphrase, OpenSSL does not prompt for one on the terminal.
            context.load_cert_chain(self._certificate_file, self._key_file, password="")
        except ssl.SSLError as error:
            raise BadFile(
                f"{self._key_file}: is not a PEM private key without a passphrase, or does not"
                f" belong to {self._certificate_file} ({error.reason or 'unreadable'})"
            ) from None
        return context

    def _refuse_invalid(self, loaded: ServerCertificate) -> None:
        """Raise BadFile if an invalid certificate, or only invalid CAs, would replace valid
        ones.
        """
        self._retry_at = math.inf
        if self._in_use is not None:
            before, after = _own(self._in_use), _own(loaded)
            self._refuse_periods(self._certificate_file, "certificate", before, after)
        if self._in_use is not None and self._client_ca_file is not None:
            before, after = self._in_use.authorities, loaded.authorities
            self._refuse_periods(self._client_ca_file, "authority", before, after)

    def _refuse_periods(
        self, file: Path, what: str, before: Sequence[Period], after: Sequence[Period]
    ) -> None:
        now = time.time()
        if not after or _ends(after, now) or not (ends := _ends(before, now)):
            return
        end = max(ends)
        if later := [each.begin for each in after if each.begin > now]:
            self._retry_at = min(*later, end)
            fault = f"is not valid before {_utc(min(later))}"
            remedy = f"until {_utc(self._retry_at)}, if this machine's clock is right"
        else:
            fault = f"expired on {_utc(max(each.end for each in after))}"
            remedy = f"issue a new {what}"
        raise BadFile(
            f"{file}: the new {what} {fault}: the previous one, valid until {_utc(end)}, stays in"
            f" use ({remedy})"
        )

    def _warn_if_invalid(self, loaded: ServerCertificate) -> None:
        if fault := loaded.validity_fault():
            until = {"from": _utc(loaded.not_before), "until": _utc(loaded.not_after)}
            _LOG.warning(fault, extra={"file": str(self._certificate_file), **until})
        if fault := loaded.authority_fault():
            _LOG.warning(fault, extra={"file": str(self._client_ca_file)})


def _own(loaded: ServerCertificate) -> Sequence[Period]:
    return (Period(loaded.not_before, loaded.not_after),)


def _authorities(context: ssl.SSLContext) -> Sequence[Period]:
    """Return the periods of the CAs that OpenSSL has read."""
    return [
        Period(
            ssl.cert_time_to_seconds(str(each["notBefore"])),
            ssl.cert_time_to_seconds(str(each["notAfter"])),
        )
        for each in context.get_ca_certs()
    ]


def _utc(seconds: float) -> str:
    """Return a time in Unix seconds for messages."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
