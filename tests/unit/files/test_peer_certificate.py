"""The holder that a certificate names, and when it expires."""

import datetime as dt
import random
import ssl

import pytest
import trustme

from queuegate_server.files.peer_certificate import peer_certificate
from tests.support.odd_certificates import ODD, ORDINARY, Odd

AUTHORITY = trustme.CA()
SOON = dt.datetime(2031, 2, 3, 4, 5, 6, tzinfo=dt.UTC)
AS_GENERALIZED_TIME = dt.datetime(2050, 1, 1, tzinfo=dt.UTC)
CORPUS = {**ORDINARY, **ODD}


@pytest.mark.parametrize("odd", CORPUS.values(), ids=CORPUS)
def test_names_that_count(odd: Odd) -> None:
    read = peer_certificate(odd.certificate.issue(AUTHORITY)[0])
    assert (read.names, read.fault) == (odd.names, odd.fault)


@pytest.mark.parametrize("expires", [SOON, AS_GENERALIZED_TIME])
def test_expiry(expires: dt.datetime) -> None:
    pem = AUTHORITY.issue_cert("host", not_after=expires).cert_chain_pems[0].bytes()
    assert peer_certificate(pem).not_after == expires.timestamp()


def test_damaged_certificates_are_read_without_an_exception() -> None:
    chance = random.Random(1)
    whole = [
        ssl.PEM_cert_to_DER_cert(odd.certificate.issue(AUTHORITY)[0].decode())
        for odd in CORPUS.values()
    ]
    for _ in range(5000):
        damaged = bytearray(chance.choice(whole))
        for _ in range(chance.choice((1, 2, 4))):
            damaged[chance.randrange(len(damaged))] = chance.choice(
                (0, 0x80, chance.randrange(256))
            )
        read = peer_certificate(ssl.DER_cert_to_PEM_cert(bytes(damaged)).encode())
        assert not (read.fault and read.names)
        assert not any("\0" in name for name in read.names)


def test_bytes_that_are_no_certificate_identify_nobody() -> None:
    whole = ORDINARY["DNS name"].certificate.issue(AUTHORITY)[0]
    lines = whole.splitlines(keepends=True)
    cut = [b"".join([*lines[:kept], lines[-1]]) for kept in range(2, len(lines) - 2)]
    for broken in (b"", b"\xff", whole[:-30], *cut):
        read = peer_certificate(broken)
        assert (read.names, read.fault) == ((), "it cannot be parsed")
