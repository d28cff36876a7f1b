"""Reviews settings and policies before the webhook uses them."""

import sys
from collections.abc import Generator, Iterator, Mapping
from typing import Final

from queuegate.policy.tree import Partition
from queuegate_server.admission.queues.names import (
    MAX_LISTED,
    AmbiguousNames,
    flat_subtrees,
)
from queuegate_server.admission.queues.operator_review import pattern_warnings
from queuegate_server.formats.acl_positions import AclKey, Place, acl_positions
from queuegate_server.formats.detection import opened_policy_format
from queuegate_server.formats.diagnostics import (
    Diagnostic,
    Diagnostics,
    ParseError,
    quoted,
)
from queuegate_server.formats.envelope import OpenedText
from queuegate_server.formats.findings.finding import Severity
from queuegate_server.formats.findings.table import finding
from queuegate_server.formats.format_names import YUNIKORN
from queuegate_server.formats.registry import open_policy
from queuegate_server.formats.yaml_reader import read_yaml
from queuegate_server.formats.yunikorn.document import decode
from queuegate_server.formats.yunikorn.model import normalized_name
from queuegate_server.identity.manager import looks_up_groups
from queuegate_server.policystore.parsing import ParseJob, PolicyText
from queuegate_server.settings.admission import ALLOW_OR_DENY, GroupSource, QueueChecks
from queuegate_server.settings.model import Settings
from queuegate_server.settings.queue_schedulers import Mode
from queuegate_server.settings.source_map import SourceMap, error_in

MAX_READ_BYTES: Final = 256 * 1024
"""The maximum size of a policy that is read again for its placement rules and for positions, in a
process that serves reviews. Reading it blocks the event loop."""
NO_LIMIT: Final = sys.maxsize
NO_FILE: Final = SourceMap("settings", None)
"""A placeholder for unknown origins of settings."""
_SECTIONS: Final = ("queues", "authorize", "user_info")
"""The sections of `admission` that may need a policy, each with a partition and `groups`."""
_QUEUES: Final = ("admission", "queues")
_UNQUEUED: Final = (*_QUEUES, "unqueued")
_RENAME: Final = "rename one of them, in the policy and in the scheduler"
_LINES: Final = "queuegate-server validate --config prints their lines"
_PROVIDED: Final = "provided"


def review_settings(settings: Settings, source_map: SourceMap = NO_FILE) -> Iterator[Diagnostic]:
    """Yield warnings about settings that are valid but insecure or ineffective.

    Args:
        settings: The settings of a webhook.
        source_map: The origins of the settings.
    """
    admission = settings.admission
    if not any(source.is_set for source in settings.sources):
        for name, _, _ in _uses_of_policy(settings):
            yield source_map.warning(
                ("admission", name),
                "no policy is configured, so the embedded default decides",
                "set policy.path, or policy.configs for YuniKorn's ConfigMaps",
            )
    queues = admission.queues
    if queues is None:
        return
    if queues.mode is not Mode.OFF:
        yield from pattern_warnings(queues, source_map)
    tls = admission.tls
    # If the settings lack a certificate, the webhook's command line sets it.
    if queues.mode is not Mode.OFF and tls is not None and tls.client_ca_file is None:
        yield source_map.warning(
            ("admission", "tls"),
            "anyone who can connect can post a review in any user's name",
            "set client_ca_file, if the API server can present a certificate",
        )


def review_policy(
    settings: Settings,
    partitions: Mapping[str, Partition],
    texts: ParseJob | None,
    max_bytes: int = MAX_READ_BYTES,
    source_map: SourceMap = NO_FILE,
) -> Generator[None, None, list[Diagnostic]]:
    """Return errors if the settings cannot be used with valid policies, and warnings about both.

    Runs in short steps, except while it reads policies again. Indexes the queues for `QueueNames`.

    Args:
        settings: The settings of a webhook.
        partitions: The partitions of all policies.
        texts: The policies' text; None if it is not available.
        max_bytes: The maximum size of a policy that is read again. Errors about a longer policy
            have no line, and it causes no warnings.
        source_map: The origins of the settings.
    """
    found: list[Diagnostic] = []
    for name, partition_name, groups in _uses_of_policy(settings):
        location = ("admission", name)
        used = partitions.get(partition_name)
        if used is None:
            known = ", ".join(sorted(partitions)) or "none"
            message = f"{quoted(partition_name)} is not in the policy, which has {known}"
            found.append(
                source_map.diagnostic((*location, "partition"), message, "correct the name")
            )
        elif groups is not GroupSource.KUBERNETES and not looks_up_groups(settings, used):
            section = getattr(settings.admission, name)
            if used.named_grants is not None and "groups" not in section.model_fields_set:
                continue  # the groups in the request also count
            found.append(
                source_map.warning(
                    (*location, "groups"),
                    f"is {groups}, but no resolver looks up groups for the partition {used.name}",
                    f"set partitions.{used.name}.resolver, or groups: kubernetes",
                )
            )
    queues = settings.admission.queues
    partition = None if queues is None else partitions.get(queues.partition)
    if queues is None or partition is None:
        return found
    opened = [*_opened(texts, max_bytes)]
    found += _unqueued_faults(queues, partition, source_map)
    found += _missing_unqueued(queues, partition, source_map)
    found += _subtree_faults(queues, partition, source_map)
    for subtree in flat_subtrees(partition, queues.schedulers):
        yield from partition.index_last_levels(subtree.path)
        repeated = partition.last_levels(subtree.path).repeated
        found += _ambiguities(AmbiguousNames(subtree, repeated), queues.partition, opened)
    if queues.schedulers.yunikorn is not None:
        for text, policy in opened:
            found += _placement_warnings(text, policy, queues.partition)
    return found


def _uses_of_policy(settings: Settings) -> Iterator[tuple[str, str, GroupSource]]:
    """Yield the sections of `admission` that need a policy, each as its name, its partition and its
    source of groups.
    """
    for name in _SECTIONS:
        section = getattr(settings.admission, name)
        if section is None or (name == "user_info" and section.groups is GroupSource.KUBERNETES):
            continue
        yield name, section.partition, section.groups


def reload_faults(queues: QueueChecks, partition: Partition) -> Iterator[Diagnostic]:
    """Yield errors if changed settings cannot be used with the served policy.

    Schedulers whose names have not been looked up before, because they were off, are indexed now.
    """
    yield from _unqueued_faults(queues, partition, NO_FILE)
    for each in _subtree_faults(queues, partition, NO_FILE):
        if each.severity is Severity.ERROR:
            yield each
    for subtree in flat_subtrees(partition, queues.schedulers):
        repeated = partition.last_levels(subtree.path).repeated
        yield from _ambiguities(AmbiguousNames(subtree, repeated), queues.partition, [])


def _unqueued_faults(
    queues: QueueChecks, partition: Partition, source_map: SourceMap
) -> Iterator[Diagnostic]:
    """Yield an error if `unqueued` is a path that the partition spells differently."""
    path = queues.unqueued
    if path not in ALLOW_OR_DENY and partition.canonical_path(path) != path:
        yield source_map.diagnostic(
            _UNQUEUED,
            f"{quoted(path)} is not a queue path in the policy's spelling",
            "write allow, deny, or a path as in the policy, such as root.default",
        )


def _subtree_faults(
    queues: QueueChecks, partition: Partition, source_map: SourceMap
) -> Iterator[Diagnostic]:
    """Yield an error for each path of a scheduler that the partition spells differently, and a
    warning for each that it lacks.
    """
    for name, scheduler in queues.schedulers.flat.items():
        path = scheduler.below
        location = (*_QUEUES, "schedulers", name, "below")
        if partition.canonical_path(path) != path:
            yield source_map.diagnostic(
                location,
                f"{quoted(path)} is not a queue path in the policy's spelling",
                f"write a path as in the policy, such as root.{name}",
            )
        elif path not in partition.queues:
            yield source_map.warning(
                location,
                f"{quoted(path)} is not in the policy, so the ACLs of"
                f" {partition.nearest_path(path)} decide about all queues of {name}",
                "correct the path, or add the queue",
            )


def _missing_unqueued(
    queues: QueueChecks, partition: Partition, source_map: SourceMap
) -> Iterator[Diagnostic]:
    """Yield a warning if `unqueued` is a path that is not in the policy."""
    path = queues.unqueued
    if path in ALLOW_OR_DENY or partition.canonical_path(path) != path:
        return
    if path not in partition.queues and not partition.creates(path):
        yield source_map.warning(
            _UNQUEUED,
            f"{quoted(path)} is not in the policy, so the ACLs of {partition.nearest_path(path)}"
            " decide",
            "correct the path, or add the queue",
        )


def _opened(texts: ParseJob | None, max_bytes: int) -> Iterator[tuple[PolicyText, OpenedText]]:
    """Yield the policies of at most this size that are not in an unreadable envelope."""
    for text in texts.texts if texts is not None else ():
        name, data = text.policy
        if len(data) <= max_bytes:
            try:
                yield text, open_policy(data, name, text.options)
            except ParseError:
                continue


def _ambiguities(
    ambiguous: AmbiguousNames, partition: str, opened: list[tuple[PolicyText, OpenedText]]
) -> Iterator[Diagnostic]:
    """Yield an error for each queue whose last level is the same as an earlier queue's."""
    positions: dict[AclKey, Place] = {}
    for text, policy in opened:
        kind = text.format or opened_policy_format(policy)
        positions |= acl_positions(kind, text.policy.data, text.policy.name, text.options)
    listed = 0
    for _, (first, *others) in sorted(ambiguous.queues.items()):
        for path in others:
            listed += 1
            if listed > MAX_LISTED:
                continue
            position = positions.get(AclKey(partition, path, None))
            place = position or Place("policy")
            earlier = positions.get(AclKey(partition, first, None))
            yield Diagnostic(
                *place,
                Severity.ERROR,
                f"queue {quoted(path)} has the same last level as {quoted(first)}"
                f"{f' ({earlier})' if earlier else ''}, and {ambiguous.reason}",
                _RENAME if position else f"{_RENAME}; {_LINES}",
                path,
                "ambiguous-queue",
            )
    if listed > MAX_LISTED:
        more = listed - MAX_LISTED
        queues = "queue has" if more == 1 else "queues have"
        yield error_in("policy", f"{more} more {queues} the last level of another queue")


def _placement_warnings(
    text: PolicyText, opened: OpenedText, partition: str
) -> Iterator[Diagnostic]:
    """Yield a warning if YuniKorn's first placement rule may ignore the queue named in an object.

    A filter passes some users' applications to the next rule. A parent adds levels to names that do
    not begin with `root.`.

    Without rules, YuniKorn uses the `provided` rule (`buildRules` in yunikorn-core's
    `pkg/scheduler/placement/placement.go`).
    """
    if (text.format or opened_policy_format(opened)) != YUNIKORN:
        return
    # Errors are discarded here, because the loader reports them.
    unwanted, diagnostics = Diagnostics(""), Diagnostics(opened.file)
    with unwanted:
        decoded = decode(read_yaml(opened.data, opened.file).root, unwanted)
    for each in decoded:
        if normalized_name(each) == partition and each.rules:
            rule = each.rules[0].name
            if rule.text.lower() != _PROVIDED:
                found = finding("first-rule-ignores-queue", rule=quoted(rule.text))
                diagnostics.add(rule.position, found)
            elif each.rules[0].filter is not None:
                diagnostics.add(rule.position, finding("first-rule-with-filter"))
            elif each.rules[0].parent is not None:
                diagnostics.add(rule.position, finding("first-rule-with-parent"))
    yield from opened.in_file(diagnostics.sorted())
