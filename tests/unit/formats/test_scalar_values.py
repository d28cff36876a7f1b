"""Booleans and numbers as go-yaml v3 reads them; checked against it by hand."""

import math

import pytest

from queuegate_server.formats.yaml_nodes import ScalarNode
from queuegate_server.formats.yunikorn.value_readers import boolean, floating, unsigned


def plain(text: str) -> ScalarNode:
    return ScalarNode(1, 1, text, plain=True)


def in_quotes(text: str) -> ScalarNode:
    return ScalarNode(1, 1, text, plain=False)


@pytest.mark.parametrize("text", "true True TRUE y Y yes Yes YES on On ON".split())  # noqa: SIM905
def test_true(text: str) -> None:
    assert boolean(plain(text)) is True
    assert boolean(in_quotes(text)) is (None if text.lower() == "true" else True)


@pytest.mark.parametrize("text", "false False FALSE n N no No NO off Off OFF".split())  # noqa: SIM905
def test_false(text: str) -> None:
    assert boolean(plain(text)) is False
    assert boolean(in_quotes(text)) is (None if text.lower() == "false" else False)


@pytest.mark.parametrize("text", ["tRue", "yEs", "1", "0", "", "maybe", "t", " true"])
def test_neither(text: str) -> None:
    assert boolean(plain(text)) is None


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("0", 0),
        ("5", 5),
        ("+5", 5),
        ("1_000", 1000),
        ("5_", 5),
        ("0x1F", 31),
        ("0X1f", 31),
        ("+0x10", 16),
        ("0o17", 15),
        ("0O7", 7),
        ("017", 15),
        ("08", 8),
        ("0b11", 3),
        ("0B1", 1),
        ("1e3", 1000),
        ("1.9", 1),
        (".5", 0),
        ("1.", 1),
        ("-0", 0),
        ("9223372036854775808", 2**63),
        ("18446744073709551615", 2**64 - 1),
    ],
)
def test_unsigned(text: str, value: int) -> None:
    assert unsigned(plain(text)) == value
    assert unsigned(in_quotes(text)) is None


@pytest.mark.parametrize(
    "text",
    [
        *("", "-1", "-0x1", "0x", "0b2", "_5", "a5", "5a", "1 000", "2024-01-01", "1:30", "--5"),
        *(".inf", "-.inf", ".nan", "-1.5", "18446744073709551616", "1e400", ".", "+", "-"),
        *("0x1p3", "1e", "٣", "9" * 500),
    ],
)
def test_not_unsigned(text: str) -> None:
    assert unsigned(plain(text)) is None


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1", 1.0),
        ("-1.5", -1.5),
        ("+.5", 0.5),
        ("1.5e-3", 0.0015),
        ("1_0.5", 10.5),
        ("0x10", 16.0),
        (".inf", math.inf),
        ("+.Inf", math.inf),
        ("-.INF", -math.inf),
    ],
)
def test_floating(text: str, value: float) -> None:
    assert floating(plain(text)) == value


def test_not_a_number_is_a_number() -> None:
    assert math.isnan(floating(plain(".NaN")) or 0.0)


@pytest.mark.parametrize("text", ["", "heavy", "..5", "-.nan", "1,5", "1e400", "inf"])
def test_not_floating(text: str) -> None:
    assert floating(plain(text)) is None
