"""Reviews a policy before the webhook uses it."""

import sys
from collections.abc import Generator, Iterator, Mapping
from typing import Final

from queuegate.policy.tree import Partition
from queuegate_server.admission.queues.names import (
    MAX_LISTED,
    AmbiguousNames,
    QueueNames,
    flat_schedulers,
)
from queuegate_server.formats.acl_positions import AclKey, Place, acl_positions
from queuegate_server.formats.diagnostics import (
    Diagnostic,
    Diagnostics,
    ParseError,
    Severity,
    quoted,
)
from queuegate_server.formats.envelope import Policy
from queuegate_server.formats.registry import YUNIKORN, format_of, open_policy
from queuegate_server.formats.yaml_reader import read_yaml
from queuegate_server.formats.yunikorn.load import normalized_name
from queuegate_server.formats.yunikorn.model import decode
from queuegate_server.policystore.parsing import ParseJob, PolicyText
from queuegate_server.settings.admission import (
    ALLOW_OR_DENY,
    Admission,
    Authorization,
    QueueChecks,
)
from queuegate_server.settings.source_map import error_in

MAX_READ_BYTES: Final = 256 * 1024
"""The maximum size of a text that is read again for its placement rules and for positions, in a
process that serves reviews. Reading it blocks the event loop."""
NO_LIMIT: Final = sys.maxsize
_PROVIDED: Final = "provided"
_ELSEWHERE: Final = (
    "YuniKorn may place applications in other queues than those they name, which admission.queues"
    " checks"
)


def review_policy(
    admission: Admission,
    partitions: Mapping[str, Partition],
    texts: ParseJob | None,
    max_bytes: int = MAX_READ_BYTES,
) -> Generator[None, None, list[Diagnostic]]:
    """Return errors if queues cannot be checked with valid policies, and warnings about YuniKorn.

    Runs in short steps, but for texts that are read again. Indexes the queues for `QueueNames`.

    Args:
        admission: The settings.
        partitions: The partitions of all policies.
        texts: The policies' texts; None if they are not available.
        max_bytes: The maximum size of a text that is read again. Errors about a longer text have no
            line, and it causes no warnings.
    """
    found: list[Diagnostic] = []
    if admission.authorize is not None:
        found += _unknown_partition(admission.authorize, partitions)
    queues = admission.queues
    if queues is None:
        return found
    partition = partitions.get(queues.partition)
    if partition is None:
        return [*found, *_unknown_partition(queues, partitions)]
    opened = [*_opened(texts, max_bytes)]
    found += unqueued_faults(queues, partition)
    if flat_schedulers(queues.schedulers):
        yield from partition.index_last_levels()
    try:
        QueueNames(partition, queues.schedulers)
    except AmbiguousNames as error:
        found += _ambiguities(error, queues.partition, opened)
    if queues.schedulers.yunikorn is not None:
        for text, policy in opened:
            found += _placement_warnings(text, policy, queues.partition)
    return found


def _unknown_partition(
    settings: Authorization, partitions: Mapping[str, Partition]
) -> Iterator[Diagnostic]:
    """Yield an error if the policies lack the partition in the settings."""
    if settings.partition not in partitions:
        known = ", ".join(sorted(partitions)) or "none"
        yield error_in(
            "settings",
            f"{settings.key}.partition is {settings.partition}, but the policy has {known}",
            "correct the name",
        )


def unqueued_faults(queues: QueueChecks, partition: Partition) -> Iterator[Diagnostic]:
    """Yield an error if `unqueued` is a path that the partition would spell otherwise."""
    unqueued = queues.unqueued
    if unqueued not in ALLOW_OR_DENY and partition.path(unqueued) != unqueued:
        yield error_in(
            "settings",
            f"admission.queues.unqueued is {quoted(unqueued)}, which is not a queue path in the"
            " policy's spelling",
            "write allow, deny, or a path as in the policy, such as root.default",
        )


def _opened(texts: ParseJob | None, max_bytes: int) -> Iterator[tuple[PolicyText, Policy]]:
    """Yield the texts of at most this size that are not in an unreadable envelope."""
    for text in texts.texts if texts is not None else ():
        name, data = text.policy
        if len(data) <= max_bytes:
            try:
                yield text, open_policy(data, name, text.options)
            except ParseError:
                continue


def _ambiguities(
    ambiguous: AmbiguousNames, partition: str, opened: list[tuple[PolicyText, Policy]]
) -> Iterator[Diagnostic]:
    """Yield an error for each queue whose last level is that of an earlier queue."""
    positions: dict[AclKey, Place] = {}
    for text, policy in opened:
        kind = text.format or format_of(policy)
        positions |= acl_positions(kind, text.policy.data, text.policy.name, text.options)
    listed = 0
    for _, (first, *others) in sorted(ambiguous.queues.items()):
        for path in others:
            listed += 1
            if listed > MAX_LISTED:
                continue
            place = positions.get(AclKey(partition, path, None), Place("policy"))
            earlier = positions.get(AclKey(partition, first, None))
            yield Diagnostic(
                *(place.file, place.line, place.column, Severity.ERROR),
                f"queue {quoted(path)} has the same last level as {quoted(first)}"
                f"{f' ({earlier})' if earlier else ''}, and {ambiguous.reason}",
                "rename one of them, here and in the scheduler",
                path,
            )
    if listed > MAX_LISTED:
        more = listed - MAX_LISTED
        queues = "queue has" if more == 1 else "queues have"
        yield error_in("policy", f"{more} more {queues} the last level of another queue")


def _placement_warnings(text: PolicyText, opened: Policy, partition: str) -> Iterator[Diagnostic]:
    """Yield a warning if YuniKorn's first placement rule may ignore the queue named in an object.

    A filter passes some users' applications to the next rule. A parent adds levels to names that do
    not begin with `root.`.

    Without rules, YuniKorn uses the rule `provided` (`buildRules` in yunikorn-core's
    `pkg/scheduler/placement/placement.go`).
    """
    if (text.format or format_of(opened)) != YUNIKORN:
        return
    # Errors are discarded here, because the loader reports them.
    unwanted, diagnostics = Diagnostics(""), Diagnostics(opened.file)
    with unwanted:
        decoded = decode(read_yaml(opened.data, opened.file).root, unwanted)
    for each in decoded:
        if normalized_name(each) == partition and each.rules:
            rule = each.rules[0].name
            if rule.text.lower() != _PROVIDED:
                diagnostics.warning(
                    rule.position,
                    f"{_ELSEWHERE}: the first placement rule is {quoted(rule.text)}",
                    f"put the rule {_PROVIDED} first",
                )
            elif each.rules[0].filter is not None:
                diagnostics.warning(
                    rule.position,
                    f"{_ELSEWHERE}: the rule {_PROVIDED} has a filter, so that it does not place"
                    " the applications of all users",
                    "remove the filter",
                )
            elif each.rules[0].parent is not None:
                diagnostics.warning(
                    rule.position,
                    f"{_ELSEWHERE}: the rule {_PROVIDED} has a parent, below which it looks for"
                    " names that do not begin with root.",
                    "name queues by their full path, or remove the parent",
                )
    yield from opened.in_file(diagnostics.sorted())
