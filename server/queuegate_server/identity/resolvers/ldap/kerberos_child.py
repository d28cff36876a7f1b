"""A program: binds by GSSAPI on an inherited descriptor and leaves the connection open.

Arguments: the descriptor, the host that the service ticket is for, and the seconds until the
program gives up. It prints nothing, or the name of the driver's error and its text.
"""

import os
import signal
import sys

import ldap

if __name__ == "__main__":
    signal.alarm(int(sys.argv[3]))
    handle = ldap.initialize(f"ldap://{sys.argv[2]}", fileno=int(sys.argv[1]))
    # Use the configured host; reverse DNS could name another one.
    handle.set_option(ldap.OPT_X_SASL_NOCANON, ldap.OPT_ON)
    # TLS encrypts; Active Directory refuses a second layer within it.
    handle.set_option(ldap.OPT_X_SASL_SSF_MAX, 0)
    try:
        handle.sasl_non_interactive_bind_s("GSSAPI")
    except ldap.LDAPError as error:
        facts = error.args[0] if error.args else {}
        text = f"{type(error).__name__} {facts.get('desc', '')}: {facts.get('info', '')}"
        os.write(sys.stdout.fileno(), text.encode())
    # Freeing the handle, even by an orderly exit, would ask the server to close the connection.
    os._exit(0)
