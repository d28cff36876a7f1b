"""Opening a connection and binding, within one time limit."""

import asyncio
import os

from queuegate_server.identity.resolvers.ldap.bridge import (
    SASL_EXTERNAL_REQUEST,
    Bridge,
    TlsContexts,
    open_bridge,
)
from queuegate_server.identity.resolvers.ldap.connection import LdapConnection
from queuegate_server.identity.resolvers.ldap.errors import BindRefused, ServerFault
from queuegate_server.identity.resolvers.ldap.instrumentation import (
    LdapStep,
    StepObserver,
    timed_step,
)
from queuegate_server.identity.resolvers.ldap.kerberos import bind_with_kerberos
from queuegate_server.identity.resolvers.ldap.options import (
    LdapOptions,
    ServerUrl,
    read_password,
)
from queuegate_server.runtime.threads import AbandonableThreadPool, AllThreadsHang, StillRunning


class Connector:
    """Opens bound connections."""

    def __init__(
        self, options: LdapOptions, threads: AbandonableThreadPool, observe: StepObserver
    ) -> None:
        self._options = options
        self._threads = threads
        self._observe = observe
        self._contexts = TlsContexts(options, threads)

    async def connect(self, url: ServerUrl) -> LdapConnection:
        """Return a bound connection, within `connect_timeout`. Raises LdapFault.

        Tries once more if the password is rejected and its file has changed meanwhile.
        """
        password = await self.password()
        try:
            return await self._connect(url, password)
        except BindRefused:
            changed = await self.password()
            if changed == password:
                raise
            return await self._connect(url, changed)

    async def password(self) -> bytes:
        """Return the password that its file contains now; empty without a file.

        Raises ServerFault.
        """
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

    async def _connect(self, url: ServerUrl, password: bytes) -> LdapConnection:
        seconds = self._options.connect_timeout
        # The step that is under way at the end shows where the time was spent.
        unfinished: list[str] = []

        def observe(step: LdapStep) -> None:
            if step.is_unfinished:
                step.fault = f"not done within {seconds:g} s"
                unfinished.append(step.name)
            self._observe(step)

        try:
            async with asyncio.timeout(seconds):
                return await self._open(url, password, observe)
        except TimeoutError:
            where = f" ({unfinished[-1]})" if unfinished else ""
            raise ServerFault(
                f"connecting to {url} took longer than {seconds:g} s{where}",
                "check whether the server hangs, and firewalls on the way",
            ) from None

    async def _open(self, url: ServerUrl, password: bytes, observe: StepObserver) -> LdapConnection:
        options = self._options
        bridge = await open_bridge(url, options, self._contexts, self._threads, observe)
        connection: LdapConnection | None = None
        try:
            with timed_step("bind", str(url), observe) as step:
                step.detail = options.bind_dn or options.bind
                if options.bind == "external":
                    await _bind_with_certificate(bridge)
                descriptor = await bridge.hand_over()
                if options.bind == "gssapi":
                    await _bind_with_ticket(
                        descriptor, options.tls_server_name or url.host, options
                    )
                connection = LdapConnection(bridge, descriptor, options)
                if options.bind in ("simple", "anonymous"):
                    await connection.bind(options.bind_dn or "", password)
        except BaseException:
            if connection is not None:
                connection.close("given up")
            bridge.abort("given up")
            raise
        return connection


async def _bind_with_ticket(descriptor: int, host: str, options: LdapOptions) -> None:
    try:
        await bind_with_kerberos(descriptor, host, options)
    except BaseException:
        os.close(descriptor)
        raise


async def _bind_with_certificate(bridge: Bridge) -> None:
    reply = await bridge.request(SASL_EXTERNAL_REQUEST)
    if reply.code != 0:
        raise BindRefused(
            f"the server rejected the client certificate (code {reply.code}): {reply.text}",
            "check cert_file, and how the server maps certificates to accounts",
        )
