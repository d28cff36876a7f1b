"""The log when stderr accepts no more lines: lines are complete, or counted as lost."""

import logging
import os
import sys

import pytest

from queuegate_server.observe.logs import StderrHandler


def line(text: str) -> logging.LogRecord:
    return logging.makeLogRecord({"msg": text})


@pytest.mark.parametrize("length", [10, 1_000, 30_000])
def test_lines_that_a_full_pipe_rejects_are_counted(
    monkeypatch: pytest.MonkeyPatch, length: int
) -> None:
    pipe, end = os.pipe()
    with os.fdopen(end, "w") as stream:
        monkeypatch.setattr(sys, "stderr", stream)
        log = StderrHandler()
        monkeypatch.undo()
        fill(log, pipe, length)
    os.close(pipe)


def fill(log: StderrHandler, pipe: int, length: int) -> None:
    log.setFormatter(logging.Formatter("%(message)s%(lost)s", defaults={"lost": ""}))
    number = 300_000 // length
    for _ in range(number):
        log.handle(line("x" * length))
    written = os.read(pipe, 1 << 20)
    for _ in range(2):
        log.handle(line("after"))
    written += os.read(pipe, 1 << 20)
    *before, loss, first, second, rest = written.decode().split("\n")
    assert (first, second, rest) == ("after", "after", "")
    whole = [text for text in before if text == "x" * length]
    assert loss.startswith("log lines were lost")
    assert len(whole) + int(loss.rpartition("blocked")[2]) == number
    # At most one line is torn, and nothing follows it in its line.
    assert set("".join(before)) == {"x"}
    assert len(before) - len(whole) <= 1


def test_stderr_without_a_descriptor(capsys: pytest.CaptureFixture[str]) -> None:
    log = StderrHandler()
    log.handle(line("one"))
    assert capsys.readouterr().err == "one\n"
