"""Parses and compares amounts of resources.

Amounts are parsed and compared as in YuniKorn's `pkg/common/resources/quantity.go` and
`resources.go`; an unset amount is unlimited.
"""

import re
from typing import Final

from queuegate.policy.acl import WHITE_SPACE
from queuegate_server.formats.diagnostics import Diagnostics, quoted
from queuegate_server.formats.findings.table import finding
from queuegate_server.formats.yunikorn.model import Quantities

Amounts = dict[str, int]
"""Amounts by resource name, in bytes, thousandths of a core, or plain numbers."""

_CORES: Final = "vcore"
_QUANTITY: Final = re.compile(r"0*([0-9]{1,19})[\t\n\f\r ]*([A-Za-z]*)")
_MAX_AMOUNT: Final = 2**63 - 1
_SCALES: Final = {
    **{unit: 1000**power for power, unit in enumerate(("", "k", "M", "G", "T", "P", "E"))},
    **{f"{unit}i": 1024**power for power, unit in enumerate("KMGTPE", start=1)},
}
_MILLI: Final = "m"


def parse_amount(resource: str, text: str) -> int | None:
    """Parse an amount of the given resource; None if it is invalid."""
    match = _QUANTITY.fullmatch(text.strip(WHITE_SPACE))
    if match is None:
        return None
    number, suffix = int(match[1]), match[2]
    if resource == _CORES:
        scale = 1 if suffix == _MILLI else 1000 * _SCALES.get(suffix, 0)
    else:
        scale = _SCALES.get(suffix, 0)
    value = number * scale
    return value if scale and number <= _MAX_AMOUNT and value <= _MAX_AMOUNT else None


def parse_amounts(quantities: Quantities | None, diagnostics: Diagnostics, queue: str) -> Amounts:
    """Parse amounts by resource name, and report invalid amounts."""
    valid = {}
    for resource, scalar in (quantities or {}).items():
        value = parse_amount(resource, scalar.text)
        if value is None:
            milli = ", or m for thousandths" if resource == _CORES else ""
            words = {"text": quoted(scalar.text), "resource": quoted(resource), "or_milli": milli}
            diagnostics.add(scalar, finding("not-an-amount", **words), queue)
        else:
            valid[resource] = value
    return valid


def excess(limit: Amounts, wanted: Amounts) -> str:
    """Describe the amounts in `wanted` that exceed `limit`; return an empty string if none does."""
    texts: list[str] = []
    for resource, value in wanted.items():
        if resource in limit and value > limit[resource]:
            unit = _MILLI if resource == _CORES else ""
            texts.append(f"{resource} {value}{unit} > {limit[resource]}{unit}")
    return ", ".join(texts)


def smaller(one: Amounts, other: Amounts) -> Amounts:
    """Return the smaller amount of each resource. Keep an amount given in only one argument."""
    if not one or not other:
        return one or other
    return one | {name: min(value, one.get(name, value)) for name, value in other.items()}
