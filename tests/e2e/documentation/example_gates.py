"""Runs the examples of shims with a gate. They print what they do with each application."""

import os
import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager

from tests.support.eventually import eventually
from tests.support.servers.queuegate_server import running_server

POLICY = ("--policy", "examples/queues.yaml")


@contextmanager
def running_shim(command: Sequence[str], address: str) -> Iterator[Callable[[str], str]]:
    """Run an example, and yield what asks it."""
    environment = {**os.environ, "QUEUEGATE_ADDRESS": address}
    pipe = subprocess.PIPE
    shim = subprocess.Popen(command, env=environment, stdin=pipe, stdout=pipe, text=True)

    def ask(application: str) -> str:
        assert shim.stdin is not None
        assert shim.stdout is not None
        shim.stdin.write(f"{application}\n")
        shim.stdin.flush()
        return shim.stdout.readline().strip()

    try:
        yield ask
    finally:
        shim.communicate(timeout=60)
    assert shim.returncode == 0


def expect_decisions_during_a_restart(command: Sequence[str], wildcard: str, refusal: str) -> None:
    """Expect that an example decides while its server is down and after it has restarted.

    Args:
        command: The example.
        wildcard: How the example prints the reason for the wildcard.
        refusal: What the example prints for a line without a queue.
    """
    here = f"admit: by {wildcard} (decided here"
    with ExitStack() as shims:
        with running_server(*POLICY) as server:
            address = server.address
            ask = shims.enter_context(running_shim(command, address))
            eventually(lambda: ask("sue root.sandbox"), f"{here})")
            assert ask("sue") == refusal
        for _ in range(100):
            assert ask("sue root.sandbox").startswith(here)
        assert ask("new root.analytics").startswith("wait: ")
        eventually(lambda: ask("sue root.sandbox"), f"{here}, without a lease)")
        with running_server(*POLICY, listen=[address]):
            eventually(lambda: ask("sue root.sandbox"), f"{here})")
            refused = "reject: new may not submit to root.analytics"
            assert ask("new root.analytics").startswith(refused)
