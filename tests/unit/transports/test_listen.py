"""Binding addresses, and the messages if one cannot be bound."""

import socket
import stat
from pathlib import Path
from urllib.parse import unquote

import pytest

from queuegate_server.runtime.tcp import CannotListen
from queuegate_server.settings.listeners import ListenAddress, parse_address
from queuegate_server.transports.sockets import bind


class RefusesAll:
    """Stands for a gRPC server that cannot bind: gRPC does not say why."""

    def add_insecure_port(self, address: str) -> int:
        raise RuntimeError(address)


class BindsSocket:
    """Binds a Unix socket as gRPC does, by the umask of the process."""

    def __init__(self) -> None:
        self.opened: list[socket.socket] = []

    def add_insecure_port(self, address: str) -> int:
        opened = socket.socket(socket.AF_UNIX)
        opened.bind(unquote(address.removeprefix("unix:")))
        self.opened.append(opened)
        return 1


@pytest.mark.parametrize(
    ("address", "port", "text"),
    [
        (ListenAddress("", host="127.0.0.1"), 7, "127.0.0.1:7"),
        (ListenAddress("", host="::1"), 7, "[::1]:7"),
        (ListenAddress("", path="/run/x"), 0, "unix:/run/x"),
    ],
)
def test_address_in_use_as_text(address: ListenAddress, port: int, text: str) -> None:
    assert address.at_port(port) == text


def test_a_taken_port_is_reported_as_taken() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        address = parse_address(f"127.0.0.1:{taken.getsockname()[1]}")
        with pytest.raises(CannotListen, match="already in use"):
            bind(RefusesAll().add_insecure_port, address, 0o660)


def test_a_unix_socket_gets_its_mode(tmp_path: Path) -> None:
    path = tmp_path / "q %41ä.sock"
    server = BindsSocket()
    assert bind(server.add_insecure_port, parse_address(f"unix:{path}"), 0o620) == f"unix:{path}"
    assert stat.S_IMODE(path.stat().st_mode) == 0o620
    server.opened[0].close()


def test_sockets_that_are_not_ours_to_replace(tmp_path: Path) -> None:
    in_use = tmp_path / "used.sock"
    plain = tmp_path / "plain"
    plain.write_text("kept")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(in_use))
        listener.listen()
        for path, why in [
            (in_use, "another server"),
            (plain, "not a socket"),
            (tmp_path / "no" / "x.sock", "does not exist"),
        ]:
            with pytest.raises(CannotListen, match=why):
                bind(BindsSocket().add_insecure_port, parse_address(f"unix:{path}"), 0o660)
    assert plain.read_text() == "kept"
