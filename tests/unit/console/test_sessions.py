"""Sessions of browsers, and limits on failed attempts."""

from queuegate_server.console.sessions import (
    FAILURES_AT_ONCE,
    FAILURES_PER_SECOND,
    MAX_PEERS,
    MAX_SESSIONS,
    MAX_SESSIONS_OF_CALLER,
    SESSION_SECONDS,
    FailedAttempts,
    Sessions,
)
from tests.support.fakes.clock import ManualClock


def test_a_session_lasts_until_it_expires_or_is_deleted() -> None:
    clock = ManualClock()
    sessions = Sessions(clock)
    first, second = sessions.create("one", "a"), sessions.create("two", "b")
    assert first != second
    assert (sessions.token(first), sessions.token(second)) == ("one", "two")
    sessions.delete(first)
    sessions.delete("unknown")
    assert sessions.token(first) is None
    clock.advance(SESSION_SECONDS + 1)
    assert sessions.token(second) is None


def test_sessions_are_bounded() -> None:
    sessions = Sessions(ManualClock())
    ids = [sessions.create(str(number), str(number)) for number in range(MAX_SESSIONS + 1)]
    assert sum(sessions.token(each) is not None for each in ids) == MAX_SESSIONS
    assert sessions.token(ids[-1]) == str(MAX_SESSIONS)


def test_a_caller_evicts_no_session_of_another() -> None:
    sessions = Sessions(ManualClock())
    other = sessions.create("other", "token:b")
    own = [sessions.create("own", "token:a") for _ in range(MAX_SESSIONS)]
    assert sessions.token(other) == "other"
    assert [each for each in own if sessions.token(each)] == own[-MAX_SESSIONS_OF_CALLER:]


def test_a_form_token_is_of_one_session_and_caller() -> None:
    sessions = Sessions(ManualClock())
    token = sessions.form_token("s", "token:ann")
    assert sessions.is_form_token(token, "s", "token:ann")
    for given in (
        ("", "s", "token:ann"),
        ("\udcff", "s", "token:ann"),
        (token, "", "token:ann"),
        (token, "s", "loopback"),
        (token, "s\0token:ann", ""),
    ):
        assert not sessions.is_form_token(*given)
    assert not Sessions(ManualClock()).is_form_token(token, "s", "token:ann")


def test_failures_of_an_address_are_limited() -> None:
    clock = ManualClock()
    failures = FailedAttempts(clock)
    for _ in range(FAILURES_AT_ONCE):
        assert failures.wait("a") == 0
        failures.add("a")
    assert 0 < failures.wait("a") <= 1 / FAILURES_PER_SECOND
    assert failures.wait("b") == 0
    clock.advance(1 / FAILURES_PER_SECOND)
    assert failures.wait("a") == 0


def test_addresses_are_bounded() -> None:
    failures = FailedAttempts(ManualClock())
    for number in range(MAX_PEERS + 1):
        failures.add(str(number))
    assert failures.wait("0") == 0
