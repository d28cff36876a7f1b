"""Finds why YuniKorn may not read a queues.yaml, and why shims may not ask about it."""

from collections.abc import Collection, Iterator

from queuegate.policy.names import DEFAULT_PARTITION
from queuegate_server.formats.diagnostics import Diagnostic, Severity, quoted

_MAX_SHOWN_NAMES = 5


def other_key(file: str, key: str) -> Diagnostic:
    """Return the warning that YuniKorn reads a different key of its ConfigMap."""
    message = "service.policyGroup of the ConfigMap makes YuniKorn read"
    message += f" {quoted(key)} instead of this"
    return Diagnostic(file, 0, 0, Severity.WARNING, message, "serve that key, or correct the group")


def unasked_partitions(file: str, partitions: Collection[str]) -> Iterator[Diagnostic]:
    """Yield a warning if none of the partitions is the one that shims ask about."""
    if not partitions or DEFAULT_PARTITION in partitions:
        return
    names = ", ".join(quoted(name) for name in sorted(partitions)[:_MAX_SHOWN_NAMES])
    message = f"no partition is named {quoted(DEFAULT_PARTITION)}, only {names}: YuniKorn's shim"
    message += " for Kubernetes knows only that one, and requests that name no partition use it"
    remedy = f"rename the partition to {DEFAULT_PARTITION}, unless callers name it"
    yield Diagnostic(file, 0, 0, Severity.WARNING, message, remedy)
