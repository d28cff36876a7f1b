"""Amounts of resources: how they are written and how they compare.

The grammar is that of YuniKorn's `pkg/common/resources/quantity.go`; the comparisons
are those of `resources.go` beside it. An amount that is not given is not limited.
"""

import re
from typing import Final

from queuegate.policy.acl import WHITE_SPACE
from queuegate_server.formats.diagnostics import Diagnostics, quoted
from queuegate_server.formats.yunikorn.model import Quantities

Amounts = dict[str, int]
"""Amounts by the name of the resource: bytes, thousandths of a core, or pieces."""

_CORES: Final = "vcore"
_QUANTITY: Final = re.compile(r"0*([0-9]{1,19})[\t\n\f\r ]*([A-Za-z]*)")
_MOST: Final = 2**63 - 1
_SCALES: Final = {
    "": 1,
    "k": 10**3,
    "M": 10**6,
    "G": 10**9,
    "T": 10**12,
    "P": 10**15,
    "E": 10**18,
    "Ki": 2**10,
    "Mi": 2**20,
    "Gi": 2**30,
    "Ti": 2**40,
    "Pi": 2**50,
    "Ei": 2**60,
}
_MILLI: Final = "m"


def amount(resource: str, text: str) -> int | None:
    """Return the amount that a text states of a resource; None if it states none."""
    match = _QUANTITY.fullmatch(text.strip(WHITE_SPACE))
    if match is None:
        return None
    number, suffix = int(match[1]), match[2]
    if resource == _CORES:
        scale = 1 if suffix == _MILLI else 1000 * _SCALES.get(suffix, 0)
    else:
        scale = _SCALES.get(suffix, 0)
    value = number * scale
    return value if scale and number <= _MOST and value <= _MOST else None


def amounts(quantities: Quantities | None, diagnostics: Diagnostics, queue: str) -> Amounts:
    """Return what is written as amounts; report and leave out what is none."""
    found = {}
    for resource, scalar in (quantities or {}).items():
        value = amount(resource, scalar.text)
        if value is None:
            message = f"{quoted(scalar.text)} is not an amount of {quoted(resource)}"
            remedy = "write a whole number, then nothing or one of k M G T P E Ki Mi Gi Ti Pi Ei"
            if resource == _CORES:
                remedy = f"{remedy}, or m for thousandths"
            diagnostics.error(scalar, message, remedy, queue)
        else:
            found[resource] = value
    return found


def excess(limit: Amounts, wanted: Amounts) -> str:
    """Say which of the wanted amounts are above the limit; empty if none is."""
    return ", ".join(
        f"{resource} {value}{unit} > {limit[resource]}{unit}"
        for resource, value in wanted.items()
        for unit in (_MILLI if resource == _CORES else "",)
        if resource in limit and value > limit[resource]
    )


def smaller(one: Amounts, other: Amounts) -> Amounts:
    """Return the smaller amount of each resource that either gives."""
    if not one or not other:
        return one or other
    found = one | other
    for resource in one.keys() & other.keys():
        found[resource] = min(one[resource], other[resource])
    return found


def is_zero(found: Amounts) -> bool:
    """Say whether there is nothing of any resource."""
    return not any(found.values())
