"""Parsing of addresses: accepted texts, and messages for the others."""

import pytest

from queuegate_server.settings.listeners import (
    MalformedAddress,
    parse_address,
    parse_host_port,
)
from tests.support.rows import rows


@rows
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
        "a b:80",
        "[abc]:80",
        "[127.0.0.1]:80",
        "-a:80",
        "a/b:80",
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
