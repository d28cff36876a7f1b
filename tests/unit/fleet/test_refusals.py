"""The sentences about commands that Redis refuses."""

import pytest
from redis.exceptions import (
    AuthenticationError,
    BusyLoadingError,
    ConnectionError,  # noqa: A004 - of Redis
    MovedError,
    NoPermissionError,
    OutOfMemoryError,
    ReadOnlyError,
    RedisClusterException,
    ResponseError,
    TimeoutError,  # noqa: A004 - of Redis
)
from redis.sentinel import MasterNotFoundError

from queuegate_server.fleet.refusals import REMEMBERED_SECONDS, Refusals, refusal, unreachable
from tests.support.fakes.clock import ManualClock
from tests.support.rows import rows


@pytest.mark.parametrize(
    ("error", "sentence"),
    [
        (NoPermissionError("this user has no permissions to run the 'xread' command"), "rights"),
        (NoPermissionError("No permissions to access a key"), "rights"),
        (ResponseError("unknown command 'XREAD', with args beginning with: 'x'"), "renamed"),
        (OutOfMemoryError("command not allowed when used memory > 'maxmemory'."), "more memory"),
        (ReadOnlyError("You can't write against a read only replica."), "name the master"),
        (ResponseError("MISCONF Redis is configured to save RDB snapshots"), "its disk"),
        (ResponseError("NOREPLICAS Not enough good replicas to write."), "min-replicas-to-write"),
        (MovedError("3999 127.0.0.1:6381"), "redis+cluster://"),
        (AuthenticationError("invalid username-password pair"), "fleet.password_file"),
        (AuthenticationError("Authentication required."), "set fleet.password_file"),
        (ResponseError("Protocol error: unauthenticated multibulk length"), "a password: set"),
        (BusyLoadingError("Redis is loading the dataset in memory"), "wait until Redis has"),
        (ResponseError("BUSY Redis is busy running a script."), "wait until Redis has"),
        (ResponseError("DB index is out of range"), "the database number at the end of fleet.url"),
    ],
)
def test_it_names_the_command_the_cause_and_the_remedy(error: Exception, sentence: str) -> None:
    text = refusal("XREAD", error)
    assert text.startswith(f"Redis refuses XREAD ({type(error).__name__}: ")
    assert sentence in text
    assert "with args" not in text


@pytest.mark.parametrize(
    "text",
    [
        "the task was removed from its room",
        "ask again: a busybody is downloading",
        "BUSYGROUP Consumer Group name already exists",
    ],
)
def test_no_remedy_is_read_out_of_a_part_of_a_word(text: str) -> None:
    assert refusal("XREAD", ResponseError(text)) == f"Redis refuses XREAD (ResponseError: {text})"


@rows
def test_a_code_is_a_word_of_its_own(text: str, remedy: str) -> None:
    assert remedy in refusal("XREAD", ResponseError(text))


@pytest.mark.parametrize("spelling", ["sec=ret", "c2VjPXJldA=="])
def test_passwords_are_masked(spelling: str) -> None:
    text = f"ERR cannot run AUTH {spelling}"
    for message in (
        refusal("XREAD", ResponseError(text), ["sec=ret"]),
        unreachable(RedisClusterException(text), ["sec=ret"]),
    ):
        assert "cannot run AUTH …" in message
        assert "ret" not in message


@pytest.mark.parametrize("secrets", [[], ["p"], ["script"]])
def test_the_command_of_a_script_is_named(secrets: list[str]) -> None:
    text = "user_script: command of a script HSET: ERR The user can't run this command"
    message = refusal("EVALSHA", ResponseError(text), secrets)
    assert message.startswith("Redis refuses HSET (")
    assert "grant the account" in message


@pytest.mark.parametrize(
    ("error", "sentence"),
    [
        (
            TimeoutError("Timeout connecting to server"),
            "TimeoutError: Timeout connecting to server: check the host and port in fleet.url",
        ),
        (ConnectionError("Error -2 connecting to redis:6379. Name or service"), "in fleet.url"),
        (MasterNotFoundError("No master found for 'x'"), "the sentinels in fleet.url know"),
        (
            MasterNotFoundError("No master found for 'x' : <Redis(a=b)> - AuthenticationError"),
            (
                "No master found for 'x': the sentinels require a password: set or correct"
                " fleet.sentinel_password_file"
            ),
        ),
        (
            RedisClusterException("Redis Cluster cannot be connected: Cluster mode is not enabled"),
            "must begin with redis:// or rediss://",
        ),
        (
            RedisClusterException("HELLO must be called with the client already authenticated"),
            "set fleet.password_file",
        ),
        (ConnectionError("Connection reset by peer"), "ConnectionError: Connection reset by peer"),
    ],
)
def test_an_error_of_the_connection_names_the_setting(error: Exception, sentence: str) -> None:
    assert sentence in unreachable(error)


def test_an_error_without_an_answer_of_redis_is_none() -> None:
    assert refusal("XREAD", ConnectionError("Connection reset by peer")) == ""
    assert refusal("XREAD", OSError("no")) == ""


def test_what_others_put_into_an_error_is_cut() -> None:
    text = refusal("GET", ResponseError("\x1b[31m" + "x" * 10_000))
    assert len(text) < 300
    assert text.isprintable()


def test_it_is_logged_once_and_shown_until_it_is_over(caplog: pytest.LogCaptureFixture) -> None:
    clock = ManualClock()
    refusals = Refusals(clock)
    for _ in range(3):
        refusals.add("XREAD", "Redis refuses XREAD")
        refusals.add("another", "Redis refuses XREAD")
    assert refusals.sentences == ["Redis refuses XREAD"]
    assert len(caplog.records) == 1
    refusals.discard("another")
    assert refusals.sentences == ["Redis refuses XREAD"]
    clock.now += REMEMBERED_SECONDS + 1
    assert refusals.sentences == []
