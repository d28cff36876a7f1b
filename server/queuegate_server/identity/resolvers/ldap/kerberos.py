"""Kerberos binds: libsasl's GSSAPI in a child process.

libkrb5 talks to the KDC within the bind and waits for it without a limit, and the driver holds
Python's lock meanwhile: in a thread, that would stop the whole server. So a child process gets
libldap's end of the socket pair for the bind, and is killed when its time is over. The bind
belongs to the connection: the child ends, and this process goes on with it.
"""

import math
import os
import sys
from pathlib import Path
from typing import Final

from queuegate_server.identity.resolvers.ldap.errors import BindRefused, LdapFault, ServerFault
from queuegate_server.identity.resolvers.ldap.options import LdapOptions
from queuegate_server.runtime import child_process

_PROGRAM: Final = str(Path(__file__).with_name("kerberos_bind.py"))
_MAX_OUTPUT_BYTES: Final = 65_536
_MAX_MEMORY_BYTES: Final = 1 << 30
_MAX_DETAIL_CHARS: Final = 300
_FAULTS: Final = {
    "AUTH_UNKNOWN": (
        "GSSAPI is not available",
        "install its SASL module (Debian: libsasl2-modules-gssapi-mit)",
    ),
    "LOCAL_ERROR": (
        "cannot get a Kerberos ticket for the directory",
        (
            "check keytab_file or credentials_cache, krb5.conf, the KDC and the clock; the KDC "
            "must know ldap/<tls_server_name, or the host of the URL>"
        ),
    ),
    "INVALID_CREDENTIALS": (
        "the server rejected the Kerberos ticket",
        "check the server's own keytab",
    ),
}
_OTHER_FAULT: Final = (
    "the Kerberos bind failed",
    "check the server's keytab, and supportedSASLMechanisms in its root entry",
)


async def bind_with_kerberos(descriptor: int, host: str, options: LdapOptions) -> None:
    """Bind the connection behind a descriptor, which stays open. Raises LdapFault.

    The caller bounds the time; the child is killed when this call is cancelled.
    """
    seconds = math.ceil(options.connect_timeout) + 1
    try:
        result = await child_process.run(
            (sys.executable, "-P", _PROGRAM, str(descriptor), host, str(seconds)),
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
            f"the process for the Kerberos bind cannot be started: {error.strerror}",
            "check the limits on processes and memory",
        ) from None
    except child_process.OutputTooLong:
        raise ServerFault("the process for the Kerberos bind wrote too much") from None
    if result.output or result.status:
        raise _fault(result.output.decode("utf-8", "replace"), result.status)


def _credentials(options: LdapOptions) -> dict[str, str]:
    """Return the environment variables that name the credentials, if settings do."""
    variables: dict[str, str] = {}
    if options.keytab_file is not None:
        variables["KRB5_CLIENT_KTNAME"] = f"FILE:{options.keytab_file}"
        # The default cache is a file, in a directory that may be read-only or open to others.
        variables["KRB5CCNAME"] = "MEMORY:queuegate"
    if options.credentials_cache is not None:
        variables["KRB5CCNAME"] = options.credentials_cache
    return variables


def _fault(output: str, status: int) -> LdapFault:
    name, _, text = output.partition(" ")
    if not name:
        return ServerFault(f"the Kerberos bind ended with status {status} and without a message")
    detail = "".join(char if char.isprintable() else " " for char in text[:_MAX_DETAIL_CHARS])
    what, advice = _FAULTS.get(name, _OTHER_FAULT)
    kind = BindRefused if name == "INVALID_CREDENTIALS" else ServerFault
    return kind(f"{what}: {detail.strip()}", advice)
