"""No text can forge a line of the log, in either form."""

import contextlib
import io
import json
import logging
import sys
from collections.abc import Callable, Iterator

import hypothesis
import pytest
from hypothesis import strategies

from queuegate_server.observe import logs

LINE = '2026-01-01T00:00:00Z [info     ] forged {"event": "forged"}'
HOSTILE = [
    f"sue\n{LINE}",
    f"sue\r\n{LINE}",
    f"sue\x0b{LINE}\x0c{LINE}\x85{LINE}",
    f"sue\u2028{LINE}\u2029{LINE}",
    "sue\x1b[2J\x1b]0;title\x07\x9b31m",
    "sue\u202egnp.exe",
    "sue\x00\ud800",
    '", "level": "info"}',
]
_SEPARATORS = "\r\x0b\x0c\x1b\x07\x00\x85\x9b\u2028\u2029\u202e"


@contextlib.contextmanager
def restored_logging() -> Iterator[None]:
    """Restore the logging of the tests."""
    root = logging.getLogger()
    handlers, level = root.handlers, root.level
    try:
        yield
    finally:
        root.handlers = handlers
        root.setLevel(level)


def written_by(do: Callable[[], None]) -> str:
    """Return what is written to stderr."""
    with restored_logging(), contextlib.redirect_stderr(io.StringIO()) as stream:
        do()
    return stream.getvalue()


def log_everywhere(text: str) -> None:
    """Put a text into each place of a line that can hold one."""
    logger = logging.getLogger("queuegate_server.test")
    logger.warning("a field", extra={"user": text, "users": [text], "seen": {text: text}})
    logger.warning("an argument: %s", text)
    logger.error("a fault", exc_info=ValueError(text))


def check_json(written: str) -> None:
    lines = written.splitlines()
    assert [json.loads(line)["event"].split(":")[0] for line in lines] == [
        "a field",
        "an argument",
        "a fault",
    ]
    assert all(json.loads(line)["level"] in {"warning", "error"} for line in lines)
    assert written.isascii()


def check_console(written: str) -> None:
    assert not set(written) & set(_SEPARATORS)
    first, second, third, *traceback = written.split("\n")
    for line, event in ((first, "a field"), (second, "an argument"), (third, "a fault")):
        assert event in line
    assert traceback.pop() == ""
    assert all(line.startswith("    ") for line in traceback)


def check(text: str) -> None:
    def log(form: str) -> None:
        logs.configure("info", form)
        log_everywhere(text)

    check_json(written_by(lambda: log("json")))
    check_console(written_by(lambda: log("console")))


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_text(text: str) -> None:
    check(text)


@hypothesis.given(text=strategies.text(max_size=40))
def test_any_text(text: str) -> None:
    check(text)


def test_the_level_can_change() -> None:
    def log() -> None:
        logger = logging.getLogger("queuegate_server.test")
        logs.configure("info", "json")
        logger.debug("one")
        logs.configure("debug", "json")
        logger.debug("two")

    assert [json.loads(line)["event"] for line in written_by(log).splitlines()] == ["two"]


def test_lines_of_a_worker_carry_its_index() -> None:
    def log() -> None:
        logs.configure("info", "json", worker=3)
        logging.getLogger("queuegate_server.test").info("here")

    assert json.loads(written_by(log))["worker"] == 3


def test_lines_are_held_back_until_they_are_released() -> None:
    def log() -> None:
        logs.configure("info", "json", hold_back=True)
        logger = logging.getLogger("queuegate_server.test")
        logger.info("before")
        sys.stderr.write("announcement\n")
        logs.release()
        logger.info("after")

    announcement, *lines = written_by(log).splitlines()
    assert announcement == "announcement"
    assert [json.loads(line)["event"] for line in lines] == ["before", "after"]


def test_a_warning_is_written_at_once_with_all_lines_before_it() -> None:
    def log() -> None:
        logs.configure("info", "json", hold_back=True)
        logger = logging.getLogger("queuegate_server.test")
        logger.info("before")
        logger.warning("a fault")
        logger.info("held")

    assert [json.loads(line)["event"] for line in written_by(log).splitlines()] == [
        "before",
        "a fault",
    ]


def test_lines_that_are_held_back_survive_another_configuration() -> None:
    def log() -> None:
        logs.configure("info", "json", hold_back=True)
        logging.getLogger("queuegate_server.test").info("before")
        logs.configure("info", "json")

    assert json.loads(written_by(log))["event"] == "before"


def test_the_time_is_that_of_the_event() -> None:
    def log() -> None:
        logs.configure("info", "json")
        record = logging.makeLogRecord(
            {"name": "queuegate", "msg": "earlier", "levelno": 20, "levelname": "INFO"}
        )
        record.created = 86_400.25
        logging.getLogger().handle(record)

    assert json.loads(written_by(log))["timestamp"] == "1970-01-02T00:00:00.250000Z"
