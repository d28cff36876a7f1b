"""The shim of the examples, run as a shim's author would."""

import os
import subprocess
import sys
from pathlib import Path

import grpc
from google.protobuf.duration_pb2 import Duration
from google.rpc import error_details_pb2

from tests.support.fakes.scripted_server import Fault, ScriptedServer

SHIM = Path(__file__).parents[3] / "examples" / "shim.py"


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
            assert shim.stdin
            assert shim.stdout
            shim.stdin.write(line + "\n")
            shim.stdin.flush()
            return shim.stdout.readline().rstrip()

        assert say("alice root.a") == "admit: by user, policy revision 7"
        assert say("denied root.a") == "reject: denied may not submit to root.a (no_match)"
        assert say("alice") == "reject: queue must not be empty"
        server.script.fail("CheckQueueAccess", down)
        assert say("alice root.a") == "wait 5 s: directory down"
        assert say("alice root.a").startswith("admit")
        shim.stdin.close()
        assert shim.wait(60) == 0
