"""The module of the Go client, and how its tests run."""

import json
import os
import subprocess
import sysconfig
from collections import defaultdict
from pathlib import Path
from typing import Final

import pytest

from tests.support import go_toolchain
from tests.support.go_toolchain import BUILD_SECONDS

MODULE: Final = Path(__file__).parents[3] / "client" / "go"


def go_test(*arguments: str) -> set[str]:
    """Run `go test` with the server of this checkout, and return the names of the passed tests.

    A test that fails or is skipped fails the caller, with the output of such tests only.
    """
    program = Path(sysconfig.get_path("scripts")) / "queuegate-server"
    foreign = {name: value for name, value in os.environ.items() if name[:10] != "QUEUEGATE_"}
    done = subprocess.run(
        [go_toolchain.go(), "test", "-count=1", "-json", *arguments],
        cwd=MODULE,
        env={**foreign, **go_toolchain.environment(), "TEST_QUEUEGATE_SERVER": str(program)},
        capture_output=True,
        text=True,
        check=False,
        timeout=BUILD_SECONDS,
    )
    outputs: defaultdict[tuple[str, str], str] = defaultdict(str)
    results: dict[tuple[str, str], str] = {}
    for line in done.stdout.splitlines():
        event: dict[str, str] = json.loads(line)
        test = (event.get("Package", ""), event.get("Test", ""))
        outputs[test] += event.get("Output", "")
        if event["Action"] in {"pass", "fail", "skip"}:
            results[test] = event["Action"]
    # A package without tests is skipped.
    passed = {
        test
        for test in outputs
        if results.get(test) == "pass" or (results.get(test) == "skip" and not test[1])
    }
    if done.returncode or passed != {*outputs}:
        pytest.fail("".join(outputs[test] for test in outputs if test not in passed) + done.stderr)
    return {name for _, name in passed}
