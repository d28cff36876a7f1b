"""Reads JSON objects strictly, because a lenient parser may read a different request from the one
that a proxy reads.

Repeated names, NaN, infinities, lone surrogates, and numbers beyond double precision are refused
(RFC 7493, I-JSON, as the Authorization API 1.0 recommends in its section on JSON payloads).
"""

import json
from typing import Any, Final, NoReturn, TypeAlias, TypeVar

from queuegate_server.admin.bodies import count_entries

Json: TypeAlias = dict[str, Any]
T = TypeVar("T", str, int, list[Any], Json)

MAX_ENTRIES: Final = 200_000
"""The maximum number of list and object entries in a body. 10,000 evaluations have fewer.
Each takes up to 50 ns, in which nothing else runs."""
MAX_SAFE_INTEGER: Final = 2**53 - 1
"""The largest integer with a double of its own (RFC 7493, section 2.2)."""
_MAX_DIGITS: Final = len(str(MAX_SAFE_INTEGER))
_KINDS: Final = {str: "a string", int: "an integer", list: "an array", dict: "an object"}


class Malformed(Exception):
    """The request is malformed. The message names the member, if any, and the remedy."""


def read_object(body: bytes) -> Json:
    """Return the object in a body. Raises Malformed."""
    if not body.strip():
        raise Malformed("the body is empty: send a JSON object")
    if count_entries(body) > MAX_ENTRIES:
        raise Malformed(f"the body has more than {MAX_ENTRIES} entries")
    try:
        value = json.loads(
            body.decode(),
            object_pairs_hook=_object,
            parse_constant=_refuse_constant,
            parse_float=_float,
            parse_int=_integer,
        )
        if b"\\u" in body:
            json.dumps(value, ensure_ascii=False).encode()
    except UnicodeDecodeError:
        raise Malformed("the body is not UTF-8") from None
    except UnicodeEncodeError:
        raise Malformed("a string has half of a surrogate pair: write both escapes") from None
    except json.JSONDecodeError as error:
        raise Malformed(
            f"the body is not JSON: line {error.lineno}, column {error.colno}: {error.msg}"
        ) from None
    except RecursionError:
        raise Malformed("the body has too many levels of arrays and objects") from None
    if not isinstance(value, dict):
        raise Malformed("the body must be a JSON object")
    return value


def optional(members: Json, path: str, kind: type[T]) -> T | None:
    """Return a member, or None if it is absent or null. Raises Malformed for another kind.

    `path` names the member in messages; what follows the last dot is its name in `members`.
    """
    value = members.get(path.rpartition(".")[2])
    if value is None or type(value) is kind:  # a bool is an int
        return value
    raise Malformed(f"{path}: must be {_KINDS[kind]}")


def required(members: Json, path: str, kind: type[T]) -> T:
    """Return a member. Raises Malformed if it is absent, null or of another kind."""
    value = optional(members, path, kind)
    if value is None:
        raise Malformed(f"{path}: is required")
    return value


def texts(members: Json, path: str) -> list[str] | None:
    """Return a list of strings, or None if it is absent. Raises Malformed."""
    values = optional(members, path, list)
    if values is not None and not all(type(value) is str for value in values):
        raise Malformed(f"{path}: must be an array of strings")
    return values


def _object(pairs: list[tuple[str, Any]]) -> Json:
    members = dict(pairs)
    if len(members) != len(pairs):
        raise Malformed("an object has the same member twice: keep one of the two")
    return members


def _refuse_constant(name: str) -> NoReturn:
    raise Malformed(f"{name} is not a JSON value")


def _integer(text: str) -> int:
    if len(text) <= _MAX_DIGITS + 1 and abs(value := int(text)) <= MAX_SAFE_INTEGER:
        return value
    raise Malformed("a number has more digits than a double holds: write it as a string")


def _float(text: str) -> float:
    value = float(text)
    if value - value != 0:  # an infinity
        raise Malformed("a number is larger than any double: write it as a string")
    return value
