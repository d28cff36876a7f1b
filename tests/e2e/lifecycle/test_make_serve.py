"""`make serve`, the first command of the README, as a newcomer sees it."""

import os
import signal
import socket
import subprocess
from contextlib import closing
from pathlib import Path

from tests.support.servers.free_ports import free_port

CHECKOUT = Path(__file__).parents[3]
# The environment of the tests has all that `make serve` would install.
MAKE_SERVE = ["make", "--silent", "--old-file=.venv/.installed-for-serve", "serve"]


def test_the_first_lines_say_what_is_served_where_and_how_to_ask() -> None:
    address = f"127.0.0.1:{free_port()}"
    with subprocess.Popen(
        [*MAKE_SERVE, f"LISTEN={address}"],
        cwd=CHECKOUT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    ) as process:
        assert process.stdout is not None
        serving, ask = process.stdout.readline(), process.stdout.readline()
        os.killpg(process.pid, signal.SIGTERM)
        process.stdout.read()
    assert serving == f"serving examples/queues.yaml on {address}\n"
    assert ask.startswith(f"ask it: .venv/bin/queuegate --address {address} check ")


def test_a_port_in_use_names_the_variable_that_chooses_another() -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        done = subprocess.run(
            [*MAKE_SERVE, f"LISTEN={address}"],
            cwd=CHECKOUT,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
    assert done.returncode == 2
    assert f"Another process listens on {address}." in done.stderr
    assert "make serve LISTEN=127.0.0.1:50052" in done.stderr
