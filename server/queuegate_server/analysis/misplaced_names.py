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
from queuegate_server.formats.diagnostics import Diagnostic, diagnostic_of, quoted, quoted_names
from queuegate_server.formats.findings.finding import Finding
from queuegate_server.formats.findings.table import finding, phrase
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
            for found in advice:
                yield diagnostic_of(found, *place, queue=queue)


def _advice(
    acl: Acl, only_groups: set[str], only_users: set[str], policy: PolicyFile
) -> Iterator[Finding]:
    if names := acl.users & only_groups:
        found = "group-listed-as-user" if len(names) == 1 else "groups-listed-as-users"
        quotes = ", in quotes" if policy.is_yunikorn else ""
        yield finding(found, names=quoted_names(names, _MAX_SHOWN), quotes=quotes)
    # If spaces turned users into groups, another warning says so.
    is_reported = _BLANK.search(acl.text) or (acl.dropped_groups and not policy.is_yunikorn)
    if not is_reported and (names := acl.groups & only_users):
        found = "user-listed-as-group" if len(names) == 1 else "users-listed-as-groups"
        yield finding(found, names=quoted_names(names, _MAX_SHOWN))


def _split_group(
    acl: Acl, users: set[str], groups: set[str], partition: Partition
) -> Iterator[Finding]:
    """Yield a warning if the first space is inside a known group's name."""
    if (
        name := split_name(acl.text, frozenset(users | groups))
    ) in groups and not acl.dropped_groups:
        user, _, group = name.partition(" ")
        words, remedy = {"name": quoted(name), "user": quoted(user), "group": quoted(group)}, ""
        if partition.cluster is None:
            remedy = phrase("no-spaces-in-yunikorn")
        elif partition.cluster.semantics is Semantics.DOCUMENTED:
            remedy = phrase("use-hadoop")
        yield finding("group-split-at-space", remedy=remedy, **words)
