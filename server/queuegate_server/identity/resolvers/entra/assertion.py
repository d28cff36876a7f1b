"""Assertions signed with the key of a certificate (RFC 7523), as Microsoft Entra ID expects them.

`cryptography` is imported on first use, as in `files/certificates.py`.
"""

import base64
import hashlib
import json
import secrets
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey

LIFETIME: Final = 300
"""How long an assertion is valid, in seconds. It is used at once."""
EARLIER: Final = 60
"""How far the clocks of both machines may differ, in seconds."""


def signed_assertion(content: bytes, client: str, audience: str, now: float) -> str:
    """Return an assertion that the client is the holder of a certificate. Raises ValueError.

    Args:
        content: The certificate and its RSA key, in PEM format.
        client: The ID of the application.
        audience: The token endpoint.
        now: The time, in Unix seconds.
    """
    from cryptography.hazmat.primitives import hashes  # noqa: PLC0415
    from cryptography.hazmat.primitives.asymmetric import padding  # noqa: PLC0415

    key, thumbprint = _key_and_thumbprint(content)
    claims = {
        "aud": audience,
        "iss": client,
        "sub": client,
        "jti": secrets.token_hex(16),
        "nbf": int(now) - EARLIER,
        "exp": int(now) + LIFETIME,
    }
    header = {"alg": "PS256", "typ": "JWT", "x5t#S256": _encoded(thumbprint)}
    signed = f"{_encoded(_json(header))}.{_encoded(_json(claims))}"
    pss = padding.PSS(padding.MGF1(hashes.SHA256()), hashes.SHA256.digest_size)
    return f"{signed}.{_encoded(key.sign(signed.encode(), pss, hashes.SHA256()))}"


def check_certificate(content: bytes) -> None:
    """Raise ValueError unless a file contains a certificate and its RSA key."""
    _key_and_thumbprint(content)


def _key_and_thumbprint(content: bytes) -> "tuple[RSAPrivateKey, bytes]":
    from cryptography.hazmat.primitives import serialization  # noqa: PLC0415
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey  # noqa: PLC0415
    from cryptography.x509 import load_pem_x509_certificate  # noqa: PLC0415

    try:
        certificate = load_pem_x509_certificate(content)
        key = serialization.load_pem_private_key(content, None)
    except (ValueError, TypeError):
        raise ValueError(
            "the file does not contain a certificate and its key without a password, in PEM format"
        ) from None
    if not isinstance(key, RSAPrivateKey) or key.public_key() != certificate.public_key():
        raise ValueError("the key is not the RSA key of the certificate")
    der = certificate.public_bytes(serialization.Encoding.DER)
    return key, hashlib.sha256(der).digest()


def _json(value: dict[str, Any]) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


def _encoded(value: bytes) -> str:
    return base64.urlsafe_b64encode(value).rstrip(b"=").decode()
