"""Fields of a certificate: the standard library tells them of a peer only, and not all."""

import re
import ssl
from datetime import UTC, datetime
from typing import Final

_PEM: Final = re.compile(
    r"-----BEGIN CERTIFICATE-----\s.*?-----END CERTIFICATE-----", re.DOTALL | re.ASCII
)
_SEQUENCE: Final = 0x30
_VERSION: Final = 0xA0
_FORMATS: Final = {0x17: "%y%m%d%H%M%SZ", 0x18: "%Y%m%d%H%M%SZ"}
"""UTCTime and GeneralizedTime, as RFC 5280 (4.1.2.5) wants them written."""


def validity(pem: bytes) -> tuple[float, float] | None:
    """Return from when and until when all certificates in a file are valid, in Unix seconds;
    None if that cannot be read.
    """
    try:
        blocks = _PEM.findall(pem.decode("ascii", "replace"))
        periods = [_period(ssl.PEM_cert_to_DER_cert(block)) for block in blocks]
        return max(begin for begin, _ in periods), min(end for _, end in periods)
    except (ValueError, IndexError, KeyError):
        return None


def first_expiry(pem: bytes) -> float | None:
    """Return when the first of the certificates in a file expires, in Unix seconds; None if
    that cannot be read.
    """
    period = validity(pem)
    return None if period is None else period[1]


def public_key_type(pem: bytes) -> bytes | None:
    """Return the type of the key that the first certificate in a file is for, as the DER of its
    `AlgorithmIdentifier` without the head; None if that cannot be read.
    """
    try:
        der = ssl.PEM_cert_to_DER_cert(_PEM.findall(pem.decode("ascii", "replace"))[0])
        at = _end(der, _validity(der))
        key = _open(der, _end(der, at))
        begin, end = _open(der, key), _end(der, key)
        return der[begin:end]
    except (ValueError, IndexError):
        return None


def _period(der: bytes) -> tuple[float, float]:
    """Read `notBefore` and `notAfter` of `tbsCertificate.validity`. Raises ValueError,
    IndexError, KeyError.
    """
    not_before = _open(der, _validity(der))
    return _time(der, not_before), _time(der, _end(der, not_before))


def _time(der: bytes, at: int) -> float:
    begin, end = _bounds(der, at)
    text = der[begin:end].decode("ascii")
    return datetime.strptime(text, _FORMATS[der[at]]).replace(tzinfo=UTC).timestamp()


def _validity(der: bytes) -> int:
    """Walk to `tbsCertificate.validity`. Raises ValueError, IndexError."""
    certificate = _open(der, 0)
    at = _open(der, certificate)
    if der[at] == _VERSION:
        at = _end(der, at)
    for _ in ("serialNumber", "signature", "issuer"):
        at = _end(der, at)
    return at


def _open(der: bytes, at: int) -> int:
    """Return where the content of a sequence begins."""
    if der[at] != _SEQUENCE:
        raise ValueError("not a sequence")
    return _bounds(der, at)[0]


def _end(der: bytes, at: int) -> int:
    return _bounds(der, at)[1]


def _bounds(der: bytes, at: int) -> tuple[int, int]:
    """Return where the content of an element begins and ends."""
    length, begin = der[at + 1], at + 2
    if length & 0x80:
        count = length & 0x7F
        length, begin = int.from_bytes(der[begin : begin + count]), begin + count
    return begin, begin + length
