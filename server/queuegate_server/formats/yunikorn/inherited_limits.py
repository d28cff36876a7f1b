"""A limit must not allow more than the limits of the same user or group above it.

The rules are those of `checkLimitResource` and `checkLimitMaxApplications` in YuniKorn's
`pkg/common/configs/configvalidator.go`: a name is compared with itself above, and where
it is not limited above, with `*`.
"""

from dataclasses import dataclass, field
from typing import Final

from queuegate.policy.acl import WILDCARD
from queuegate_server.formats.diagnostics import Diagnostics, quoted
from queuegate_server.formats.yaml_nodes import Scalar
from queuegate_server.formats.yunikorn.model import Queue
from queuegate_server.formats.yunikorn.quantities import Amounts, amounts, excess, smaller


@dataclass(slots=True)
class _Allowed:
    """What a name may use, all queues from here up to the root taken together."""

    resources: Amounts
    applications: int
    """0: as many as the queue has room for."""


@dataclass(slots=True)
class _Limited:
    """Who is limited in a queue, and in which queue above it to look for others.

    Nothing is copied from above: thousands of names may be limited in a queue with
    thousands of queues below it.
    """

    above: "_Limited | None"
    allowed: dict[tuple[str, str], _Allowed] = field(default_factory=dict)
    """By `user` or `group`, and name."""

    def find(self, kind: str, name: str) -> _Allowed | None:
        """Return the nearest limit of a name, from here up to the root."""
        level: _Limited | None = self
        while level is not None:
            found = level.allowed.get((kind, name))
            if found is not None:
                return found
            level = level.above
        return None


_UNLIMITED: Final = _Limited(None)


def check_inherited(queues: list[Queue], diagnostics: Diagnostics) -> None:
    """Compare the limits of all queues, each given after its parent, with those above."""
    limited: dict[Queue, _Limited] = {}
    for queue in queues:
        above = limited.get(queue.above, _UNLIMITED) if queue.above else _UNLIMITED
        own = above
        if queue.limits:
            own = _Limited(above)
            for limit in queue.limits:
                # Faults in the amounts are reported with the limit itself.
                allowed = _Allowed(
                    amounts(limit.max_resources, Diagnostics(""), queue.path),
                    limit.max_applications.value if limit.max_applications else 0,
                )
                for kind, names in (("user", limit.users), ("group", limit.groups)):
                    for name in names or ():
                        own.allowed[kind, name.text] = _compare(
                            kind, name, allowed, above, queue=queue.path, diagnostics=diagnostics
                        )
        if queue.has_children and own is not _UNLIMITED:
            limited[queue] = own


def _compare(
    kind: str,
    name: Scalar,
    allowed: _Allowed,
    above: _Limited,
    *,
    queue: str,
    diagnostics: Diagnostics,
) -> _Allowed:
    """Report what is above the limit; return the limit for the queues below."""
    same = above.find(kind, name.text)
    bound = same or above.find(kind, WILDCARD)
    if bound is None:
        return allowed
    who = f"{kind} {quoted(name.text)}"
    whose = "" if same else f'the {kind} "*" '
    too_much = excess(bound.resources, allowed.resources)
    if too_much:
        message = f"{who} may use more resources than {whose}in a queue above: {too_much}"
        diagnostics.error(name, message, "lower maxresources here or raise it there", queue)
    if bound.applications and not 0 < allowed.applications <= bound.applications:
        message = (
            f"{who} may run {allowed.applications or 'any number of'} applications, "
            f"but {whose}only {bound.applications} in a queue above"
        )
        remedy = f"set maxapplications from 1 to {bound.applications}"
        diagnostics.error(name, message, remedy, queue)
    if not same:
        return allowed
    return _Allowed(
        smaller(allowed.resources, bound.resources),
        min(allowed.applications, bound.applications),
    )
