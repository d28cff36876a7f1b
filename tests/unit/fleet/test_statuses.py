"""The statuses in an answer of Redis, among those that somebody else has written."""

import hashlib

import pytest

from queuegate_server.fleet.events import ReplicaStatus, encode_status
from queuegate_server.fleet.keys import Signer
from queuegate_server.fleet.statuses import MAX_KNOWN, StatusReader

SIGNER = Signer(b"s" * 32, "status")
A = ReplicaStatus("a", "one", 1)
GARBAGE = (b"\0 field", b"\0" * 40)


def answer(*fields: tuple[bytes, bytes]) -> tuple[bytes, bytes]:
    lengths = b" ".join(b"%d %d" % (len(name), len(value)) for name, value in fields)
    return lengths, b"".join(name + value for name, value in fields)


def written(status: ReplicaStatus) -> tuple[bytes, bytes]:
    return status.instance.encode(), encode_status(SIGNER, status)


def sha1(value: bytes) -> str:
    return hashlib.sha1(value, usedforsecurity=False).hexdigest()


async def test_what_no_replica_has_written_is_removed_if_it_stays() -> None:
    """Replicas with another secret write theirs again: the mistake is named, on both sides."""
    reader = StatusReader(SIGNER)
    both = answer(GARBAGE, written(A))
    assert await reader.read(*both, is_complete=True) == [A]
    assert reader.removal([]) == []
    assert await reader.read(*both, is_complete=True) == [A]
    assert reader.removal([]) == [GARBAGE[0], sha1(GARBAGE[1])]
    assert reader.removal([]) == []
    other = (GARBAGE[0], b"\1" * 40)
    assert await reader.read(*answer(other), is_complete=True) == []
    assert reader.removal([]) == []
    assert reader.rejected == 1


async def test_of_too_many_they_are_removed_at_once() -> None:
    reader = StatusReader(SIGNER)
    await reader.read(*answer(GARBAGE), is_complete=False)
    assert reader.removal([A]) == [GARBAGE[0], sha1(GARBAGE[1])]


async def test_copies_of_a_status_are_removed() -> None:
    """Somebody without the secret can copy it into other fields, as often as Redis has room."""
    reader = StatusReader(SIGNER)
    name, value = written(A)
    copies = [(b"%d" % number, value) for number in range(10)]
    found = await reader.read(*answer((name, value), *copies), is_complete=False)
    assert found == [A]
    assert reader.removal([])[::2] == [copy for copy, _ in copies]


async def test_replicas_are_known_while_answers_lack_some() -> None:
    reader = StatusReader(SIGNER)
    await reader.read(*answer(written(A)), is_complete=True)
    await reader.read(*answer(GARBAGE), is_complete=False)
    assert reader.known == ["a"]
    value = written(A)[1]
    assert reader.removal([A])[:2] == ["a", sha1(value)]
    await reader.read(*answer(), is_complete=True)
    assert reader.known == []


async def test_as_many_are_known_as_are_asked_for() -> None:
    reader = StatusReader(SIGNER)
    many = [written(ReplicaStatus(f"{number}", "x", 1)) for number in range(MAX_KNOWN + 10)]
    assert len(await reader.read(*answer(*many), is_complete=True)) == len(many)
    assert len(reader.known) == MAX_KNOWN


@pytest.mark.parametrize("lengths", [b"1 2", b"1", b"-1 3 0 0", b"x 1", b"2 0 0"])
async def test_lengths_that_do_not_fit_are_an_error(lengths: bytes) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - its text is for nobody
        await StatusReader(SIGNER).read(lengths, b"ab", is_complete=True)
