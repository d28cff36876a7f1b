"""Certificates of directories: which authorities are trusted, and what to do about a certificate
that is not valid, by OpenSSL's reason.
"""

import ssl
from pathlib import Path
from typing import Final

_OTHER_ADVICE: Final = "check ca_file, the names in the certificate and its dates"
_KEY_IDENTIFIER: Final = (
    "RFC 5280 requires these identifiers, and a CA without them cannot be distinguished from "
    "another of the same name: have the certificates of the CA and the server reissued with "
    "subjectKeyIdentifier=hash and authorityKeyIdentifier=keyid"
)
_RFC_5280: Final = (
    "RFC 5280 forbids such certificates: have the CA's certificate reissued with "
    "basicConstraints=critical,CA:TRUE and keyUsage=critical,keyCertSign,cRLSign"
)
_SELF_SIGNED: Final = "put the root certificate that the server's chain ends in into ca_file"
_NAME: Final = (
    "use a name of the certificate in urls, or set tls_server_name to one; the names are those in "
    "subjectAltName, and the common name is ignored"
)
_WEAK: Final = "have it reissued with a key of 2048 bits or more, signed with SHA-256"
_ADVICE: Final = {
    2: "ca_file has an intermediate CA, or the certificate of the server, without the root that "
    "signed it: add the root certificate to ca_file",
    9: "the certificate is not valid yet: check the clocks of both machines",
    10: "renew the server's certificate, or the CA's in ca_file",
    18: _SELF_SIGNED,
    19: _SELF_SIGNED,
    20: "ca_file lacks the CA that signed the certificate; if that is an intermediate CA, let the "
    "server send its certificate as well, or add it to ca_file",
    21: "ca_file lacks the CA that signed the certificate, or the server sends no intermediate CA",
    62: _NAME,
    64: _NAME,
    66: _WEAK,
    67: _WEAK,
    68: _WEAK,
    85: _KEY_IDENTIFIER,
    86: _KEY_IDENTIFIER,
    **dict.fromkeys((79, 80, 81, 82, 83, 84, 87, 88, 89, 90, 91, 92, 93, 94), _RFC_5280),
}
"""By the codes of OpenSSL's x509_vfy.h."""


def certificate_advice(code: int) -> str:
    """Return the advice for the code with which the verification of a certificate failed."""
    return _ADVICE.get(code, _OTHER_ADVICE)


def has_authorities(context: ssl.SSLContext) -> bool:
    """Return whether a context has CA certificates, or a folder where OpenSSL looks for them."""
    folder = ssl.get_default_verify_paths().capath or ""
    return context.cert_store_stats()["x509_ca"] > 0 or (
        bool(folder) and any(Path(folder).iterdir())
    )
