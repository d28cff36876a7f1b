"""What a single value means where YuniKorn wants a truth value or a number.

The rules are those of go-yaml v3 (`resolve.go`, and `scalar` in `decode.go`) for a
field of type bool, uint64 or float64. Text fields take every value as it is written.
"""

import math
import re
from typing import Final

from queuegate_server.formats.yaml_nodes import Scalar

MAX_UINT64: Final = 2**64 - 1

_TRUE: Final = frozenset({"true", "True", "TRUE"})
_FALSE: Final = frozenset({"false", "False", "FALSE"})
# Words of YAML 1.1, taken for a truth value even in quotes.
_YES: Final = frozenset({"y", "Y", "yes", "Yes", "YES", "on", "On", "ON"})
_NO: Final = frozenset({"n", "N", "no", "No", "NO", "off", "Off", "OFF"})

_INTEGER: Final = re.compile(
    r"(?P<sign>[+-]?)(?:0[xX](?P<hex>[0-9a-fA-F]+)|0[bB](?P<binary>[01]+)"
    r"|0[oO]?(?P<octal>[0-7]+)|(?P<decimal>0|[1-9][0-9]*))"
)
_BASES: Final = {"hex": 16, "binary": 2, "octal": 8, "decimal": 10}
_FLOAT: Final = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
_LONGEST_NUMBER: Final = 400
_STARTS: Final = tuple("+-.0123456789")
_INFINITE: Final = frozenset({".inf", ".Inf", ".INF", "+.inf", "+.Inf", "+.INF"})
_MINUS_INFINITE: Final = frozenset({"-.inf", "-.Inf", "-.INF"})
_NOT_A_NUMBER: Final = frozenset({".nan", ".NaN", ".NAN"})


def truth_value(node: Scalar) -> bool | None:
    """Return what the value means as a truth value; None if nothing."""
    text = node.text
    if text in _YES or (node.plain and text in _TRUE):
        return True
    if text in _NO or (node.plain and text in _FALSE):
        return False
    return None


def unsigned(node: Scalar) -> int | None:
    """Return what the value means as a number from 0 to 2^64 - 1; None if nothing.

    Digits after a decimal point are cut off.
    """
    value = _number(node)
    if value is None or not 0 <= value <= MAX_UINT64:
        return None
    return int(value)


def floating(node: Scalar) -> float | None:
    """Return what the value means as a floating-point number; None if nothing."""
    value = _number(node)
    return None if value is None else float(value)


def _number(node: Scalar) -> int | float | None:
    text = node.text
    if not node.plain or len(text) > _LONGEST_NUMBER or not text.startswith(_STARTS):
        return None
    digits = text if text[0] == "." else text.replace("_", "")
    integer = _INTEGER.fullmatch(digits)
    if integer:
        kind = integer.lastgroup or "decimal"
        value = int(integer["sign"] + integer[kind], _BASES[kind])
        if -(2**63) <= value <= (2**63 - 1 if integer["sign"] else MAX_UINT64):
            return value
    if _FLOAT.fullmatch(digits):
        value_as_float = float(digits)
        return None if math.isinf(value_as_float) else value_as_float
    return _special_float(text)


def _special_float(text: str) -> float | None:
    if text in _INFINITE:
        return math.inf
    if text in _MINUS_INFINITE:
        return -math.inf
    return math.nan if text in _NOT_A_NUMBER else None
