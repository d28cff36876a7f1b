r"""Extracts names and expiry from a peer certificate already verified by the TLS library.

Names are read from the certificate itself because TLS libraries and gRPC for Python pass them as C
strings, which end at a NUL: `operator\0.example.org` would become `operator`.
"""

import re
import warnings
from collections.abc import Iterator
from functools import lru_cache
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from cryptography.x509 import Certificate

_SPIFFE: Final = "spiffe:"
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f-\x9f]")


class PeerCertificate(NamedTuple):
    """A certificate's names and expiry, and the reason not to use it, if any."""

    names: tuple[str, ...]
    """The names in the form used in the settings, the most specific first: `spiffe://…`, `uri:…`,
    `dns:…` in lower case, `cn:…`. Excludes `subject:…`."""
    not_after: float
    """The expiry time, in Unix seconds."""
    fault: str = ""
    """Why the certificate is unusable, without quoting it; empty if its names are valid."""


class _BadNames(ValueError):
    """Raised for a certificate whose names must not be used. The message says why."""


@lru_cache(maxsize=1024)
def peer_certificate(pem: bytes) -> PeerCertificate:
    """Parse a PEM certificate. Never raises; an unreadable certificate yields a fault."""
    from cryptography import x509  # noqa: PLC0415 - takes 40 ms, and most servers never need it

    try:
        with warnings.catch_warnings():
            # Ignore warnings about overlong attribute values, which are compared like any others.
            warnings.simplefilter("ignore")
            certificate = x509.load_pem_x509_certificate(pem)
            names = tuple(_names(certificate))
        return PeerCertificate(names, certificate.not_valid_after_utc.timestamp())
    except _BadNames as error:
        return PeerCertificate((), 0.0, str(error))
    except Exception:  # the parser raises many types of exceptions, and all must deny access
        return PeerCertificate((), 0.0, "it cannot be parsed")


def _names(certificate: "Certificate") -> Iterator[str]:
    from cryptography import x509  # noqa: PLC0415 - see above

    uris: list[str] = []
    dns: list[str] = []
    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        uris = names.get_values_for_type(x509.UniformResourceIdentifier)
        dns = names.get_values_for_type(x509.DNSName)
    except x509.ExtensionNotFound:
        pass
    for name in (*uris, *dns):
        # Names are ASCII (RFC 5280, 4.2.1.6). Lowercasing other characters could produce a
        # configured name.
        if not (name.isascii() and name.isprintable()):
            raise _BadNames("a DNS name or URI in it has characters other than printable ASCII")
    # https://github.com/spiffe/spiffe/blob/main/standards/X509-SVID.md, section 2
    if len(uris) > 1 and any(uri.lower().startswith(_SPIFFE) for uri in uris):
        raise _BadNames("it has a SPIFFE ID and another URI")
    for attribute in certificate.subject:
        if isinstance(attribute.value, str) and _CONTROL.search(attribute.value):
            raise _BadNames("its subject has a control character")
    yield from (uri for uri in uris if uri.startswith(_SPIFFE))
    yield from (f"uri:{uri}" for uri in uris)
    yield from (f"dns:{name.lower()}" for name in dns)
    common = certificate.subject.get_attributes_for_oid(x509.NameOID.COMMON_NAME)
    # Ignore multiple CNs, as in cn=alice,cn=users,dc=example,dc=org, because some programs would
    # use the first and others the last.
    if len(common) == 1:
        yield f"cn:{common[0].value!s}"
