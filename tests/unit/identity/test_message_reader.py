"""A stream is split into the same messages, whatever its parts."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from queuegate_server.identity.resolvers.ldap.ldap_messages import (
    LONG_BYTES,
    MessageHead,
    MessageReader,
)
from tests.support.fakes.hostile_directory import entry, result

LONG = entry(2, b"cn=long", [(b"member", [b"x" * 1_000] * 100)])
SHORT = entry(3, b"cn=short", [(b"member", [b"y"])])
END = result(4)
ALL = [SHORT, LONG, LONG, SHORT, END, LONG]
STREAM = b"".join(ALL)


def test_the_long_message_is_long() -> None:
    assert len(SHORT) < LONG_BYTES < len(LONG)


@given(st.sets(st.integers(1, len(STREAM) - 1), max_size=12), st.integers(1, 4), st.booleans())
def test_messages_are_those_of_the_stream(cuts: set[int], rarely: int, admits_long: bool) -> None:
    def admit(head: MessageHead) -> bool:
        return admits_long or head.size < LONG_BYTES

    reader = MessageReader(admit)
    found: list[bytes | None] = []
    for number, (start, end) in enumerate(pairwise([0, *sorted(cuts), len(STREAM)])):
        reader.add(STREAM[start:end])
        if number % rarely == 0:
            # The caller may stop anywhere.
            for _, message in reader.messages():
                found.append(message)
                if number % 2:
                    break
    found += [message for _, message in reader.messages()]
    assert found == [each if admits_long or len(each) < LONG_BYTES else None for each in ALL]
    assert reader.is_between_messages
    assert reader.size == 0


def test_a_stream_that_ends_within_a_long_message() -> None:
    reader = MessageReader(lambda _: True)
    reader.add(LONG[:-1])
    assert list(reader.messages()) == []
    assert not reader.is_between_messages
    assert reader.size == len(LONG) - 1
