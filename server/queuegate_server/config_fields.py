"""Building blocks for configuration models: sections, durations (`1h30m`) and sizes (`4MiB`)."""

import math
import os
import re
from collections.abc import Callable, Hashable, Mapping
from pathlib import Path
from typing import Annotated, Final

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, ValidationInfo
from pydantic_core import PydanticCustomError

from queuegate_server.files.safe_open import read_regular, remedy

KIB: Final = 1024
MIB: Final = 1024 * KIB
DAY_SECONDS: Final = 86_400.0

_SECONDS: Final[dict[str, float]] = {"ms": 0.001, "s": 1, "m": 60, "h": 3600, "d": 86400}
_BYTES: Final[Mapping[str, int]] = {
    "B": 1,
    "kB": 10**3,
    "MB": 10**6,
    "GB": 10**9,
    "KiB": 2**10,
    "MiB": 2**20,
    "GiB": 2**30,
}
_NUMBER: Final = r"[0-9]{1,15}(?:\.[0-9]{1,9})?"
_DURATION: Final = re.compile(rf"(?:{_NUMBER}(?:ms|s|m|h|d))+|{_NUMBER}")
_DURATION_PART: Final = re.compile(rf"({_NUMBER})(ms|s|m|h|d)?")
_SIZE: Final = re.compile(rf"({_NUMBER})(B|kB|MB|GB|KiB|MiB|GiB)?")


def check_with(parse: Callable[[str], object]) -> AfterValidator:
    """Return a validator that calls `parse`. `parse` must raise ValueError for invalid text."""

    def check(text: str) -> str:
        parse(text)
        return text

    return AfterValidator(check)


def check_file(check: Callable[[bytes], object]) -> AfterValidator:
    """Return a validator for file paths. `check` raises ValueError for invalid contents.

    If the validation context is a set, missing files are accepted and added to it.
    """

    def read(path: Path, info: ValidationInfo) -> Path:
        try:
            content = read_regular(path, MIB)
        except OSError as error:
            if isinstance(error, FileNotFoundError) and note_absent_file(path, info):
                return path
            text = error.strerror or error.args[1]
            raise ValueError(f"the file cannot be read: {text}: {remedy(error)}") from None
        if len(content) > MIB:
            raise ValueError("the file is larger than 1 MiB")
        check(content)
        return path

    return AfterValidator(read)


def note_absent_file(path: Path, info: ValidationInfo) -> bool:
    """Return whether a missing file is acceptable because the settings are for another machine.

    For such settings, the validation context is a set, and the path is added to it.
    """
    # Unlike `os.path.exists`, `Path.exists` can raise if a folder in the path cannot be entered.
    if not isinstance(info.context, set) or os.path.exists(path):  # noqa: PTH110
        return False
    info.context.add(path)
    return True


def check_not_empty(content: bytes) -> None:
    """Raise ValueError if the file is empty."""
    if not content.strip():
        raise ValueError("the file is empty")


class Section(BaseModel):
    """A frozen settings section that rejects unknown keys."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


def distinct(what: str) -> AfterValidator:
    """Return a validator that rejects repeated items. `what` is a noun for error messages."""

    def check(items: tuple[Hashable, ...]) -> tuple[Hashable, ...]:
        for position, item in enumerate(items):
            if item in items[:position]:
                raise ValueError(f"the {what} {item} is listed twice")
        return items

    return AfterValidator(check)


def distinct_keys(what: str, canonical: Callable[[str], str]) -> AfterValidator:
    """Return a validator that converts a mapping's keys to canonical form and rejects repeated
    keys. `what` is a noun for error messages; `canonical` raises ValueError for invalid keys.
    """

    def convert(entries: Mapping[str, object]) -> Mapping[str, object]:
        converted: dict[str, object] = {}
        for name, entry in entries.items():
            key = canonical(name)
            if key in converted:
                raise ValueError(f"the {what} {key} is listed twice")
            converted[key] = entry
        return converted

    return AfterValidator(convert)


def seconds(value: object) -> float:
    """Convert a duration (text with units, or a number) to seconds.

    Raises PydanticCustomError if the value is not a finite, nonnegative duration.
    """
    if isinstance(value, str) and _DURATION.fullmatch(value):
        return sum(
            float(number) * _SECONDS[unit or "s"] for number, unit in _DURATION_PART.findall(value)
        )
    number = _plain_number(value)
    if number is None:
        raise PydanticCustomError(
            "duration",
            "not a duration: write a number with a unit (ms, s, m, h, d), such as 250ms, 30s, "
            "1h30m, or a number of seconds",
        )
    return number


def size(value: object) -> int:
    """Convert a size, with or without a unit, to a whole number of bytes.

    Raises PydanticCustomError if the value is not a size.
    """
    number: float | None
    if isinstance(value, str) and (match := _SIZE.fullmatch(value)):
        number = float(match[1]) * _BYTES[match[2] or "B"]
    else:
        number = _plain_number(value)
    if number is None or number != int(number):
        raise PydanticCustomError(
            "size",
            "not a size: write a number with a unit (B, KiB, MiB, GiB, kB, MB, GB), such as "
            "64KiB or 4MiB, or a number of bytes",
        )
    return int(number)


def written_duration(value: float) -> str:
    """Format seconds in the largest unit that yields a whole number, such as `50ms`."""
    milliseconds = round(value * 1000)
    for unit in reversed(_SECONDS):
        count, rest = divmod(milliseconds, round(_SECONDS[unit] * 1000))
        if count and not rest:
            return f"{count}{unit}"
    return f"{value:g}s"


def written_size(value: float) -> str:
    """Format bytes in the largest binary unit that yields a whole number, such as `4KiB`."""
    for unit in ("GiB", "MiB", "KiB"):
        count, rest = divmod(round(value), _BYTES[unit])
        if count and not rest:
            return f"{count}{unit}"
    return f"{round(value)}B"


def _plain_number(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if number >= 0 and math.isfinite(number) else None


Duration = Annotated[float, BeforeValidator(seconds)]
"""A duration in seconds. Each field sets its own bounds."""

Size = Annotated[int, BeforeValidator(size)]
"""A size in bytes. Each field sets its own bounds."""
