"""Durations and sizes of the configuration."""

import math
from typing import Annotated

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, Field, ValidationError
from pydantic_core import PydanticCustomError

from queuegate_server.config_fields import (
    Duration,
    Size,
    seconds,
    size,
    written_duration,
    written_size,
)


class _Model(BaseModel):
    wait: Annotated[Duration, Field(gt=0, le=3600)] = 1.0
    limit: Annotated[Size, Field(ge=1024)] = 4096


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("300s", 300),
        ("5m", 300),
        ("1h", 3600),
        ("2d", 172_800),
        ("250ms", 0.25),
        ("0.5s", 0.5),
        ("1h30m", 5400),
        ("1m500ms", 60.5),
        ("300", 300),
        ("0", 0),
        (45, 45),
        (0.25, 0.25),
    ],
)
def test_durations(written: object, expected: float) -> None:
    assert seconds(written) == pytest.approx(expected)


@pytest.mark.parametrize(
    "written",
    [
        "", " ", "s", "1 s", " 1s", "1s ", "1s\n", "-1s", "+1s", "1S", "1min", "1e3", "1.s",
        ".5s", "inf", "nan", "٣s", "1s2", "1h 30m", -1, -0.5, True, False, None,
        [], {}, math.inf, math.nan, 10**400,
    ],
    ids=repr,
)  # fmt: skip
def test_invalid_durations(written: object) -> None:
    with pytest.raises(PydanticCustomError, match="not a duration: write a number with a unit"):
        seconds(written)


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("4MiB", 4 * 2**20),
        ("64KiB", 65_536),
        ("1.5KiB", 1536),
        ("2GiB", 2**31),
        ("1kB", 1000),
        ("3MB", 3_000_000),
        ("1GB", 10**9),
        ("17B", 17),
        ("19", 19),
        (17, 17),
        (18.0, 18),
        (0, 0),
    ],
)
def test_sizes(written: object, expected: int) -> None:
    assert size(written) == expected


@pytest.mark.parametrize(
    "written",
    ["", "MiB", "4 MiB", "4mib", "4M", "-4MiB", "0.3B", 0.5, -1, True, None, "4MiB\n", math.inf],
)
def test_invalid_sizes(written: object) -> None:
    with pytest.raises(PydanticCustomError, match="not a size: write a number with a unit"):
        size(written)


@given(st.text(max_size=20))
def test_any_text_is_a_finite_duration_or_rejected(text: str) -> None:
    try:
        number = seconds(text)
    except PydanticCustomError:
        return
    assert 0 <= number < math.inf


def test_fields_accept_text_and_keep_their_bounds() -> None:
    model = _Model.model_validate({"wait": "2m", "limit": "4KiB"})
    assert (model.wait, model.limit) == (120.0, 4096)
    with pytest.raises(ValidationError) as caught:
        _Model.model_validate({"wait": "2h", "limit": "1B"})
    assert {error["loc"]: error["type"] for error in caught.value.errors()} == {
        ("wait",): "less_than_equal",
        ("limit",): "greater_than_equal",
    }


@pytest.mark.parametrize(
    ("value", "written"),
    [
        (0.0, "0s"),
        (0.001, "1ms"),
        (0.05, "50ms"),
        (1, "1s"),
        (90, "90s"),
        (3600.0, "1h"),
        (7 * 86_400.0, "7d"),
    ],
)
def test_durations_are_written_with_a_unit(value: float, written: str) -> None:
    assert written_duration(value) == written
    assert seconds(written) == value


@pytest.mark.parametrize(
    ("value", "written"), [(0, "0B"), (1000, "1000B"), (4096, "4KiB"), (1 << 40, "1024GiB")]
)
def test_sizes_are_written_with_a_unit(value: int, written: str) -> None:
    assert written_size(value) == written
    assert size(written) == value
