"""Keys of applications, and what their assertions say."""

import base64
import json
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa

from tests.support.atomic_files import replace

PSS = padding.PSS(padding.MGF1(hashes.SHA256()), 32)


def pem(key: rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey) -> str:
    """Return a key as PKCS #8."""
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    ).decode()


def key_in(path: Path) -> rsa.RSAPublicKey:
    """Write a new key to a file, and return its public part."""
    key = rsa.generate_private_key(65537, 2048)
    replace(path, pem(key))
    path.chmod(0o600)
    return key.public_key()


def verified(
    assertion: str, key: rsa.RSAPublicKey, pad: padding.PSS | padding.PKCS1v15
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the header and the claims of an assertion. Raises InvalidSignature."""
    parts = assertion.split(".")
    header, claims, signature = (
        base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)) for part in parts
    )
    key.verify(signature, ".".join(parts[:2]).encode(), pad, hashes.SHA256())
    return json.loads(header), json.loads(claims)
