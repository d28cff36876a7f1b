"""The module of the client for Go, and how its tests run."""

import os
import subprocess
import sysconfig
from pathlib import Path
from typing import Final

from tests.support import go_toolchain
from tests.support.go_toolchain import BUILD_SECONDS

MODULE: Final = Path(__file__).parents[3] / "client" / "go"


def go_test(*arguments: str) -> "subprocess.CompletedProcess[str]":
    """Run `go test` with the server of this checkout, and return what it printed."""
    program = Path(sysconfig.get_path("scripts")) / "queuegate-server"
    foreign = {name: value for name, value in os.environ.items() if name[:10] != "QUEUEGATE_"}
    return subprocess.run(
        [go_toolchain.go(), "test", "-count=1", "-v", *arguments],
        cwd=MODULE,
        env={**foreign, **go_toolchain.environment(), "TEST_QUEUEGATE_SERVER": str(program)},
        capture_output=True,
        text=True,
        check=False,
        timeout=BUILD_SECONDS,
    )
