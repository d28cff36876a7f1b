"""Collects the groups on which placement and limits depend, in addition to those in ACLs."""

from queuegate.policy.names import is_group_name
from queuegate_server.formats.yunikorn.model import PartitionConfig
from queuegate_server.formats.yunikorn.placement import rule_chain


def groups_outside_acls(partition: PartitionConfig) -> tuple[frozenset[str], tuple[str, ...]]:
    """Return the groups that limits and filters list, and the filters' regular expressions.

    As in YuniKorn's `newFilter` (`pkg/scheduler/placement/filter.go`), only an entry that is
    alone in its list may be a regular expression.
    """
    limits = [*partition.limits, *(limit for queue in partition.queues for limit in queue.limits)]
    lists = [limit.groups or () for limit in limits]
    patterns = []
    for rule in partition.rules:
        for link in rule_chain(rule):
            entries = (link.filter.groups if link.filter else None) or ()
            if len(entries) == 1 and not is_group_name(entries[0].text):
                patterns.append(entries[0].text)
            else:
                lists.append(entries)
    names = {entry.text for entries in lists for entry in entries if is_group_name(entry.text)}
    return frozenset(names), tuple(dict.fromkeys(patterns))
