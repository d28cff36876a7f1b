"""Amounts of resources, and the rules for the resources of queues.

The grammar and the comparison of amounts are those of YuniKorn's
`pkg/common/resources/quantity.go` and `resources.go`; an unset amount is unlimited. The rules
are those of `checkQueueResource` in its `configvalidator.go`. YuniKorn parses the resources of
a child template only when its scheduler builds a parent queue.
"""

import re
from typing import Final

from queuegate.policy.acl import WHITE_SPACE
from queuegate_server.formats.diagnostics import Diagnostics, quoted
from queuegate_server.formats.yunikorn.model import (
    PartitionConfig,
    Quantities,
    QueueConfig,
    Resources,
)

Amounts = dict[str, int]
"""Amounts by the name of the resource: bytes, thousandths of a core, or a plain number."""

_CORES: Final = "vcore"
_QUANTITY: Final = re.compile(r"0*([0-9]{1,19})[\t\n\f\r ]*([A-Za-z]*)")
_MAX_AMOUNT: Final = 2**63 - 1
_SCALES: Final = {
    **{unit: 1000**power for power, unit in enumerate(("", "k", "M", "G", "T", "P", "E"))},
    **{f"{unit}i": 1024**power for power, unit in enumerate("KMGTPE", start=1)},
}
_MILLI: Final = "m"


def amount(resource: str, text: str) -> int | None:
    """Return a text as an amount of a resource; None if it is invalid."""
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


def amounts(quantities: Quantities | None, diagnostics: Diagnostics, queue: str) -> Amounts:
    """Return the valid amounts, and report the others."""
    found = {}
    for resource, scalar in (quantities or {}).items():
        value = amount(resource, scalar.text)
        if value is None:
            message = f"{quoted(scalar.text)} is not an amount of {quoted(resource)}"
            remedy = "write a whole number, optionally with k M G T P E Ki Mi Gi Ti Pi or Ei"
            if resource == _CORES:
                remedy = f"{remedy}, or m for thousandths"
            diagnostics.error(scalar, message, remedy, queue)
        else:
            found[resource] = value
    return found


def excess(limit: Amounts, wanted: Amounts) -> str:
    """Return which of the wanted amounts exceed the limit, as text; empty if none does."""
    return ", ".join(
        f"{resource} {value}{unit} > {limit[resource]}{unit}"
        for resource, value in wanted.items()
        for unit in (_MILLI if resource == _CORES else "",)
        if resource in limit and value > limit[resource]
    )


def smaller(one: Amounts, other: Amounts) -> Amounts:
    """Return the smaller amount of each resource that either sets."""
    if not one or not other:
        return one or other
    found = one | other
    for resource in one.keys() & other.keys():
        found[resource] = min(one[resource], other[resource])
    return found


def is_zero(found: Amounts) -> bool:
    """Return whether no amount is above 0."""
    return not any(found.values())


def check_resources(partition: PartitionConfig, diagnostics: Diagnostics) -> None:
    """Check the resources of all queues of a partition."""
    guaranteed: dict[QueueConfig, Amounts] = {}
    maximum: dict[QueueConfig | None, Amounts] = {}
    for queue in partition.queues:
        _check_template(queue, diagnostics)
        above = maximum.get(queue.parent, {})
        own: Amounts = {}
        if queue.resources:
            own = amounts(queue.resources.maximum, diagnostics, queue.path)
            guaranteed[queue] = amounts(queue.resources.guaranteed, diagnostics, queue.path)
            _check_own(
                queue, queue.resources, guaranteed[queue], own, above, diagnostics=diagnostics
            )
        if own or above:
            maximum[queue] = smaller(own, above)
    if guaranteed:
        _check_sums(partition.queues, guaranteed, maximum, diagnostics)


def _check_template(queue: QueueConfig, diagnostics: Diagnostics) -> None:
    template = queue.template_resources
    if template and (queue.is_parent or queue.has_children):
        amounts(template.guaranteed, diagnostics, queue.path)
        amounts(template.maximum, diagnostics, queue.path)


def _check_own(
    queue: QueueConfig,
    resources: Resources,
    guaranteed: Amounts,
    maximum: Amounts,
    above: Amounts,
    *,
    diagnostics: Diagnostics,
) -> None:
    too_much = excess(maximum, guaranteed)
    if too_much:
        message = f"queue {quoted(queue.path)} is guaranteed more than its max: {too_much}"
        diagnostics.error(resources.position, message, "lower guaranteed or raise max", queue.path)
    too_much = excess(above, maximum)
    if too_much:
        message = f"queue {quoted(queue.path)} has a higher max than a queue above it: {too_much}"
        diagnostics.error(
            resources.position, message, "lower it here or raise it there", queue.path
        )


def _check_sums(
    queues: list[QueueConfig],
    guaranteed: dict[QueueConfig, Amounts],
    maximum: dict[QueueConfig | None, Amounts],
    diagnostics: Diagnostics,
) -> None:
    """Compare the sum of the children's guarantees with the resources of their parent."""
    sums: dict[QueueConfig, Amounts] = {}
    for queue in reversed(queues):
        total = sums.pop(queue, {})
        own = guaranteed.get(queue, {})
        for name, limit in (("guaranteed", own), ("max", maximum.get(queue, {}))):
            too_much = excess(limit, total)
            if too_much:
                position = queue.resources.position if queue.resources else queue.position
                message = (
                    f"the children of queue {quoted(queue.path)} are guaranteed more than "
                    f"its {name}: {too_much}"
                )
                remedy = f"lower guaranteed of the children or raise {name}"
                diagnostics.error(position, message, remedy, queue.path)
        promised = total if is_zero(own) else own
        if promised and queue.parent:
            above = sums.setdefault(queue.parent, {})
            for resource, value in promised.items():
                above[resource] = above.get(resource, 0) + value
