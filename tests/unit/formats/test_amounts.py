"""Amounts of resources, as YuniKorn parses and compares them."""

import pytest

from queuegate_server.formats.yunikorn.amounts import excess, parse_amount, smaller


@pytest.mark.parametrize(
    ("text", "memory", "cores"),
    [
        ("0", 0, 0),
        ("10", 10, 10_000),
        ("+10", None, None),
        ("1 0", None, None),
        (" 10 \t", 10, 10_000),
        ("1 \tKi", 1024, 1_024_000),
        ("\u00a010\u00a0k\u2003", None, None),
        ("\u00a010 k\u2003", 10_000, 10_000_000),
        ("007", 7, 7_000),
        ("0" * 30 + "7", 7, 7_000),
        ("500m", None, 500),
        ("2k", 2_000, 2_000_000),
        ("2M", 2 * 10**6, 2 * 10**9),
        ("1Ki", 1024, 1_024_000),
        ("1Gi", 2**30, 1000 * 2**30),
        ("7Ei", 7 * 2**60, None),
        ("8Ei", None, None),
        ("9223372036854775807", 2**63 - 1, None),
        ("9223372036854775808", None, None),
        ("9" * 30, None, None),
        ("-1", None, None),
        ("1.5", None, None),
        ("1e3", None, None),
        ("1K", None, None),
        ("1ki", None, None),
        ("1KB", None, None),
        ("ten", None, None),
        ("", None, None),
        ("G", None, None),
        ("\N{ARABIC-INDIC DIGIT ONE}", None, None),
    ],
)
def test_amount(text: str, memory: int | None, cores: int | None) -> None:
    assert parse_amount("memory", text) == memory
    assert parse_amount("vcore", text) == cores


def test_an_unset_amount_is_unlimited() -> None:
    assert excess({}, {"memory": 5}) == ""
    assert excess({"memory": 5}, {"memory": 5, "vcore": 1}) == ""
    assert excess({"memory": 5, "vcore": 1}, {"memory": 6, "vcore": 2}) == (
        "memory 6 > 5, vcore 2m > 1m"
    )


def test_the_smaller_amount_of_each() -> None:
    assert smaller({"a": 1, "b": 5}, {"b": 3, "c": 2}) == {"a": 1, "b": 3, "c": 2}
    assert smaller({}, {"a": 1}) == {"a": 1}
    assert smaller({"a": 1}, {}) == {"a": 1}
