"""Assertions by which a client authenticates with an RSA key (RFC 7523).

`cryptography` is imported on first use, as in `files/certificates.py`.
"""

import asyncio
import base64
import hashlib
import json
import secrets
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

from queuegate_server.config_fields import MIB
from queuegate_server.files.safe_open import read_regular
from queuegate_server.identity.rest.faults import RequestFault

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey

_LIFETIME_SECONDS: Final = 300
"""How long an assertion is valid. It is used at once."""
_CLOCK_SKEW_SECONDS: Final = 60
"""How far the provider's clock may be behind this machine's."""
_JWT_BEARER: Final = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
"""The type of an assertion (RFC 7523, 2.2)."""


@dataclass(frozen=True, slots=True)
class SigningKey:
    """A key, and how the provider finds its public part."""

    key: "RSAPrivateKey" = field(repr=False)
    header: Mapping[str, str]
    """Header parameters of assertions (RFC 7515, 4.1), with `alg`: PS256 or RS256."""


def parse_certificate(content: bytes) -> SigningKey:
    """Return the key of a certificate, in the form that Microsoft Entra ID expects.

    `content` has the certificate and its RSA key, in PEM format. Raises ValueError.
    """
    from cryptography.hazmat.primitives.serialization import Encoding  # noqa: PLC0415
    from cryptography.x509 import load_pem_x509_certificate  # noqa: PLC0415

    try:
        certificate = load_pem_x509_certificate(content)
        key = _rsa_key(content)
    except (ValueError, TypeError):
        raise ValueError(
            "the file does not contain a certificate and its key without a password, in PEM format"
        ) from None
    if key is None or key.public_key() != certificate.public_key():
        raise ValueError("the key is not the RSA key of the certificate")
    der = certificate.public_bytes(Encoding.DER)
    thumbprint = _encoded(hashlib.sha256(der).digest())
    return SigningKey(key, {"alg": "PS256", "x5t#S256": thumbprint})


def parse_private_key(content: bytes, key_id: str | None = None) -> SigningKey:
    """Return an RSA key in PEM format; `key_id` is the provider's ID for the key. Raises
    ValueError.
    """
    try:
        key = _rsa_key(content)
    except (ValueError, TypeError):
        raise ValueError(
            "the file does not contain a private key without a password, in PEM format"
        ) from None
    if key is None:
        raise ValueError("the key is not an RSA key")
    return SigningKey(key, {"alg": "RS256"} | ({"kid": key_id} if key_id else {}))


def _rsa_key(content: bytes) -> "RSAPrivateKey | None":
    """Return the private key in a PEM text; None if it is not an RSA key.

    Raises ValueError if there is no key, and TypeError if it has a password.
    """
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey  # noqa: PLC0415
    from cryptography.hazmat.primitives.serialization import load_pem_private_key  # noqa: PLC0415

    key = load_pem_private_key(content, None)
    return key if isinstance(key, RSAPrivateKey) else None


async def signed_assertion_form(
    file: Path, setting: str, parse: Callable[[bytes], SigningKey], client: str, audience: str
) -> dict[str, str]:
    """Sign an assertion; return the parameters of a token request that contain it.

    Raises RequestFault.

    Args:
        file: The file with the key.
        setting: The setting that names it; messages contain it.
        parse: Returns the key. Raises ValueError.
        client: The ID of the client.
        audience: The token endpoint.
    """

    def sign() -> str:
        return signed_assertion(parse(read_regular(file, MIB)), client, audience, time.time())

    try:
        assertion = await asyncio.to_thread(sign)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise RequestFault(f"{setting} cannot be used: {reason}", "correct the file") from None
    return assertion_form(assertion)


def assertion_form(assertion: str) -> dict[str, str]:
    """Return the parameters of a token request that contain a signed assertion."""
    return {"client_assertion": assertion, "client_assertion_type": _JWT_BEARER}


def signed_assertion(key: SigningKey, client: str, audience: str, now: float) -> str:
    """Return an assertion that a client has a key. `now` is the time, in Unix seconds."""
    from cryptography.hazmat.primitives import hashes  # noqa: PLC0415
    from cryptography.hazmat.primitives.asymmetric import padding  # noqa: PLC0415

    claims = {
        "aud": audience,
        "iss": client,
        "sub": client,
        "jti": secrets.token_hex(16),
        "iat": int(now) - _CLOCK_SKEW_SECONDS,
        "exp": int(now) + _LIFETIME_SECONDS,
    }
    signed = f"{_encoded(_json({'typ': 'JWT', **key.header}))}.{_encoded(_json(claims))}"
    pss = padding.PSS(padding.MGF1(hashes.SHA256()), hashes.SHA256.digest_size)
    pad = pss if key.header["alg"] == "PS256" else padding.PKCS1v15()
    return f"{signed}.{_encoded(key.key.sign(signed.encode(), pad, hashes.SHA256()))}"


def _json(value: Mapping[str, object]) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


def _encoded(value: bytes) -> str:
    return base64.urlsafe_b64encode(value).rstrip(b"=").decode()
