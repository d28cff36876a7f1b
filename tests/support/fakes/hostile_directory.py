"""A directory that sends arbitrary bytes chosen by a test, from its own threads."""

import contextlib
import socket
import threading
from collections.abc import Callable, Iterable, Iterator

BIND, SEARCH, ABANDON, EXTENDED = 0x60, 0x63, 0x50, 0x77
BIND_RESPONSE, ENTRY, DONE, REFERENCE, EXTENDED_RESPONSE = 0x61, 0x64, 0x65, 0x73, 0x78

Reply = Callable[[int, int, bytes], Iterable[bytes]]
"""Takes the ID, the operation and the bytes of a request, and returns the pieces to send."""


def element(tag: int, *parts: bytes) -> bytes:
    """Return a BER element with a length in definite form."""
    content = b"".join(parts)
    size = len(content)
    length = bytes([size]) if size < 128 else b"\x84" + size.to_bytes(4, "big")
    return bytes([tag]) + length + content


def message(number: int, operation: int, *parts: bytes, controls: bytes = b"") -> bytes:
    return element(
        0x30, element(2, number.to_bytes(4, "big")), element(operation, *parts), controls
    )


def result(
    number: int, operation: int = DONE, code: int = 0, text: bytes = b"", controls: bytes = b""
) -> bytes:
    parts = element(0x0A, bytes([code])), element(4), element(4, text)
    return message(number, operation, *parts, controls=controls)


def entry(number: int, dn: bytes, attributes: Iterable[tuple[bytes, Iterable[bytes]]]) -> bytes:
    shown = (
        element(0x30, element(4, name), element(0x31, *(element(4, value) for value in values)))
        for name, values in attributes
    )
    return message(number, ENTRY, element(4, dn), element(0x30, *shown))


def page(cookie: bytes) -> bytes:
    """Return the control for a page of results (RFC 2696)."""
    value = element(0x30, element(2, b"\0"), element(4, cookie))
    return element(0xA0, element(0x30, element(4, b"1.2.840.113556.1.4.319"), element(4, value)))


class HostileDirectory:
    def __init__(self, reply: Reply) -> None:
        self.reply = reply
        self.searches = 0
        self.connections = 0
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._open: list[socket.socket] = []
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def url(self) -> str:
        return f"ldap://127.0.0.1:{self._listener.getsockname()[1]}"

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                accepted, _ = self._listener.accept()
                self.connections += 1
                self._open.append(accepted)
                threading.Thread(target=self._serve, args=(accepted,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        with contextlib.suppress(OSError), connection, connection.makefile("rb") as stream:
            while (request := _read_request(stream.read)) is not None:
                number, operation = request[0], request[1]
                self.searches += operation == SEARCH
                for piece in self.reply(number, operation, request[2]):
                    connection.sendall(piece)

    def close(self) -> None:
        for each in (self._listener, *self._open):
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()


def _read_request(read: Callable[[int], bytes]) -> tuple[int, int, bytes] | None:
    head = read(2)
    if len(head) < 2:
        return None
    size = head[1]
    if size >= 128:
        size = int.from_bytes(read(size - 128), "big")
    content = read(size)
    length = content[1]
    return int.from_bytes(content[2 : 2 + length], "big"), content[2 + length], content


@contextlib.contextmanager
def hostile_directory(reply: Reply) -> Iterator[HostileDirectory]:
    directory = HostileDirectory(reply)
    try:
        yield directory
    finally:
        directory.close()


def binding(reply: Callable[[int, bytes], Iterable[bytes]]) -> Reply:
    """Return a reply function that accepts every bind, and uses another for searches."""

    def answer(number: int, operation: int, request: bytes) -> Iterable[bytes]:
        if operation == BIND:
            return [result(number, BIND_RESPONSE)]
        return reply(number, request) if operation == SEARCH else []

    return answer
