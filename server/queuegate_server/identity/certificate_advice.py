"""Trusted certificate authorities, and advice on OpenSSL's verification errors."""

import ssl
from collections.abc import Mapping
from pathlib import Path
from typing import Final, Literal

from queuegate_server.files.toml import read_toml

VERIFY_FLAGS: Final = ssl.VERIFY_X509_TRUSTED_FIRST | ssl.VERIFY_X509_STRICT
"""Certificates must conform to RFC 5280, and chains must end in a root certificate."""
_TLS_VERSIONS: Final = {"1.2": ssl.TLSVersion.TLSv1_2, "1.3": ssl.TLSVersion.TLSv1_3}

_OTHER_ADVICE: Final = "check ca_file, the names in the certificate and its dates"
_ADVICE: Final[Mapping[int, str]] = {
    code: each["text"]
    for each in read_toml(__file__, "certificate_advice.toml")["advice"]
    for code in each["codes"]
}
"""Advice by OpenSSL error code."""


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
