"""Finds misplaced names in ACLs: groups listed as users, and users listed as groups."""

import re
from collections.abc import Iterator, Mapping
from typing import Final

from queuegate.policy.acl import Acl
from queuegate.policy.created_queues import ANY_NAME
from queuegate.policy.names import SEPARATOR
from queuegate.policy.tree import Partition
from queuegate.policy.yarn_acl import Semantics
from queuegate_server.analysis.access_changes import GroupsByUser
from queuegate_server.analysis.policy_file import PolicyFile
from queuegate_server.formats.acl_positions import Place, acls_by_key
from queuegate_server.formats.diagnostics import Diagnostic, Severity, quoted, quoted_names
from queuegate_server.formats.suspicious_names import split_name

_MAX_SHOWN: Final = 5
_BLANK: Final = re.compile(r"^[^ ]*(?:, | ,)|[\t\n\r]")


def misplaced_names(policy: PolicyFile, people: Mapping[str, GroupsByUser]) -> Iterator[Diagnostic]:
    """Yield warnings for user lists that contain groups, and for group lists that contain users.

    `people` maps each partition to its users' groups. A name shared by a user and a group is valid
    in either list. Unknown names cause no warning because `people` may be incomplete.
    """
    for name, partition in policy.partitions.items():
        users = {*people.get(name, {})}
        groups = {group for each in people.get(name, {}).values() for group in each}
        for key, acl in acls_by_key(partition):
            place = policy.positions.get(key) or Place(policy.name)
            queue = f"{key.queue}{SEPARATOR}{ANY_NAME}" if key.template else key.queue
            advice = [*_advice(acl, groups - users, users - groups, policy)]
            advice += _split_group(acl, users, groups, partition)
            for message, remedy in advice:
                yield Diagnostic(*place, Severity.WARNING, message, remedy, queue)


def _advice(
    acl: Acl, only_groups: set[str], only_users: set[str], policy: PolicyFile
) -> Iterator[tuple[str, str]]:
    quotes = ", in quotes" if policy.is_yunikorn else ""
    for_groups = f"for groups write a space before the list{quotes}, or after the users"
    if names := acl.users & only_groups:
        yield _listed_as(names, "user", "group"), for_groups
    # If spaces turned users into groups, another warning says so.
    is_reported = _BLANK.search(acl.text) or (acl.dropped_groups and not policy.is_yunikorn)
    if not is_reported and (names := acl.groups & only_users):
        yield _listed_as(names, "group", "user"), "write users before the space"


def _split_group(
    acl: Acl, users: set[str], groups: set[str], partition: Partition
) -> Iterator[tuple[str, str]]:
    """Yield a warning if the first space is inside a known group's name."""
    if (
        name := split_name(acl.text, frozenset(users | groups))
    ) in groups and not acl.dropped_groups:
        user, _, group = name.partition(" ")
        message = f"{quoted(name)} is the name of a group, but this ACL lists the user"
        message += f" {quoted(user)} and the group {quoted(group)}"
        remedy = "write a space before it"
        if partition.cluster is None:
            remedy = "list another group: YuniKorn's ACLs have no names with spaces"
        elif partition.cluster.semantics is Semantics.DOCUMENTED:
            remedy += ", and use semantics hadoop"
        yield message, remedy


def _listed_as(names: frozenset[str], listed: str, existing: str) -> str:
    shown = quoted_names(names, _MAX_SHOWN)
    if len(names) == 1:
        return f"{shown} is listed as a {listed}, but only a {existing} has that name"
    return f"{shown} are listed as {listed}s, but only {existing}s have those names"
