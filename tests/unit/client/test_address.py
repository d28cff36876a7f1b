"""Addresses: accepted texts, and those passed to gRPC."""

import pytest

from queuegate._address import parse
from tests.support.rows import rows


@rows
def test_accepted(text: str, target: str) -> None:
    address = parse(text)
    assert address.text == text
    assert address.target == target


@rows
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
