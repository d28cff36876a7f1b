"""Logs on a terminal: brief lines that fit it."""

import contextlib
import fcntl
import io
import json
import logging
import os
import re
import struct
import termios
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from queuegate_server.observe import logs
from tests.support.terminals import requires_terminal
from tests.unit.observe.test_logs import HOSTILE, log_everywhere, restored_logging

pytestmark = requires_terminal
COLOUR = re.compile(r"\x1b\[[0-9;]*m")
BEGINNING = re.compile(r"[0-9]{2}:[0-9]{2}:[0-9]{2}Z \[(info     |warning  |error    )\] ")


def shown(do: Callable[[logging.Logger], None], columns: int, form: str = "auto") -> list[str]:
    """Return the lines that a terminal of this width shows, without colours."""
    reading, writing = os.openpty()
    with os.fdopen(reading, "rb", 0) as terminal, ThreadPoolExecutor() as reader:
        fcntl.ioctl(writing, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
        attributes = termios.tcgetattr(writing)
        attributes[1] &= ~termios.OPOST
        termios.tcsetattr(writing, termios.TCSANOW, attributes)
        with (
            os.fdopen(writing, "w") as stream,
            contextlib.redirect_stderr(stream),
            restored_logging(),
        ):
            logs.configure("info", form)
            text = reader.submit(_all_of, terminal)
            do(logging.getLogger("queuegate_server.test"))
        return COLOUR.sub("", text.result()).splitlines()


def _all_of(terminal: io.FileIO) -> str:
    """Read until the other end is closed, which is an error for a terminal."""
    read = b""
    with contextlib.suppress(OSError):
        while data := terminal.read(65_536):
            read += data
    return read.decode()


def policy_diagnostics(logger: logging.Logger) -> None:
    diagnostic = "queues.yaml:143:5: error: unknown key (remove it; known keys are " + "name, " * 20
    logger.info("policy is served", extra={"source": "queues.yaml", "queues": 13, "revision": 1})
    logger.error("policy diagnostic", extra={"diagnostic": diagnostic})
    logger.info("listening", extra={"address": "127.0.0.1:50051"})


@pytest.mark.parametrize("columns", [60, 100, 0], ids=["60", "100", "unknown"])
def test_lines_fit_the_terminal(columns: int) -> None:
    lines = shown(policy_diagnostics, columns)
    assert max(map(len, lines)) <= (columns or 100)
    assert lines[0][10:].startswith("[info     ] policy is served queues=13 revision=1")
    beginnings = [line for line in lines if BEGINNING.match(line)]
    assert len(beginnings) == 3
    assert all(line.startswith("    ") for line in lines if line not in beginnings)
    # Nothing is lost.
    assert " ".join(line.strip() for line in lines).count("name,") == 20


def test_a_wide_terminal_has_one_line_for_each_record() -> None:
    assert len(shown(policy_diagnostics, 400)) == 3


@pytest.mark.parametrize("text", HOSTILE)
def test_no_text_forges_a_line(text: str) -> None:
    lines = shown(lambda _: log_everywhere(text), 60)
    others = [line for line in lines if not BEGINNING.match(line)]
    assert len(lines) - len(others) == 3
    assert all(line.startswith("    ") for line in others)


def test_json_is_the_same_on_a_terminal() -> None:
    lines = shown(policy_diagnostics, 60, "json")
    assert [json.loads(line)["logger"] for line in lines] == ["queuegate_server.test"] * 3
