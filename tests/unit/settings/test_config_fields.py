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
from tests.support.rows import rows


class _Model(BaseModel):
    wait: Annotated[Duration, Field(gt=0, le=3600)] = 1.0
    limit: Annotated[Size, Field(ge=1024)] = 4096


@rows
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


@rows
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


@rows
def test_durations_are_written_with_a_unit(value: float, written: str) -> None:
    assert written_duration(value) == written
    assert seconds(written) == value


@pytest.mark.parametrize(
    ("value", "written"), [(0, "0B"), (1000, "1000B"), (4096, "4KiB"), (1 << 40, "1024GiB")]
)
def test_sizes_are_written_with_a_unit(value: int, written: str) -> None:
    assert written_size(value) == written
    assert size(written) == value
