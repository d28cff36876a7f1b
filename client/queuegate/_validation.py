"""Argument validation. A wrong type raises TypeError; an invalid value raises InvalidArgument.

Lengths and characters are validated by the server, because a newer server may have different
limits.
"""

from collections.abc import Iterable
from enum import StrEnum
from typing import Final, TypeVar

from queuegate.exceptions import InvalidArgument, Violation

_Choice = TypeVar("_Choice", bound=StrEnum)

MAX_TIMEOUT: Final = 86_400.0
"""The maximum time limit in seconds (one day). gRPC treats much larger values as expired deadlines.
"""

MAX_PAGE_SIZE: Final = 1_000
"""The maximum number of users on a page."""


def invalid(name: str, fault: str) -> InvalidArgument:
    """Return the exception for an argument with an invalid value."""
    violations = [Violation(name, fault)]
    return InvalidArgument(f"{name} {fault}", code="INVALID_ARGUMENT", violations=violations)


def text(name: str, value: object, *, required: bool = True) -> str:
    """Check that `value` is a valid Unicode str and, if `required`, not empty. Return it."""
    if not isinstance(value, str):
        raise TypeError(f"{name} must be a str, not {type(value).__name__}")
    if value.isascii():
        if not value and required:
            raise invalid(name, "must not be empty")
        return value
    try:
        value.encode()
    except UnicodeEncodeError:
        raise invalid(name, "is not valid Unicode") from None
    return value


def texts(name: str, values: object) -> tuple[str, ...]:
    """Return `values` as a tuple after checking that they are non-empty strings. A single str
    raises TypeError.
    """
    if values == ():
        return ()
    if isinstance(values, str | bytes) or not isinstance(values, Iterable):
        raise TypeError(f"{name} must be a collection of str, not {type(values).__name__}")
    return tuple(text(f"{name}[{index}]", value) for index, value in enumerate(values))


def optional_texts(name: str, values: object) -> tuple[str, ...] | None:
    """Validate `values` as `texts` does, but allow None."""
    return None if values is None else texts(name, values)


def choice(name: str, value: object, choices: type[_Choice]) -> _Choice:
    """Return the enum member with the given value. Members are returned unchanged."""
    if isinstance(value, choices):
        return value
    if not isinstance(value, str):
        raise TypeError(f"{name} must be a str, not {type(value).__name__}")
    try:
        return choices(value)
    except ValueError:
        allowed = ", ".join(repr(str(member)) for member in choices)
        raise invalid(name, f"must be one of {allowed}, not {value!r}") from None


def seconds(name: str, value: object) -> float:
    """Return a time limit in seconds as a float, after checking its range."""
    number = _number_of_seconds(name, value)
    if not 0 < number <= MAX_TIMEOUT:
        limit = f"more than 0 and at most {MAX_TIMEOUT:.0f} seconds"
        raise invalid(name, f"must be {limit}, not {value!r}")
    return float(number)


def stale(value: object, longest: float) -> float:
    """Return how long a gate may decide without a lease, in seconds, after checking its range."""
    number = _number_of_seconds("stale", value)
    if not 0 <= number <= longest:
        raise invalid("stale", f"must be 0 to {longest / 3600:.0f} h, not {value!r} s")
    return float(number)


def _number_of_seconds(name: str, value: object) -> int | float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError(f"{name} must be a number of seconds, not {type(value).__name__}")
    return value


def flag(name: str, value: object) -> bool:
    """Return the value after checking that it is a bool."""
    if not isinstance(value, bool):
        raise TypeError(f"{name} must be a bool, not {type(value).__name__}")
    return value


def page_size(value: object) -> int:
    """Return the page size after checking its range. 0 means the server's default."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"page_size must be an int, not {type(value).__name__}")
    if not 0 <= value <= MAX_PAGE_SIZE:
        raise invalid("page_size", f"must be from 0 to {MAX_PAGE_SIZE}, not {value!r}")
    return value
