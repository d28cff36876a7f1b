"""A process whose event loop is stuck ends on its own; one that was stopped resumes."""

import signal
import subprocess
import sys
import time

import pytest

PROGRAM = """
import asyncio, ctypes, time, uvloop
from queuegate_server.runtime.event_loop import LoopWatchdog

async def main():
    with LoopWatchdog({stall}, {hang}):
        await asyncio.sleep({stall} * 2)
        print("runs", flush=True)
        {then}
        print("still runs", flush=True)

{run}(main())
"""


def start(then: str, stall: float, hang: float, run: str = "uvloop.run") -> subprocess.Popen[str]:
    program = PROGRAM.format(then=then, stall=stall, hang=hang, run=run)
    return subprocess.Popen(
        [sys.executable, "-c", program],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.mark.parametrize("run", ["uvloop.run", "asyncio.run"])
def test_a_loop_that_stands_still_ends_the_process(run: str) -> None:
    process = start("time.sleep(600)", 1.0, 600, run)
    output, errors = process.communicate(timeout=60)
    assert process.returncode == -signal.SIGABRT
    assert output == "runs\n"
    assert "The event loop has not run for a long time" in errors
    assert 'File "<string>", line 9 in main' in errors


def test_a_loop_that_holds_the_interpreter_lock_ends_the_process() -> None:
    process = start("ctypes.PyDLL(None).sleep(600)", 3.0, 5.0)
    output, errors = process.communicate(timeout=120)
    assert process.returncode == 1
    assert output == "runs\n"
    assert 'File "<string>", line 9 in main' in errors


def test_a_full_pipe_does_not_prevent_the_end() -> None:
    full = "import os; os.set_blocking(2, False)\n"
    full += "        try:\n            while True: os.write(2, bytes(4096))\n"
    full += "        except BlockingIOError: os.set_blocking(2, True)\n        time.sleep(600)"
    process = start(full, 1.0, 600)
    assert process.wait(60) == -signal.SIGABRT
    process.communicate()


def test_a_process_that_was_stopped_goes_on() -> None:
    process = start("await asyncio.sleep(2)", 0.5, 600)
    assert process.stdout is not None
    assert process.stdout.readline() == "runs\n"
    process.send_signal(signal.SIGSTOP)
    time.sleep(1.5)
    process.send_signal(signal.SIGCONT)
    output, errors = process.communicate(timeout=60)
    assert (process.returncode, output, errors) == (0, "still runs\n", "")
