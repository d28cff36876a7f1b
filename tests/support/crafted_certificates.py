"""Client certificates built byte by byte, with names that no library would write."""

import datetime as dt
import ssl
from collections.abc import Sequence
from typing import Final, NamedTuple

import trustme
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

PRINTABLE, UTF8, LATIN_1, BMP, IA5, UNIVERSAL = 0x13, 0x0C, 0x14, 0x1E, 0x16, 0x1C
"""Text types in a subject."""
EMAIL, DNS, X400, URI, IP = 0x81, 0x82, 0xA3, 0x86, 0x87
"""Kinds of alternative names."""
CN, ORGANIZATION, COUNTRY, EMAIL_ADDRESS = "2.5.4.3", "2.5.4.10", "2.5.4.6", "1.2.840.113549.1.9.1"
_ALTERNATIVE_NAMES: Final = "2.5.29.17"
_ECDSA_WITH_SHA256: Final = "1.2.840.10045.4.3.2"
_SEQUENCE, _SET, _OID, _OCTETS, _BITS, _TRUE = 0x30, 0x31, 0x06, 0x04, 0x03, b"\x01\x01\xff"


class Text(NamedTuple):
    """An attribute of a subject."""

    attribute: str
    value: bytes
    kind: int = UTF8


class CertificateContents(NamedTuple):
    """The contents of a certificate."""

    subject: Sequence[Text] = ()
    alternative: Sequence[tuple[int, bytes]] | None = None
    """Kinds and contents, or None for no extension."""
    extensions: Sequence[bytes] = ()
    """Further extensions, complete."""

    def issue(self, authority: trustme.CA) -> tuple[bytes, bytes]:
        """Return a certificate that is valid for a day, and its key, in PEM format."""
        issuer = x509.load_pem_x509_certificate(authority.cert_pem.bytes())
        signing = serialization.load_pem_private_key(authority.private_key_pem.bytes(), None)
        assert isinstance(signing, ec.EllipticCurvePrivateKey)
        key = ec.generate_private_key(ec.SECP256R1())
        now = dt.datetime.now(dt.UTC)
        algorithm = der(_SEQUENCE, oid(_ECDSA_WITH_SHA256))
        extensions = list(self.extensions)
        if self.alternative is not None:
            extensions.append(alternative_names(self.alternative, critical=not self.subject))
        to_sign = der(
            _SEQUENCE,
            der(0xA0, b"\x02\x01\x02"),
            b"\x02\x01\x05",
            algorithm,
            issuer.subject.public_bytes(),
            der(_SEQUENCE, *(_time(now + dt.timedelta(days)) for days in (-1, 1))),
            der(_SEQUENCE, *map(_rdn, self.subject)),
            key.public_key().public_bytes(
                serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
            ),
            der(0xA3, der(_SEQUENCE, *extensions)) if extensions else b"",
        )
        signature = signing.sign(to_sign, ec.ECDSA(hashes.SHA256()))
        content = der(_SEQUENCE, to_sign, algorithm, der(_BITS, b"\0", signature))
        private = key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
        return ssl.DER_cert_to_PEM_cert(content).encode(), private


def alternative_names(names: Sequence[tuple[int, bytes]], *, critical: bool = False) -> bytes:
    """Return an extension with these names."""
    return extension(
        _ALTERNATIVE_NAMES,
        der(_SEQUENCE, *(der(kind, content) for kind, content in names)),
        critical=critical,
    )


def extension(name: str, content: bytes, *, critical: bool = False) -> bytes:
    return der(_SEQUENCE, oid(name), _TRUE if critical else b"", der(_OCTETS, content))


def der(tag: int, *parts: bytes) -> bytes:
    content = b"".join(parts)
    length = len(content)
    if length < 0x80:
        return bytes([tag, length]) + content
    octets = length.to_bytes((length.bit_length() + 7) // 8)
    return bytes([tag, 0x80 | len(octets)]) + octets + content


def oid(text: str) -> bytes:
    first, second, *others = map(int, text.split("."))
    return der(_OID, *map(_base_128, (40 * first + second, *others)))


def _base_128(number: int) -> bytes:
    groups = [number >> shift & 0x7F for shift in range(0, max(number.bit_length(), 1), 7)]
    return bytes(group | 0x80 for group in groups[:0:-1]) + bytes(groups[:1])


def _rdn(text: Text) -> bytes:
    return der(_SET, der(_SEQUENCE, oid(text.attribute), der(text.kind, text.value)))


def _time(moment: dt.datetime) -> bytes:
    return der(0x17, moment.strftime("%y%m%d%H%M%SZ").encode())
