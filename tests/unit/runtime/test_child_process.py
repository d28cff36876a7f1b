"""Child processes: what comes back, and that every limit ends them without a trace."""

import asyncio
import contextlib
import os
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from queuegate_server.runtime.child_process import ChildResult, OutputTooLong, ProcessLimits, run
from tests.support.fakes.loop import wait_until

pytestmark = pytest.mark.usefixtures("no_task_left")

LIMITS = ProcessLimits(seconds=60, output_bytes=1 << 22)


async def python(
    program: str, *arguments: str, limits: ProcessLimits = LIMITS, text: bytes = b""
) -> ChildResult:
    return await run([sys.executable, "-S", "-c", program, *arguments], limits, text=[text])


def children() -> set[str]:
    """Return the children of this process, those included that nobody has waited for."""
    found = set()
    for task in Path("/proc/self/task").iterdir():
        with contextlib.suppress(OSError):  # A thread may end meanwhile.
            found |= set((task / "children").read_text().split())
    return found


def descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


async def test_input_output_and_status_come_through() -> None:
    text = bytes(range(256)) * 4_096
    echo = "import sys; sys.stdout.buffer.write(sys.stdin.buffer.read()); sys.exit(3)"
    found = await python(echo, text=text)
    assert (found.status, bytes(found.output)) == (3, text)


async def test_a_child_that_does_not_read_its_input_is_no_fault() -> None:
    assert await python("pass", text=bytes(1 << 20)) == ChildResult(0, bytearray())


async def test_a_signal_is_a_negative_status() -> None:
    found = await python("import os; os.kill(os.getpid(), 9)")
    assert found.status == -signal.SIGKILL


async def test_a_program_that_is_absent_is_an_os_error() -> None:
    with pytest.raises(FileNotFoundError):
        await run(["/nowhere/program"], LIMITS)


async def test_time_is_limited() -> None:
    before = children()
    begin = time.monotonic()
    with pytest.raises(TimeoutError):
        await python("import time; time.sleep(600)", limits=ProcessLimits(0.2, 1))
    assert time.monotonic() - begin < 300
    await wait_until(lambda: children() == before)


async def test_a_cancelled_caller_leaves_no_child_and_no_descriptor(tmp_path: Path) -> None:
    before = children(), descriptors()
    begun = tmp_path / "begun"
    program = "import sys, time; open(sys.argv[1], 'w').close(); time.sleep(600)"
    tasks = [asyncio.create_task(python(program, str(begun))) for _ in range(3)]
    await wait_until(begun.exists)
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)
    await wait_until(lambda: (children(), descriptors()) == before)


async def test_output_is_limited() -> None:
    before = children()
    endless = "import sys\nwhile True: sys.stdout.buffer.write(bytes(65536))"
    with pytest.raises(OutputTooLong, match="more than 100000 bytes"):
        await python(endless, limits=ProcessLimits(60, 100_000))
    await wait_until(lambda: children() == before)


async def test_memory_is_limited() -> None:
    program = "import sys; sys.stdin.read()\ntry: bytes(1 << 30)\nexcept MemoryError: sys.exit(7)"
    found = await python(program, limits=ProcessLimits(60, 1, memory_bytes=1 << 28))
    assert found.status == 7


async def test_processor_time_is_limited_even_if_nobody_watches() -> None:
    program = "import resource, sys; sys.stdin.read(); print(*resource.getrlimit(0))"
    assert resource.RLIMIT_CPU == 0
    found = await python(program, limits=ProcessLimits(59.5, 100))
    assert found.output == b"61 62\n"


async def test_a_child_is_niced() -> None:
    program = "import os, sys; sys.stdin.read(); print(os.nice(0))"
    found = await python(program, limits=ProcessLimits(60, 100, niceness=5))
    assert int(found.output) == min(os.nice(0) + 5, 19)


async def test_descriptors_are_inherited_and_others_are_not() -> None:
    reading, writing = os.pipe()
    other = os.dup(writing)
    try:
        os.set_inheritable(other, True)
        program = "import os, sys; print(*os.listdir('/proc/self/fd')); os.write(%d, b'here')"
        found = await run(
            [sys.executable, "-S", "-c", program % writing], LIMITS, pass_fds=[writing]
        )
        assert os.read(reading, 10) == b"here"
        listed = set(found.output.decode().split())
        assert str(writing) in listed
        assert str(other) not in listed
    finally:
        for descriptor in (reading, writing, other):
            os.close(descriptor)


async def test_the_environment_is_the_one_given() -> None:
    program = "import os; print(os.environ.get('HOME'), os.environ['ONLY'])"
    found = await run([sys.executable, "-S", "-c", program], LIMITS, environment={"ONLY": "this"})
    assert found.output == b"None this\n"


def test_children_beside_calls_run_no_fork_handlers() -> None:
    """gRPC reports every fork that its handlers see; a child once stopped in them for ever."""
    program = [sys.executable, "-m", "tests.support.servers.children_beside_calls", "300"]
    done = subprocess.run(program, capture_output=True, text=True, check=True, timeout=300)
    ended, answered = map(int, done.stdout.split())
    assert ended == 300
    assert answered > 0
    assert "fork" not in done.stderr
