"""A program: binds by GSSAPI on an inherited descriptor, and leaves the connection as it is.

Arguments: the descriptor, the host that the service ticket is for, seconds until it gives
up. Prints nothing, or the name of the driver's error and its text.
"""

import os
import signal
import sys
from typing import Any

import ldap


def _handle(descriptor: int, host: str) -> Any:
    handle = ldap.initialize(f"ldap://{host}", fileno=descriptor)
    # The host as it is configured: reverse DNS could name another one.
    handle.set_option(ldap.OPT_X_SASL_NOCANON, ldap.OPT_ON)
    # TLS encrypts; Active Directory refuses a second layer within it.
    handle.set_option(ldap.OPT_X_SASL_SSF_MAX, 0)
    return handle


def _fault(handle: Any) -> str:
    """Bind, and return what went wrong."""
    try:
        handle.sasl_non_interactive_bind_s("GSSAPI")
    except ldap.LDAPError as error:
        facts = error.args[0] if error.args else {}
        return f"{type(error).__name__} {facts.get('desc', '')}: {facts.get('info', '')}"
    return ""


if __name__ == "__main__":
    signal.alarm(int(sys.argv[3]))
    opened = _handle(int(sys.argv[1]), sys.argv[2])
    os.write(sys.stdout.fileno(), _fault(opened).encode())
    # The handle's end, an orderly one too, would tell the server to close the connection.
    os._exit(0)
