"""What pages need around them before their first block."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Final

import pytest

from tests.e2e.documentation.reader import CHECKOUT, Reader
from tests.support import go_toolchain
from tests.support.servers.queuegate_server import ADMIN, running_server

CERTIFICATES: Final = CHECKOUT / "tests" / "contract" / "tls"

Environment = Callable[[Reader], AbstractContextManager[None]]


@contextmanager
def served(reader: Reader, *options: str) -> Iterator[None]:
    """examples/queues.yaml on 127.0.0.1:50051, as `make serve` has it, with further options."""
    policy = ("--policy", str(reader.folder / "examples/queues.yaml"))
    with running_server(*policy, *options, listen=(f"127.0.0.1:{reader.port(50051)}",)):
        yield


@contextmanager
def administered(reader: Reader) -> Iterator[None]:
    """Like `served`; callers on this machine also have the `admin` role."""
    policy = ("--policy", str(reader.folder / "examples/queues.yaml"))
    with running_server(*policy, *ADMIN, listen=(f"127.0.0.1:{reader.port(50051)}",)):
        yield


@contextmanager
def python_api(reader: Reader) -> Iterator[None]:
    """A client of a server with all roles, as `client`."""
    reader.prelude = (
        ">>> import queuegate\n>>> from queuegate import aio, user_info\n"
        ">>> client = queuegate.Client(timeout=60)\n"
    )
    with administered(reader):
        yield


@contextmanager
def go(reader: Reader) -> Iterator[None]:
    """Go, and the checkout as /src/queuegate."""
    try:
        reader.variables |= go_toolchain.environment() | {"PATH": reader.variables["PATH"]}
        reader.variables["PATH"] += f":{go_toolchain.go().parent}"
        go_toolchain.run("mod", "download", folder=CHECKOUT / "client" / "go")
    except go_toolchain.GoError as error:
        pytest.skip(str(error))
    reader.replaced["/src/queuegate"] = str(CHECKOUT)
    yield
