"""Addresses: accepted texts, and those passed to gRPC."""

import pytest

from queuegate._address import parse

ACCEPTED = [
    ("127.0.0.1:50051", "dns:///127.0.0.1:50051"),
    ("localhost:1", "dns:///localhost:1"),
    ("queuegate.prod.svc.cluster.local:65535", "dns:///queuegate.prod.svc.cluster.local:65535"),
    ("queue_gate-1.:50051", "dns:///queue_gate-1.:50051"),
    ("unix-like:50051", "dns:///unix-like:50051"),
    ("ipv4:50051", "dns:///ipv4:50051"),  # a host, whatever gRPC makes of such a prefix
    ("[::1]:50051", "dns:///[::1]:50051"),
    ("[2001:db8::a]:050051", "dns:///[2001:db8::a]:50051"),
    ("dns:///localhost:50051", "dns:///localhost:50051"),
    ("dns:///[::1]:50051", "dns:///[::1]:50051"),
    ("unix:/run/queuegate.sock", "unix:/run/queuegate.sock"),
    ("unix:///run/queuegate.sock", "unix:/run/queuegate.sock"),
    ("unix:/run/a b%20?#.sock", "unix:/run/a%20b%2520%3F%23.sock"),
    ("unix:/run/ü", "unix:/run/%C3%BC"),
    ("unix:/" + "x" * 106, "unix:/" + "x" * 106),
]


@pytest.mark.parametrize(("text", "target"), ACCEPTED)
def test_accepted(text: str, target: str) -> None:
    address = parse(text)
    assert address.text == text
    assert address.target == target


REFUSED = [
    ("50051", "not a host and a port"),
    ("localhost", "not a host and a port"),
    (":50051", "not a host and a port"),
    ("localhost:", "the port must be a number from 1 to 65535"),
    ("localhost:0", "the port must be a number"),
    ("localhost:65536", "the port must be a number"),
    ("localhost:http", "the port must be a number"),
    ("localhost:²", "the port must be a number"),
    ("localhost:-1", "the port must be a number"),
    ("::1:50051", "not a host name"),
    ("[::1:50051", "not a host name"),
    ("[::g]:50051", "not an IPv6 address"),
    ("[127.0.0.1]:50051", "not an IPv6 address"),
    ("http://localhost:50051", "not a host name"),
    ("dns:localhost:50051", "not a host name"),
    ("dns://1.1.1.1/localhost:50051", "not a host name"),
    ("dns:///localhost", "not a host and a port"),
    ("dns:///dns:///a:1", "not a host name"),
    ("a,b:50051", "not a host name"),
    ("a b:50051", "not a host name"),
    ("a\n:50051", "not a host name"),
    ("-a:50051", "not a host name"),
    ("ü:50051", "not a host name"),
    ("user@host:50051", "not a host name"),
    ("unix:", "must be absolute"),
    ("unix:run/queuegate.sock", "must be absolute"),
    ("unix://run/queuegate.sock", "must be absolute"),
    ("unix:/a,b", "comma"),
    ("unix:/a\0b", "NUL"),
    ("unix:/" + "x" * 107, "exceed 107 bytes"),
    ("unix:/" + "ü" * 54, "exceed 107 bytes"),
]


@pytest.mark.parametrize(("text", "message"), REFUSED)
def test_refused(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message) as caught:
        parse(text)
    assert str(caught.value).startswith(f"address {text!r}: ")


def test_a_refusal_says_what_is_accepted() -> None:
    with pytest.raises(ValueError, match=r"use HOST:PORT, \[IPV6\]:PORT or unix:/PATH"):
        parse("localhost")


def test_other_than_text() -> None:
    with pytest.raises(TypeError, match="address must be a str, not int"):
        parse(50051)
    with pytest.raises(ValueError, match="address must not be empty"):
        parse("")


def test_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    assert parse(None).text == "127.0.0.1:50051"
    monkeypatch.setenv("QUEUEGATE_ADDRESS", "")
    assert parse(None).text == "127.0.0.1:50051"
    monkeypatch.setenv("QUEUEGATE_ADDRESS", "unix:/run/q.sock")
    assert parse(None).text == "unix:/run/q.sock"
    assert parse("localhost:1").text == "localhost:1"
    monkeypatch.setenv("QUEUEGATE_ADDRESS", "nonsense")
    with pytest.raises(ValueError, match="QUEUEGATE_ADDRESS 'nonsense': not a host"):
        parse(None)
