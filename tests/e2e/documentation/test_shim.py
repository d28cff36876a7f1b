"""The shim of the examples, run as a shim's author would."""

import os
import re
import subprocess
import sys
from pathlib import Path

import grpc
import pytest
from google.protobuf.duration_pb2 import Duration
from google.rpc import error_details_pb2

from tests.support.documents import fenced_blocks
from tests.support.eventually import eventually
from tests.support.fakes.scripted_server import Fault, ScriptedServer
from tests.support.servers.free_ports import free_port
from tests.support.servers.queuegate_server import running_server

EXAMPLES = Path(__file__).parents[3] / "examples"
SHIM = EXAMPLES / "shim.py"
PAGES = ("docs/how-to/decide-in-the-shim.md", "docs/tutorials/shim-python.md")
PROGRAMS = {
    block.file: block.text
    for page in PAGES
    for block in fenced_blocks(Path(page).read_text())
    if block.language == "python" and block.file != "admit.py"  # which reads pods
}
"""The programs of the pages about shims."""


def answer(shim: "subprocess.Popen[str]", line: str) -> str:
    """Give a shim a line, and return the one that it prints."""
    assert shim.stdin
    assert shim.stdout
    shim.stdin.write(line + "\n")
    shim.stdin.flush()
    return shim.stdout.readline().rstrip()


def test_shim() -> None:
    soon = error_details_pb2.RetryInfo(retry_delay=Duration(seconds=5))
    down = Fault(
        grpc.StatusCode.UNAVAILABLE,
        "directory down",
        "RESOLVER_UNAVAILABLE",
        [soon],
        [("grpc-retry-pushback-ms", "-1")],
    )
    with (
        ScriptedServer() as server,
        subprocess.Popen(
            [sys.executable, str(SHIM)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "QUEUEGATE_ADDRESS": server.address},
        ) as shim,
    ):
        assert shim.stdin
        assert shim.stdout

        def say(line: str) -> str:
            return answer(shim, line)

        assert say("alice root.a") == "admit: by user, policy revision 7"
        assert say("denied root.a") == "reject: denied may not submit to root.a (no_match)"
        assert say("alice") == "reject: queue must not be empty"
        server.script.fail("CheckQueueAccess", down)
        assert say("alice root.a") == "wait 5 s: directory down"
        assert say("alice root.a").startswith("admit")
        shim.stdin.close()
        assert shim.wait(60) == 0


@pytest.mark.parametrize("example", ["shim.py", "gate_shim.py"])
def test_a_shim_without_a_role_rejects_nothing(example: str, policy: Path) -> None:
    nobody = ("--policy", str(policy), "--set", "callers={loopback: {roles: []}}")
    with (
        running_server(*nobody) as server,
        subprocess.Popen(
            [sys.executable, str(EXAMPLES / example)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "QUEUEGATE_ADDRESS": server.address},
        ) as shim,
    ):
        assert answer(shim, "alice root").startswith("wait: this call needs the check role")
        assert shim.stdin
        shim.stdin.close()
        assert shim.wait(60) == 0


def test_a_shim_goes_on_while_its_server_restarts(policy: Path) -> None:
    address = f"127.0.0.1:{free_port()}"
    arguments = ("--policy", str(policy))
    with subprocess.Popen(
        [sys.executable, str(EXAMPLES / "gate_shim.py")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "QUEUEGATE_ADDRESS": address},
    ) as shim:

        def say(line: str) -> str:
            return answer(shim, line)

        for _ in range(2):
            with running_server(*arguments, listen=[address]):
                eventually(lambda: say("alice root"), "admit: user, decided by the gate")
            for _ in range(50):
                assert say("alice root") == "admit: user, decided by the gate"
        assert shim.stdin
        shim.stdin.close()
        assert shim.wait(60) == 0


def test_programs_of_the_pages() -> None:
    assert PROGRAMS.keys() == {"shim.py", "audited.py", "ask.py", "backlog.py"}


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_program_of_a_page_says_in_a_line_that_nobody_answers(
    program: str, tmp_path: Path
) -> None:
    """It asks at QUEUEGATE_ADDRESS, and has no traceback."""
    address = f"127.0.0.1:{free_port()}"
    (tmp_path / program).write_text(PROGRAMS[program])
    done = subprocess.run(
        [sys.executable, program],
        cwd=tmp_path,
        env={**os.environ, "QUEUEGATE_ADDRESS": address},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 1
    assert done.stdout == ""
    [line] = [line for line in done.stderr.splitlines() if "stream has ended" not in line]
    assert re.match(rf"no decisions?: no server at {address} ", line)
