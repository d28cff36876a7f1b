"""Parsing of addresses: accepted texts, and messages for the others."""

import pytest

from queuegate_server.settings.listeners import (
    MalformedAddress,
    parse_address,
    parse_host_port,
)


@pytest.mark.parametrize(
    ("text", "expected", "local"),
    [
        ("127.0.0.1:50051", ("127.0.0.1", 50051, ""), True),
        ("127.9.9.9:1", ("127.9.9.9", 1, ""), True),
        ("localhost:0", ("localhost", 0, ""), True),
        ("[::1]:50051", ("::1", 50051, ""), True),
        ("0.0.0.0:50051", ("0.0.0.0", 50051, ""), False),
        ("[::]:65535", ("::", 65535, ""), False),
        ("queuegate.example.com:443", ("queuegate.example.com", 443, ""), False),
        ("unix:/run/q.sock", ("", 0, "/run/q.sock"), True),
        ("unix:///run/q.sock", ("", 0, "/run/q.sock"), True),
    ],
)
def test_accepted(text: str, expected: tuple[str, int, str], local: bool) -> None:
    address = parse_address(text)
    assert (address.host, address.port, address.path) == expected
    assert address.is_local is local


@pytest.mark.parametrize(
    "text",
    [
        "",
        "50051",
        ":50051",
        "localhost",
        "localhost:",
        "localhost:x",
        "localhost:65536",
        "::1:50051",
        "localhost:-1",
        "localhost:٣",
        "localhost:" + "9" * 5_000,
        "unix:",
        "unix:relative",
        "unix:/a,b",
        "unix:/a\0b",
        "unix:/" + "x" * 107,
    ],
)
def test_refused(text: str) -> None:
    with pytest.raises(
        MalformedAddress, match=r"port|unix:/|Unix socket|write 127\.0\.0\.1:50051$"
    ):
        parse_address(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [("127.0.0.1:0", ("127.0.0.1", 0)), ("[::1]:9464", ("::1", 9464)), ("a-b.c:1", ("a-b.c", 1))],
)
def test_valid_host_ports(text: str, expected: tuple[str, int]) -> None:
    assert parse_host_port(text) == expected


@pytest.mark.parametrize(
    "text", ["", "1", ":1", "::1:1", "[1]:1", "a b:1", "a:", "a:65536", "a:" + "9" * 5_000]
)
def test_invalid_host_ports(text: str) -> None:
    with pytest.raises(MalformedAddress, match=r"host:port|0 to 65535"):
        parse_host_port(text)
