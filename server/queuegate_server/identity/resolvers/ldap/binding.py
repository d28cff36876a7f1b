"""Making a connection and saying who we are."""

import asyncio
import os
from typing import Final

from queuegate_server.identity.resolvers.ldap import messages
from queuegate_server.identity.resolvers.ldap.connection import Connection
from queuegate_server.identity.resolvers.ldap.diagnose import read_password
from queuegate_server.identity.resolvers.ldap.errors import BindRefused, LdapFault, ServerFault
from queuegate_server.identity.resolvers.ldap.instrumentation import Observer, Step, step
from queuegate_server.identity.resolvers.ldap.kerberos import bind_by_kerberos
from queuegate_server.identity.resolvers.ldap.options import LdapOptions
from queuegate_server.identity.resolvers.ldap.tls import TlsContexts
from queuegate_server.identity.resolvers.ldap.transport import Transport, open_transport
from queuegate_server.identity.resolvers.ldap.urls import ServerUrl
from queuegate_server.runtime.threads import AbandonableThreadPool, AllThreadsHang, StillRunning

_GOOD: Final = 0


class Connector:
    """Makes bound connections. Used from one event loop."""

    def __init__(
        self, options: LdapOptions, threads: AbandonableThreadPool, observe: Observer
    ) -> None:
        self._options = options
        self._threads = threads
        self._observe = observe
        self._contexts = TlsContexts(options, threads)

    async def connect(self, url: ServerUrl) -> Connection:
        """Return a connection that is bound, within `connect_timeout`. Raises LdapFault.

        If the password is refused and its file has changed meanwhile, tries once more.
        """
        password = await self.password()
        try:
            return await self._connect(url, password)
        except BindRefused:
            again = await self.password()
            if again == password:
                raise
            return await self._connect(url, again)

    async def password(self) -> bytes:
        """Return the password as its file has it now; empty without one. Raises ServerFault."""
        file, trimmed = self._options.bind_password_file, self._options.trims_password
        if file is None:
            return b""
        try:
            return await self._threads.run("password", lambda: read_password(file, trimmed=trimmed))
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or str(error)
            raise ServerFault(
                f"the password cannot be read: {reason}", "check bind_password_file"
            ) from None
        except (StillRunning, AllThreadsHang):
            raise ServerFault("reading the password hangs", "check bind_password_file") from None

    async def _connect(self, url: ServerUrl, password: bytes) -> Connection:
        seconds = self._options.connect_timeout
        # The step that is under way when the time is over tells where it was spent.
        stuck: list[str] = []

        def observe(taken: Step) -> None:
            if taken.fault.startswith("given up"):
                taken.fault = f"not done within {seconds:g} s"
                stuck.append(taken.name)
            self._observe(taken)

        try:
            async with asyncio.timeout(seconds):
                return await self._bound(url, password, observe)
        except TimeoutError:
            where = f" ({stuck[-1]})" if stuck else ""
            raise ServerFault(
                f"{url} gave no connection within {seconds:g} s{where}",
                "check whether the server hangs, and firewalls on the way",
            ) from None

    async def _bound(self, url: ServerUrl, password: bytes, observe: Observer) -> Connection:
        options = self._options
        transport = await open_transport(url, options, self._contexts, self._threads, observe)
        connection: Connection | None = None
        try:
            with step("bind", str(url), observe) as taken:
                taken.detail = options.bind_dn or options.bind
                if options.bind == "external":
                    await _bind_by_certificate(transport)
                descriptor = await transport.hand_over()
                if options.bind == "gssapi":
                    await _bind_by_ticket(descriptor, options.tls_server_name or url.host, options)
                connection = Connection(transport, descriptor, options)
                if options.bind in ("simple", "anonymous"):
                    self._may_send(password, transport)
                    await connection.bind(options.bind_dn or "", password)
        except BaseException:
            if connection is not None:
                connection.close("given up")
            transport.close("given up")
            raise
        return connection

    def _may_send(self, password: bytes, transport: Transport) -> None:
        if password and not (transport.encrypted or self._options.allow_plaintext_bind):
            raise LdapFault("the password would be sent without encryption")


async def _bind_by_ticket(descriptor: int, host: str, options: LdapOptions) -> None:
    try:
        await bind_by_kerberos(descriptor, host, options)
    except BaseException:
        os.close(descriptor)
        raise


async def _bind_by_certificate(transport: Transport) -> None:
    reply = await transport.ask(messages.sasl_bind("EXTERNAL", b""))
    if reply.code != _GOOD:
        raise BindRefused(
            f"the server refuses our certificate (code {reply.code}): {reply.text}",
            "check cert_file, and how the server maps certificates to accounts",
        )
