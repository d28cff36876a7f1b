"""The server's certificate, read again when it is renewed."""

import logging
import ssl
from collections.abc import Callable
from pathlib import Path
from typing import Final

from cryptography import x509

from queuegate_server.admission.watch import on_change
from queuegate_server.files.safe_open import read_regular
from queuegate_server.runtime.threads import AbandonableThreadPool

_LOG = logging.getLogger("queuegate_server.admission")
_MOST_BYTES: Final = 1 << 20


class BadCertificate(Exception):
    """The certificate or the key cannot be used; the message says why."""


class Certificate:
    """A TLS context that follows its files; connections keep the certificate they began with.

    Used from one event loop.
    """

    def __init__(self, certificate: Path, key: Path, reloaded: Callable[[bool], None]) -> None:
        """Read the PEM files; tell `reloaded` how later reads went. Raises BadCertificate."""
        self._certificate = certificate
        self._key = key
        self._reloaded = reloaded
        # Not those of the event loop: a file system that hangs must not hold up its end.
        self._reader = AbandonableThreadPool(1, "certificate-read")
        self._served, self._expires = self._read()
        self.context = _context()
        self._load(self.context)

    @property
    def expires(self) -> float:
        """When the certificate ends, in Unix seconds."""
        return self._expires

    async def reload(self) -> None:
        """Serve new connections with what the files say now; keep the old if it is unusable."""
        try:
            # Tried out first: a context that took half of a new pair would serve nobody.
            served, expires = await self._reader.run("read", self._read)
            if served == self._served:
                return
            self._load(self.context)
        except (BadCertificate, OSError) as error:
            self._reloaded(False)
            _LOG.error(
                "the new certificate is not usable; the old one stays",
                extra={"error": str(error)},
            )
            return
        self._served, self._expires = served, expires
        self._reloaded(True)
        _LOG.info("certificate is renewed", extra={"expires": expires})

    async def watch(self) -> None:
        """Read again whenever a folder of the files changes, until cancelled."""
        folders = {self._certificate.parent, self._key.parent}
        await on_change(tuple(folders), self.reload)

    def _load(self, context: ssl.SSLContext) -> None:
        # Without a password OpenSSL would ask the terminal for one, and wait.
        context.load_cert_chain(self._certificate, self._key, password="")

    def _read(self) -> tuple[bytes, float]:
        """Return what the files hold and when the certificate ends. Raises BadCertificate."""
        try:
            pem = read_regular(self._certificate, _MOST_BYTES)
            key = read_regular(self._key, _MOST_BYTES)
            self._load(_context())
            leaf = x509.load_pem_x509_certificates(pem)[0]
            return pem + key, leaf.not_valid_after_utc.timestamp()
        except ssl.SSLError as error:
            raise BadCertificate(
                f"{self._certificate} and {self._key} are no certificate and its key, "
                f"without a passphrase: {error}"
            ) from None
        except OSError as error:
            raise BadCertificate(f"{error.filename or self._key}: {error.strerror}") from None
        except ValueError as error:
            raise BadCertificate(f"{self._certificate}: {error}") from None


def _context() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    return context
