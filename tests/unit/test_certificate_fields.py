"""When certificates expire, and what their keys are, as read from their bytes."""

import datetime as dt

import pytest
import trustme

from queuegate_server.certificate_fields import first_expiry, public_key_type, validity

SOON = dt.datetime(2031, 2, 3, 4, 5, 6, tzinfo=dt.UTC)
LATER = dt.datetime(2049, 12, 31, 23, 59, 59, tzinfo=dt.UTC)
AS_GENERALIZED_TIME = dt.datetime(2050, 1, 1, tzinfo=dt.UTC)


def pem(expires: dt.datetime) -> bytes:
    return trustme.CA().issue_cert("host", not_after=expires).cert_chain_pems[0].bytes()


@pytest.mark.parametrize("expires", [SOON, LATER, AS_GENERALIZED_TIME])
def test_one_certificate(expires: dt.datetime) -> None:
    assert first_expiry(pem(expires)) == expires.timestamp()


def test_the_first_of_several_counts() -> None:
    both = b"bag attributes\n" + pem(LATER) + b"\nmore\n" + pem(SOON)
    assert first_expiry(both) == SOON.timestamp()


def test_from_the_last_begin_to_the_first_end() -> None:
    begins = [dt.datetime(year, 1, 1, tzinfo=dt.UTC) for year in (2020, 2022, 2021)]
    made = trustme.CA()
    files = [made.issue_cert("host", not_before=each, not_after=LATER) for each in begins]
    chain = b"".join(each.cert_chain_pems[0].bytes() for each in files)
    assert validity(chain) == (begins[1].timestamp(), LATER.timestamp())


def test_what_is_no_certificate_has_no_expiry() -> None:
    whole = pem(SOON)
    lines = whole.splitlines(keepends=True)
    assert first_expiry(b"") is None
    assert first_expiry(b"\xff") is None
    assert first_expiry(whole[:-30]) is None
    for kept in range(2, len(lines) - 2):
        assert first_expiry(b"".join([*lines[:kept], lines[-1]])) in {None, SOON.timestamp()}


@pytest.mark.parametrize(
    ("key", "name"),
    [(trustme.KeyType.RSA, "2a864886f70d010101"), (trustme.KeyType.ECDSA, "2a8648ce3d0201")],
)
def test_the_type_of_the_key_of_the_first(key: trustme.KeyType, name: str) -> None:
    issued = trustme.CA().issue_cert("host", key_type=key).cert_chain_pems[0].bytes()
    found = public_key_type(b"bag attributes\n" + issued + pem(SOON))
    assert found is not None
    assert found[2:].startswith(bytes.fromhex(name))


def test_what_is_no_certificate_has_no_type_of_key() -> None:
    whole = pem(SOON)
    assert [public_key_type(broken) for broken in (b"", b"\xff", whole[:-30])] == [None] * 3
