"""Names of keys, and codes that only replicas can compute."""

from hypothesis import given
from hypothesis import strategies as st

from queuegate_server.fleet.keys import MAC_BYTES, Keys, LogPosition, Signer, frame

SECRET = b"s" * 32


def test_all_keys_share_one_hash_tag() -> None:
    keys = Keys("prod")
    names = [keys.epoch, keys.sequence, keys.events, keys.head, keys.replicas]
    assert all(name.startswith("{prod}:") for name in [*names, keys.user("a", "b")])
    assert len(set(names)) == len(names)


@given(*(st.text(max_size=4, alphabet=":%{}ab/é") for _ in range(4)))
def test_a_key_belongs_to_one_user(partition: str, user: str, other: str, name: str) -> None:
    keys = Keys("q")
    same = keys.user(partition, user) == keys.user(other, name)
    assert same == ((partition, user) == (other, name))


@given(st.lists(st.binary(max_size=4)), st.lists(st.binary(max_size=4)))
def test_framed_parts_are_unambiguous(parts: list[bytes], others: list[bytes]) -> None:
    assert (frame(parts) == frame(others)) == (parts == others)


def test_a_code_fits_its_secret_purpose_and_parts_only() -> None:
    signer = Signer(SECRET, "groups")
    mac = signer.mac(b"key", b"value")
    assert len(mac) == MAC_BYTES
    assert signer.is_valid(mac, b"key", b"value")
    assert Signer(SECRET, "groups").is_valid(mac, b"key", b"value")
    assert not signer.is_valid(mac, b"keyv", b"alue")
    assert not signer.is_valid(mac, b"value", b"key")
    assert not signer.is_valid(b"", b"key", b"value")
    assert not Signer(SECRET, "events").is_valid(mac, b"key", b"value")
    assert not Signer(b"t" * 32, "groups").is_valid(mac, b"key", b"value")


@given(st.binary(min_size=16, max_size=16), st.integers(0, 2**64 - 1), st.binary(max_size=8))
def test_a_cursor_names_one_position(epoch: bytes, sequence: int, nonce: bytes) -> None:
    position = LogPosition(epoch, sequence, nonce)
    cursor = position.cursor
    assert LogPosition.of_cursor(cursor.epoch, cursor.sequence) == position
