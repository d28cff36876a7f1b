"""Checks that python-ldap (the driver) and the libraries required by the settings are installed."""

import ctypes
import importlib
from itertools import takewhile
from typing import Final

_MODULES: Final = ("ldap", "ldap.controls")
_DISCOVERY_MODULE: Final = "dns.asyncresolver"
_KERBEROS_MECHANISM: Final = b"GSSAPI"


def check_driver(*, kerberos: bool, discovery: bool) -> None:
    """Load the driver, and check that the required libraries are available.

    Args:
        kerberos: Whether Kerberos binds are configured.
        discovery: Whether server discovery through DNS is configured.

    Raises:
        ValueError: The driver or a required module is missing; the message contains a remedy.
    """
    for name in (*_MODULES, *((_DISCOVERY_MODULE,) if discovery else ())):
        try:
            importlib.import_module(name)
        except ModuleNotFoundError as error:
            raise ValueError(
                f"the LDAP driver is not installed ({error}): pip install 'queuegate[ldap]', or "
                "in a checkout pip install '.[server,ldap]'"
            ) from None
        except ImportError as error:
            raise ValueError(
                f"the LDAP driver cannot be loaded ({error}): install libldap and libsasl, or "
                "rebuild python-ldap against the versions on this machine"
            ) from None
    if kerberos and not _has_mechanism(_KERBEROS_MECHANISM):
        raise ValueError(
            "bind: gssapi needs the GSSAPI module of libsasl: install it (Debian: "
            "libsasl2-modules-gssapi-mit)"
        )


def _has_mechanism(name: bytes) -> bool:
    # The driver does not expose the mechanisms, so call SASL functions in the driver's library.
    library = ctypes.CDLL(importlib.import_module("_ldap").__file__)
    try:
        library.sasl_client_init(None)
        library.sasl_global_listmech.restype = ctypes.POINTER(ctypes.c_char_p)
        names = library.sasl_global_listmech()
    except AttributeError:  # The driver was built without SASL.
        return False
    return bool(names) and name in takewhile(lambda each: each is not None, names)
