"""Opens and binds connections to directory servers, with a time limit."""

import asyncio
import math
import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from queuegate_server.identity.resolvers.ldap.bridge import SASL_EXTERNAL_REQUEST, Bridge
from queuegate_server.identity.resolvers.ldap.dialer import open_bridge
from queuegate_server.identity.resolvers.ldap.discovery import ServerUrl
from queuegate_server.identity.resolvers.ldap.ldap_connection import LdapConnection
from queuegate_server.identity.resolvers.ldap.ldap_faults import (
    TICKET_FAULTS,
    BadCredentials,
    LdapFault,
    ServerFault,
)
from queuegate_server.identity.resolvers.ldap.ldap_messages import BIND_RESPONSE
from queuegate_server.identity.resolvers.ldap.ldap_options import LdapOptions
from queuegate_server.identity.resolvers.ldap.timed_steps import LdapStep, StepObserver, timed_step
from queuegate_server.runtime import child_process
from queuegate_server.runtime.threads import AbandonableThreadPool, StillRunning, ThreadsExhausted

_KERBEROS_CHILD: Final = str(Path(__file__).with_name("kerberos_child.py"))
_MAX_OUTPUT_BYTES: Final = 65_536
_MAX_MEMORY_BYTES: Final = 1 << 30
_MAX_DETAIL_CHARS: Final = 300


@dataclass(eq=False)
class Connector:
    """Opens and binds connections."""

    options: LdapOptions
    threads: AbandonableThreadPool
    observe: StepObserver

    async def connect(self, url: ServerUrl) -> LdapConnection:
        """Open and bind a connection. Each attempt may take `connect_timeout`. Raises LdapFault.

        If the password is rejected but its file has changed since it was read, retries once.
        """
        password = await self.password()
        try:
            return await self._connect(url, password)
        except BadCredentials:
            changed = await self.password()
            if changed == password:
                raise
            return await self._connect(url, changed)

    async def password(self) -> bytes:
        """Return the password file's content; empty if none is configured. Raises ServerFault."""
        advice = "check bind_password_file"
        try:
            async with asyncio.timeout(self.options.connect_timeout):
                return await self.threads.run("password", self.options.password)
        except (TimeoutError, StillRunning, ThreadsExhausted):
            raise ServerFault("reading the password file is stuck", advice) from None
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or str(error)
            raise ServerFault(f"the password cannot be read: {reason}", advice) from None

    async def _connect(self, url: ServerUrl, password: bytes) -> LdapConnection:
        """Connect and bind within connect_timeout; a fault names the step that was in progress."""
        seconds = self.options.connect_timeout
        # On a timeout, these are the names of the steps that were in progress.
        unfinished: list[str] = []

        def observe(step: LdapStep) -> None:
            if step.is_unfinished:
                step.fault = f"timed out after {seconds:g} s (connect_timeout)"
                unfinished.append(step.name)
            self.observe(step)

        try:
            async with asyncio.timeout(seconds):
                bridge = await open_bridge(url, self.options, self.threads, observe)
                try:
                    with timed_step("bind", str(url), observe) as step:
                        step.detail = self.options.bind_dn or self.options.bind
                        return await self._bind(bridge, password)
                except BaseException:
                    bridge.abort("abandoned")
                    raise
        except TimeoutError:
            where = f" ({unfinished[-1]})" if unfinished else ""
            raise ServerFault(
                f"connecting took longer than connect_timeout, {seconds:g} s{where}",
                "check whether the server hangs, and any firewalls in between",
            ) from None
        except OSError as error:
            raise ServerFault(
                f"this machine refused a connection: {error.strerror}",
                "check the limits on open files, processes and memory",
            ) from None

    async def _bind(self, bridge: Bridge, password: bytes) -> LdapConnection:
        """Bind as configured. Kerberos and certificates bind before libldap gets the connection."""
        options = self.options
        if options.bind == "external":
            await _bind_with_certificate(bridge)
        descriptor = await bridge.hand_over()
        if options.bind == "gssapi":
            try:
                host = options.tls_server_name or bridge.url.host
                await _bind_with_ticket(descriptor, host, options)
            except BaseException:
                os.close(descriptor)
                raise
        connection = LdapConnection(bridge, descriptor, options, self.observe)
        if options.bind in ("simple", "anonymous"):
            try:
                await connection.bind(options.bind_dn or "", password)
            except BaseException:
                connection.close("abandoned")
                raise
        return connection


async def _bind_with_certificate(bridge: Bridge) -> None:
    reply = await bridge.request(SASL_EXTERNAL_REQUEST, BIND_RESPONSE)
    if reply.code != 0:
        raise BadCredentials(
            f"the server rejected the client certificate (code {reply.code}): {reply.text}",
            "check cert_file, and how the server maps certificates to accounts",
        )


async def _bind_with_ticket(descriptor: int, host: str, options: LdapOptions) -> None:
    """Bind the connection on `descriptor` with Kerberos, in a child process. Raises LdapFault.

    During the bind, libkrb5 waits for the KDC without a time limit while the driver holds the GIL.
    Even in a thread, this would block the whole server. Therefore, a child process inherits
    libldap's end of the socket pair and binds. It is killed on timeout or cancellation. After it
    exits, the server uses the bound connection.
    """
    seconds = math.ceil(options.connect_timeout) + 1
    try:
        result = await child_process.run(
            (sys.executable, "-P", _KERBEROS_CHILD, str(descriptor), host, str(seconds)),
            child_process.ProcessLimits(
                seconds, output_bytes=_MAX_OUTPUT_BYTES, memory_bytes=_MAX_MEMORY_BYTES
            ),
            environment={**os.environ, "LDAPNOINIT": "1", **_credentials(options)},
            pass_fds=(descriptor,),
        )
    except TimeoutError:
        raise ServerFault(f"the Kerberos bind took longer than {seconds} s") from None
    except OSError as error:
        raise ServerFault(
            f"cannot start the process for the Kerberos bind: {error.strerror}",
            "check the limits on processes and memory",
        ) from None
    except child_process.OutputTooLong:
        raise ServerFault("the process for the Kerberos bind wrote too much output") from None
    if result.output or result.status:
        raise _ticket_fault(result.output.decode("utf-8", "replace"), result.status)


def _credentials(options: LdapOptions) -> dict[str, str]:
    variables: dict[str, str] = {}
    if options.keytab_file is not None:
        variables["KRB5_CLIENT_KTNAME"] = f"FILE:{options.keytab_file}"
        # Do not use the default cache, because its directory may be read-only or shared.
        variables["KRB5CCNAME"] = "MEMORY:queuegate"
    if options.credentials_cache is not None:
        variables["KRB5CCNAME"] = options.credentials_cache
    return variables


def _ticket_fault(output: str, status: int) -> LdapFault:
    name, _, text = output.partition(" ")
    if not name:
        return ServerFault(f"the Kerberos bind failed with status {status} and no message")
    detail = "".join(char if char.isprintable() else " " for char in text[:_MAX_DETAIL_CHARS])
    ticket = TICKET_FAULTS.get(name, TICKET_FAULTS["other"])
    kind = BadCredentials if name == "INVALID_CREDENTIALS" else ServerFault
    return kind(f"{ticket['fault']}: {detail.strip()}", ticket["advice"])
