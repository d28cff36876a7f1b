"""The hash chain of the audit log: what breaks it, and where a break is found."""

import hashlib
import io
import itertools
import json
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from queuegate_server.observe.audit_chain import START, ChainBroken, ChainVerifier, Link, chained
from queuegate_server.observe.audit_file import AuditFile

BIG = 1 << 20


def record(text: object) -> bytes:
    return json.dumps({"time": "2026", "user": text}, separators=(",", ":")).encode() + b"\n"


def links(number: int) -> list[bytes]:
    lines, _ = chained(b"".join(record(each) for each in range(number)), START)
    return lines.splitlines(keepends=True)


def verified(*files: bytes, watched: tuple[bytes, ...] = ()) -> ChainVerifier:
    """Return what is known after all files, the oldest first; raises ChainBroken."""
    verifier = ChainVerifier(watched)
    for number, content in enumerate(files):
        newest = number == len(files) - 1
        verifier.read(str(number), io.BytesIO(content), is_newest=newest)
    return verifier


def broken_at(*files: bytes) -> tuple[str, int, str]:
    with pytest.raises(ChainBroken) as caught:
        verified(*files)
    return caught.value.file, caught.value.line, str(caught.value)


def test_a_record_keeps_its_keys_and_ends_with_its_hash() -> None:
    first, second = (line.decode() for line in links(2))
    fields = json.loads(second)
    assert list(fields) == ["time", "user", "sequence", "previous", "hash"]
    assert (fields["user"], fields["sequence"]) == (1, 2)
    assert fields["previous"] == json.loads(first)["hash"]
    # As the documentation says it, for programs of others.
    content = second[: second.index(',"hash":')]
    assert hashlib.sha256(content.encode()).hexdigest() == fields["hash"]


@given(st.lists(st.text(max_size=9)), st.lists(st.integers(0, 9), max_size=3))
def test_every_log_is_intact_in_any_groups_and_files(users: list[str], cuts: list[int]) -> None:
    last, groups = START, []
    for user in users:
        group, last = chained(record(user) * 2, last)
        groups.append(group)
    bounds = [0, *sorted(cuts), len(groups)]
    files = [b"".join(groups[low:high]) for low, high in itertools.pairwise(bounds)]
    verifier = verified(*files)
    assert (verifier.last, verifier.first) == (last, min(len(users), 1))


NUMBER = 6
LINES = links(NUMBER)
LINE = st.integers(0, NUMBER - 1)


@given(LINE, st.data())
def test_a_changed_byte_is_found_in_its_line(at: int, data: st.DataObject) -> None:
    line = bytearray(LINES[at])
    place = data.draw(st.integers(0, len(line) - 1))
    line[place] ^= data.draw(st.integers(1, 255))
    _, number, fault = broken_at(b"".join([*LINES[:at], bytes(line), *LINES[at + 1 :]]))
    assert number == at + 1
    assert re.search("was changed|not a record", fault)


@given(LINE, st.data())
def test_a_removed_byte_is_found_in_its_line(at: int, data: st.DataObject) -> None:
    place = data.draw(st.integers(0, len(LINES[at]) - 1))
    line = LINES[at][:place] + LINES[at][place + 1 :]
    # Without its last byte the log ends in an incomplete record, as after a crash.
    assume((at, place) != (NUMBER - 1, len(LINES[at]) - 1))
    assert broken_at(b"".join([*LINES[:at], line, *LINES[at + 1 :]]))[1] == at + 1


@given(LINE)
def test_a_removed_record_is_found_in_the_line_after_it(at: int) -> None:
    """Unless it is the first or the last one: then the log is shorter."""
    content = b"".join(LINES[:at] + LINES[at + 1 :])
    if 0 < at < NUMBER - 1:
        missing = f"the records from {at + 1} to {at + 1} are missing before it"
        assert broken_at(content) == ("0", at + 1, missing)
        return
    verifier = verified(content, watched=(_hash(at),))
    assert (verifier.first, verifier.last.sequence) == (1 if at else 2, NUMBER - (at > 0))
    # Only a hash that was kept elsewhere shows that the last one is missing.
    assert bool(verifier.seen) is (at == 0)


@given(LINE, LINE)
def test_swapped_records_are_found_in_the_first_of_both_lines(one: int, other: int) -> None:
    low, high = sorted((one, other))
    assume(low != high)
    lines = LINES.copy()
    lines[low], lines[high] = lines[high], lines[low]
    # The first record of a log is believed: where the log begins, nobody knows.
    assert broken_at(b"".join(lines))[1] == max(low + 1, 2)


@given(LINE, st.integers(0, NUMBER))
def test_a_repeated_record_is_found_where_it_is_repeated(source: int, at: int) -> None:
    lines = [*LINES[:at], LINES[source], *LINES[at:]]
    _, number, fault = broken_at(b"".join(lines))
    # Before itself it is in its place, and the second one is not; the first line is believed.
    assert number == (at + 2 if at == source else max(at + 1, 2))
    assert "comes after" in fault or "missing" in fault


@given(
    st.integers(0, NUMBER),
    st.sampled_from(
        [b"\n", b"{}\n", record("x"), links(1)[0][:-2] + b"\n", b'{"time":\n', b"\0\n"]
    ),
)
def test_an_inserted_line_is_found(at: int, line: bytes) -> None:
    found = broken_at(b"".join([*LINES[:at], line, *LINES[at:]]))
    assert found == ("0", at + 1, "not a record of a hash chain")


@given(st.integers(0, NUMBER))
def test_an_inserted_record_with_a_true_hash_is_found_by_the_one_after_it(at: int) -> None:
    last = _link(at - 1) if at else START
    forged, _ = chained(record("forged"), last)
    if at == NUMBER:  # nothing comes after it
        assert verified(b"".join([*LINES, forged])).last.sequence == NUMBER + 1
    else:
        _, number, _ = broken_at(b"".join([*LINES[:at], forged, *LINES[at:]]))
        assert number == at + 2


def test_a_replaced_record_with_a_true_hash_is_found_by_the_one_after_it() -> None:
    forged, _ = chained(record("forged"), _link(1))
    fault = "record 4 does not continue the one before it"
    assert broken_at(b"".join([*LINES[:2], forged, *LINES[3:]])) == ("0", 4, fault)


def test_a_new_chain_in_the_same_log_is_a_break() -> None:
    assert broken_at(LINES[0] + LINES[1], LINES[0]) == ("1", 1, "record 1 comes after record 2")
    previous = _link(3).hash
    forged, _ = chained(record("x"), Link(0, previous))
    assert broken_at(forged)[2] == "record 1 does not continue the one before it"


def test_a_log_whose_oldest_files_are_gone_is_intact_from_its_first_record_on() -> None:
    verifier = verified(LINES[2] + LINES[3], LINES[4])
    assert (verifier.first, verifier.last.sequence) == (3, 5)
    changed = LINES[2].replace(b'"user":2', b'"user":7')
    fault = "record 3 was changed: its hash is not that of its content"
    assert broken_at(changed + LINES[3]) == ("0", 1, fault)


@pytest.mark.parametrize("length", range(1, len(LINES[1])))
def test_an_incomplete_record_is_no_break_at_the_end_only(length: int) -> None:
    torn = LINES[1][:length]
    verifier = verified(LINES[0] + torn)
    assert (verifier.is_torn, verifier.last.sequence) == (True, 1)
    assert broken_at(LINES[0] + torn, LINES[1])[:2] == ("0", 2)


def test_a_changed_line_feed_at_the_end_makes_no_incomplete_record() -> None:
    content = b"".join(LINES)[:-1]
    assert verified(content).is_torn
    assert broken_at(content + b"x") == ("0", NUMBER, "not a record of a hash chain")


def test_a_line_without_an_end_takes_no_memory() -> None:
    endless = b'{"time":' + b"x" * (3 * BIG)
    assert broken_at(LINES[0] + endless)[1] == 2


def _link(at: int) -> Link:
    return Link(at + 1, _hash(at))


def _hash(at: int) -> bytes:
    return json.loads(LINES[at])["hash"].encode()  # type: ignore[no-any-return]


# The file


def chain_of(folder: Path, *names: str) -> ChainVerifier:
    return verified(*((folder / name).read_bytes() for name in names))


def write(path: Path, *users: object, **changes: Any) -> None:
    """Write a record for each user, from a process that starts and ends."""
    file = AuditFile(path, **{"max_size": BIG, "keep": 5, "chain": True} | changes)
    for user in users:
        file.write(record(user))
    file.close()


@pytest.mark.parametrize("torn", [b"", b"{", b'{"time":"2026-', links(1)[0][:-1]])
def test_the_chain_goes_on_after_a_restart(tmp_path: Path, torn: bytes) -> None:
    path = tmp_path / "audit.log"
    write(path, 1, 2)
    path.write_bytes(path.read_bytes() + torn)
    write(path, 3)
    verifier = chain_of(tmp_path, "audit.log")
    assert (verifier.first, verifier.last.sequence, verifier.is_torn) == (1, 3, False)


def test_the_chain_goes_on_in_the_next_file(tmp_path: Path) -> None:
    path = tmp_path / "audit.log"
    size = len(b"".join(links(2)))
    write(path, *range(5), max_size=size)
    assert chain_of(tmp_path, "audit.log.2", "audit.log.1", "audit.log").last.sequence == 5


@pytest.mark.parametrize("next_exists", [False, True])
def test_the_chain_goes_on_after_a_kill_within_a_rotation(
    tmp_path: Path, next_exists: bool
) -> None:
    """The process has renamed the file, and perhaps made the next one."""
    write(tmp_path / "audit.log.1", 1, 2)
    if next_exists:
        (tmp_path / "audit.log").touch()
    write(tmp_path / "audit.log", 3)
    assert chain_of(tmp_path, "audit.log.1", "audit.log").last.sequence == 3


def test_the_chain_goes_on_after_others_moved_the_file(tmp_path: Path) -> None:
    path = tmp_path / "audit.log"
    file = AuditFile(path, BIG, 5, chain=True)
    file.write(record(1))
    path.rename(tmp_path / "moved")
    file.write(record(2))
    file.close()
    assert chain_of(tmp_path, "moved", "audit.log").last.sequence == 2


def test_a_failed_write_is_no_link(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "audit.log"
    file = AuditFile(path, BIG, 5, chain=True)
    file.write(record(1))
    with monkeypatch.context() as patched:
        patched.setattr("queuegate_server.observe.audit_file._write_all", _full)
        with pytest.raises(OSError, match="No space"):
            file.write(record(2))
    file.write(record(3))
    file.close()
    assert chain_of(tmp_path, "audit.log").last.sequence == 2


def _full(descriptor: int, data: bytes) -> None:
    raise OSError(28, "No space left on device")


@pytest.mark.parametrize(
    "content",
    [
        record("written without a chain"),
        LINES[0].replace(b'"user":0', b'"user":9'),
        LINES[0] + b"text of another program",
    ],
)
def test_a_file_that_does_not_end_in_a_chain_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "audit.log"
    path.write_bytes(content)
    with pytest.raises(OSError, match="its last line is not an unchanged record of a hash chain"):
        write(path)
    assert path.read_bytes() == content
    path.rename(tmp_path / "audit.log.1")
    write(path, 1)
    assert chain_of(tmp_path, "audit.log").first == 1
