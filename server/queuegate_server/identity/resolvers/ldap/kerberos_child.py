"""A program that performs a GSSAPI bind over an inherited socket and leaves the socket open.

Its arguments are the socket's descriptor, the host name for the service ticket, and the time limit
in seconds. On failure, it prints the name and text of the driver's error.
"""

import os
import signal
import sys

import ldap

if __name__ == "__main__":
    signal.alarm(int(sys.argv[3]))
    handle = ldap.initialize(f"ldap://{sys.argv[2]}", fileno=int(sys.argv[1]))
    # Use the configured host name, because reverse DNS could return a different name.
    handle.set_option(ldap.OPT_X_SASL_NOCANON, ldap.OPT_ON)
    # Disable SASL encryption, because Active Directory rejects it on connections that use TLS.
    handle.set_option(ldap.OPT_X_SASL_SSF_MAX, 0)
    try:
        handle.sasl_non_interactive_bind_s("GSSAPI")
    except ldap.LDAPError as error:
        facts = error.args[0] if error.args else {}
        text = f"{type(error).__name__} {facts.get('desc', '')}: {facts.get('info', '')}"
        os.write(sys.stdout.fileno(), text.encode())
    # Skip all cleanup, because freeing the handle would send an unbind request.
    os._exit(0)
