"""TLS contexts for connections to directories, rebuilt when their files change."""

import ssl
from pathlib import Path
from typing import Final

from queuegate_server.identity.resolvers.ldap.errors import ServerFault
from queuegate_server.identity.resolvers.ldap.options import LdapOptions
from queuegate_server.runtime.threads import AbandonableThreadPool, AllThreadsHang, StillRunning

_VERSIONS: Final = {"1.2": ssl.TLSVersion.TLSv1_2, "1.3": ssl.TLSVersion.TLSv1_3}
_Signature = tuple[tuple[int, int, int] | None, ...]


class TlsContexts:
    """Provides the context for new connections.

    Files are read in a thread: loading the system's certificates takes 20 ms.
    """

    def __init__(self, options: LdapOptions, threads: AbandonableThreadPool) -> None:
        self._options = options
        self._threads = threads
        self._built: tuple[_Signature, ssl.SSLContext] | None = None

    async def context(self) -> ssl.SSLContext:
        """Return a context made of the files as they are now. Raises ServerFault."""
        try:
            self._built = await self._threads.run("tls", self._current)
        except OSError as error:
            reason = getattr(error, "reason", None) or error.strerror
            raise ServerFault(
                f"the certificate files cannot be used: {reason}",
                "check ca_file, cert_file and key_file",
            ) from None
        except (StillRunning, AllThreadsHang):
            raise ServerFault("reading the certificate files hangs") from None
        return self._built[1]

    def _current(self) -> tuple[_Signature, ssl.SSLContext]:
        options = self._options
        signature = tuple(
            _signature(file) for file in (options.ca_file, options.cert_file, options.key_file)
        )
        if self._built and self._built[0] == signature:
            return self._built
        return signature, _build(options)


def _build(options: LdapOptions) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=str(options.ca_file) if options.ca_file else None)
    context.minimum_version = _VERSIONS[options.tls_min_version]
    if not options.verify_certificate:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if options.cert_file and options.key_file:
        # With an empty password a locked key is a fault; without one, OpenSSL would prompt for it.
        context.load_cert_chain(options.cert_file, options.key_file, password="")
    return context


def _signature(file: Path | None) -> tuple[int, int, int] | None:
    if file is None:
        return None
    status = file.stat()
    return status.st_mtime_ns, status.st_ino, status.st_size
