"""Trusted certificate authorities, and advice on OpenSSL's verification errors."""

import ssl
from pathlib import Path
from typing import Final, Literal

VERIFY_FLAGS: Final = ssl.VERIFY_X509_TRUSTED_FIRST | ssl.VERIFY_X509_STRICT
"""Certificates must conform to RFC 5280, and chains must end in a root certificate."""
_TLS_VERSIONS: Final = {"1.2": ssl.TLSVersion.TLSv1_2, "1.3": ssl.TLSVersion.TLSv1_3}

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
_SELF_SIGNED: Final = "add the root certificate of the server's chain to ca_file"
_NAME: Final = (
    "use a name from the certificate in {address}; names are those in subjectAltName, and the "
    "common name is ignored"
)
_NO_CA: Final = (
    "ca_file (or, if it is not set, this machine's trust store) lacks the CA that signed the "
    "certificate"
)
_WEAK: Final = "have it reissued with a key of 2048 bits or more, signed with SHA-256"
_ADVICE: Final = {
    2: "ca_file has an intermediate CA, or the certificate of the server, without the root that "
    "signed it: add the root certificate to ca_file",
    9: "the certificate is not valid yet: check the clocks of both machines",
    10: "renew the server's certificate, or the CA's in ca_file",
    18: _SELF_SIGNED,
    19: _SELF_SIGNED,
    20: f"{_NO_CA}; if that is an intermediate CA, let the server send its certificate as well, or "
    "add it to ca_file",
    21: f"{_NO_CA}, or the server sends no intermediate CA",
    62: _NAME,
    64: _NAME,
    66: _WEAK,
    67: _WEAK,
    68: _WEAK,
    85: _KEY_IDENTIFIER,
    86: _KEY_IDENTIFIER,
    **dict.fromkeys((79, 80, 81, 82, 83, 84, 87, 88, 89, 90, 91, 92, 93, 94), _RFC_5280),
}
"""Advice by OpenSSL error code (x509_vfy.h)."""


def certificate_advice(code: int, address: str) -> str:
    """Return advice on fixing a verification error.

    Args:
        code: OpenSSL's error code.
        address: The settings that name the server.
    """
    return _ADVICE.get(code, _OTHER_ADVICE).format(address=address)


def tls_context(
    ca_file: Path | None, minimum: Literal["1.2", "1.3"], *, verify: bool
) -> ssl.SSLContext:
    """Return an SSL context for connections to a server. Blocks. Raises ValueError.

    Args:
        ca_file: The file with trusted certificates, or None for the system's trust store.
        minimum: The minimum TLS version.
        verify: Whether to verify the server's certificate.
    """
    try:
        context = ssl.create_default_context(cafile=ca_file)
    except OSError as error:
        raise ValueError(
            f"ca_file {ca_file} contains no certificates ({openssl_reason(error)}): write them in "
            "PEM format"
        ) from None
    # Set the flags explicitly, because Python's defaults vary: 3.13 added VERIFY_X509_STRICT.
    context.verify_flags = VERIFY_FLAGS
    context.minimum_version = _TLS_VERSIONS[minimum]
    if not verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


def check_authorities(context: ssl.SSLContext) -> None:
    """Raise ValueError if neither the context nor OpenSSL's default directory has a CA."""
    folder = ssl.get_default_verify_paths().capath or ""
    if not context.cert_store_stats()["x509_ca"] and not (folder and any(Path(folder).iterdir())):
        raise ValueError("this machine has no CA certificates: install them, or set ca_file")


def openssl_reason(error: OSError) -> str:
    """Return the reason why OpenSSL or the operating system rejected a file."""
    return getattr(error, "reason", None) or error.strerror or type(error).__name__
