r"""Certificates that an authority might sign, ordinary and odd, with the valid names of each.

Each tries to be `operator`, which RIGHTS lists under every kind of name. Texts such as
`operator\0.example.com` end at the NUL for a reader that treats them as C strings.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

from tests.support.crafted_certificates import (
    BMP,
    CN,
    COUNTRY,
    DNS,
    EMAIL,
    EMAIL_ADDRESS,
    IA5,
    IP,
    LATIN_1,
    ORGANIZATION,
    PRINTABLE,
    UNIVERSAL,
    URI,
    UTF8,
    X400,
    CertificateContents,
    Text,
    alternative_names,
    extension,
)

SPIFFE: Final = "spiffe://example.org/operator"
RIGHTS: Final = (
    SPIFFE,
    "uri:https://example.org/operator",
    "dns:operator.example.org",
    "dns:operator",
    "dns:kube-operator",
    "cn:operator",
    "subject:CN=operator,O=example",
)
CONTROL: Final = "its subject has a control character"
NOT_ASCII: Final = "a DNS name or URI in it has characters other than printable ASCII"
TWO_URIS: Final = "it has a SPIFFE ID and another URI"
UNREADABLE: Final = "it cannot be parsed"

_SUBJECT_KEY: Final = "2.5.29.14"
_CN: Final = (Text(CN, b"operator"),)
_SPIFFE: Final = (URI, SPIFFE.encode())


class Odd(NamedTuple):
    """A certificate, and its expected interpretation."""

    certificate: CertificateContents
    names: tuple[str, ...] = ()
    """The names to compare with the settings, in order."""
    fault: str = ""
    """Why none of them may be used."""
    subject: str = ""
    """The complete subject, if it is in RIGHTS."""


def _cn(value: bytes, kind: int = PRINTABLE) -> CertificateContents:
    return CertificateContents((Text(CN, value, kind),))


def _dns(*names: bytes) -> CertificateContents:
    return CertificateContents((), [(DNS, name) for name in names])


def _uri(*names: bytes) -> CertificateContents:
    return CertificateContents((), [(URI, name) for name in names])


def _spiffe(text: str) -> Odd:
    return Odd(_uri(text.encode()), (text, f"uri:{text}"))


ORDINARY: Final[Mapping[str, Odd]] = MappingProxyType(
    {
        "common name": Odd(_cn(b"operator"), ("cn:operator",)),
        "common name as UTF-8": Odd(_cn("größe".encode(), UTF8), ("cn:größe",)),
        "common name in two bytes a character": Odd(
            _cn("operator".encode("utf-16-be"), BMP), ("cn:operator",)
        ),
        "common name in four bytes a character": Odd(
            _cn("operator".encode("utf-32-be"), UNIVERSAL), ("cn:operator",)
        ),
        "common name in upper case": Odd(_cn(b"OPERATOR"), ("cn:OPERATOR",)),
        "common name with spaces around": Odd(_cn(b" operator "), ("cn: operator ",)),
        "common name that lists kinds": Odd(_cn(b"cn:operator"), ("cn:cn:operator",)),
        "common name like a DNS name": Odd(
            _cn(b"operator.example.org"), ("cn:operator.example.org",)
        ),
        "long common name": Odd(_cn(b"operator" * 1000), (f"cn:{'operator' * 1000}",)),
        "subject": Odd(
            CertificateContents((Text(ORGANIZATION, b"example"), Text(CN, b"operator"))),
            ("cn:operator",),
            subject="subject:CN=operator,O=example",
        ),
        "subject without common name": Odd(
            CertificateContents((Text(ORGANIZATION, b"CN=operator,O=example"),)),
        ),
        "email address in the subject": Odd(
            CertificateContents((Text(EMAIL_ADDRESS, b"operator@example.org", IA5), *_CN)),
            ("cn:operator",),
        ),
        "SPIFFE ID": _spiffe(SPIFFE),
        "SPIFFE ID and DNS name": Odd(
            CertificateContents((), [(DNS, b"operator"), _SPIFFE]),
            (SPIFFE, f"uri:{SPIFFE}", "dns:operator"),
        ),
        "URI": Odd(_uri(b"https://example.org/operator"), ("uri:https://example.org/operator",)),
        "two URIs": Odd(_uri(b"urn:x", b"urn:y"), ("uri:urn:x", "uri:urn:y")),
        "DNS name": Odd(_dns(b"operator.example.org"), ("dns:operator.example.org",)),
        "two DNS names": Odd(
            _dns(b"b.example.org", b"operator"), ("dns:b.example.org", "dns:operator")
        ),
        "DNS name in upper case": Odd(_dns(b"OPERATOR.Example.ORG"), ("dns:operator.example.org",)),
        "DNS name, then common name": Odd(
            CertificateContents(_CN, [(DNS, b"host.example.org")]),
            ("dns:host.example.org", "cn:operator"),
        ),
        "internationalized DNS name": Odd(
            _dns(b"xn--gre-6ka8i.example.org"), ("dns:xn--gre-6ka8i.example.org",)
        ),
    }
)
"""Ordinary certificates, which gRPC itself reads in the same way."""

ODD: Final[Mapping[str, Odd]] = MappingProxyType(
    {
        "no name at all": Odd(CertificateContents()),
        # A NUL, at which a C string ends, and other control characters.
        "NUL in the common name": Odd(_cn(b"operator\0.example.com", UTF8), fault=CONTROL),
        "NUL at the end of the common name": Odd(_cn(b"operator\0", UTF8), fault=CONTROL),
        "NUL in the common name, which is Latin 1": Odd(
            _cn(b"operator\0.example.com", LATIN_1), fault=CONTROL
        ),
        "NUL in the common name, in two bytes": Odd(
            _cn("operator\0x".encode("utf-16-be"), BMP), fault=CONTROL
        ),
        "NUL in another part of the subject": Odd(
            CertificateContents((Text(ORGANIZATION, b"a\0b"), *_CN)), fault=CONTROL
        ),
        "line feed in the common name": Odd(_cn(b"operator\n", UTF8), fault=CONTROL),
        "control character beyond ASCII": Odd(_cn("operator\x85".encode(), UTF8), fault=CONTROL),
        "NUL in the DNS name": Odd(_dns(b"operator\0.example.com"), fault=NOT_ASCII),
        "NUL in the second DNS name": Odd(
            _dns(b"host.example.com", b"operator\0.example.com"), fault=NOT_ASCII
        ),
        "NUL in the DNS name beside a SPIFFE ID": Odd(
            CertificateContents((), [_SPIFFE, (DNS, b"operator\0x")]), fault=NOT_ASCII
        ),
        "NUL in the URI": Odd(_uri(b"https://example.org/operator\0/x"), fault=NOT_ASCII),
        "NUL in the SPIFFE ID": Odd(_uri(SPIFFE.encode() + b"\0/of/mallory"), fault=NOT_ASCII),
        "delete character in the DNS name": Odd(_dns(b"operator\x7f"), fault=NOT_ASCII),
        # Several names of one kind.
        "two common names": Odd(CertificateContents((*_CN, Text(CN, b"mallory")))),
        "two common names, the other way round": Odd(
            CertificateContents((Text(CN, b"mallory"), *_CN))
        ),
        "the same common name twice": Odd(CertificateContents((*_CN, *_CN))),
        "two common names and a DNS name": Odd(
            CertificateContents((*_CN, Text(CN, b"users")), [(DNS, b"host.example.org")]),
            ("dns:host.example.org",),
        ),
        "two SPIFFE IDs": Odd(_uri(SPIFFE.encode(), b"spiffe://example.org/x"), fault=TWO_URIS),
        "a SPIFFE ID twice": Odd(_uri(SPIFFE.encode(), SPIFFE.encode()), fault=TWO_URIS),
        "a SPIFFE ID and another URI": Odd(_uri(SPIFFE.encode(), b"urn:x"), fault=TWO_URIS),
        "another URI and a SPIFFE ID": Odd(
            _uri(b"https://example.org/operator", b"SPIFFE://x/y"), fault=TWO_URIS
        ),
        "two extensions with names": Odd(
            CertificateContents((), [(DNS, b"operator")], [alternative_names([(DNS, b"mallory")])]),
            fault=UNREADABLE,
        ),
        # Similar to SPIFFE IDs, but invalid or different.
        "SPIFFE ID in upper case": Odd(_uri(SPIFFE.upper().encode()), (f"uri:{SPIFFE.upper()}",)),
        "SPIFFE ID with a port": _spiffe("spiffe://example.org:443/operator"),
        "SPIFFE ID with a user": _spiffe("spiffe://x@example.org/operator"),
        "SPIFFE ID with a slash at the end": _spiffe(f"{SPIFFE}/"),
        "SPIFFE ID with an empty segment": _spiffe("spiffe://example.org//operator"),
        "SPIFFE ID with dots": _spiffe("spiffe://example.org/x/../operator"),
        "SPIFFE ID in escapes": _spiffe("spiffe://example.org/%6fperator"),
        "SPIFFE ID with a query": _spiffe(f"{SPIFFE}?x"),
        "SPIFFE ID with a fragment": _spiffe(f"{SPIFFE}#x"),
        "SPIFFE ID without a path": _spiffe("spiffe://example.org"),
        "SPIFFE ID with a space": _spiffe(f"{SPIFFE} "),
        "SPIFFE ID as common name": Odd(_cn(SPIFFE.encode()), (f"cn:{SPIFFE}",)),
        "SPIFFE ID as DNS name": Odd(_dns(SPIFFE.encode()), (f"dns:{SPIFFE}",)),
        "very long SPIFFE ID": _spiffe(SPIFFE + "/x" * 2000),
        # Texts that are not names.
        "empty common name": Odd(_cn(b""), ("cn:",)),
        "empty DNS name": Odd(_dns(b""), ("dns:",)),
        "empty URI": Odd(_uri(b""), ("uri:",)),
        "wildcard": Odd(_dns(b"*.example.org"), ("dns:*.example.org",)),
        "wildcard for everything": Odd(_dns(b"*"), ("dns:*",)),
        "dot at the end": Odd(_dns(b"operator.example.org."), ("dns:operator.example.org.",)),
        "DNS name with spaces": Odd(_dns(b" operator"), ("dns: operator",)),
        "DNS name with our prefix": Odd(_dns(b"dns:operator"), ("dns:dns:operator",)),
        "very long DNS name": Odd(_dns(b"operator." * 500), (f"dns:{'operator.' * 500}",)),
        "DNS name in UTF-8": Odd(_dns("größe.example.org".encode()), fault=NOT_ASCII),
        # U+212A, the Kelvin sign, becomes an ASCII `k` in lower case.
        "DNS name that is ours in lower case": Odd(
            _dns("\u212aube-operator".encode()), fault=NOT_ASCII
        ),
        "DNS name in Latin 1": Odd(_dns("größe".encode("latin-1")), fault=UNREADABLE),
        "full-width common name": Odd(_cn("\uff4fperator".encode(), UTF8), ("cn:\uff4fperator",)),
        "common name with an invisible character": Odd(
            _cn("operator\u200b".encode(), UTF8), ("cn:operator\u200b",)
        ),
        "common name in Latin 1": Odd(_cn("größe".encode("latin-1"), LATIN_1), fault=UNREADABLE),
        "common name that is not UTF-8": Odd(_cn(b"operator\xff", UTF8), fault=UNREADABLE),
        "common name of half a character": Odd(_cn(b"\0o\0", BMP), fault=UNREADABLE),
        "address": Odd(CertificateContents((), [(IP, b"\x7f\0\0\x01")])),
        "address of five bytes": Odd(
            CertificateContents((), [(IP, b"\x7f\0\0\x01\0")]), fault=UNREADABLE
        ),
        "email address": Odd(CertificateContents((), [(EMAIL, b"operator")])),
        "X.400 address": Odd(CertificateContents(_CN, [(X400, b"")]), fault=UNREADABLE),
        "no names in the extension": Odd(CertificateContents(_CN, []), ("cn:operator",)),
        "broken extension": Odd(
            CertificateContents(_CN, None, [extension(_SUBJECT_KEY, b"\x04\x09x")]),
            fault=UNREADABLE,
        ),
        "country of three letters": Odd(
            CertificateContents((Text(COUNTRY, b"XYZ", PRINTABLE), *_CN)), ("cn:operator",)
        ),
    }
)
"""All others."""
