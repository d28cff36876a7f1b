"""What decides about a queue: the ACLs from itself up to the root, put together.

`decide.py` tells what the rules of access are.
"""

from typing import Final, NamedTuple

from queuegate.policy.acl import WILDCARD, Acl, UnsplitAcl
from queuegate.policy.decision import (
    ACLS_DISABLED,
    IN_RECOVERY_QUEUE,
    NO_MATCH,
    Access,
    Decision,
    Reason,
)

CLUSTER: Final = ""
"""Stands for the path of a queue where the administrators of the cluster are listed."""


class Chain(NamedTuple):
    """Everything that decides about one kind of access to a queue, nearest level first.

    Names and queues are apart, and not in pairs, because each object on the way costs a
    look-up in memory that is rarely in the processor's cache.
    """

    users: tuple[frozenset[str], ...]
    """Users that are granted access, by level."""
    user_queues: tuple[str, ...]
    """The paths of the queues that list these users."""
    groups: tuple[frozenset[str], ...]
    """Groups that are granted access, by level; empty where no decision depends on them."""
    group_queues: tuple[str, ...]
    """The paths of the queues that list these groups."""
    otherwise: Decision | None
    """The decision if no user matches; None if it depends on the groups."""


NOBODY: Final = Chain((), (), (), (), NO_MATCH)
"""Grants nothing."""
RECOVERY: Final = Chain((), (), (), (), IN_RECOVERY_QUEUE)
"""Grants nothing, because of the recovery queue."""
OPEN: Final = Chain((), (), (), (), ACLS_DISABLED)
"""Grants everything, because ACLs are disabled; nothing below changes that."""


class QueueAcls(NamedTuple):
    """A queue as a configuration states it."""

    path: str
    """The full path, as the partition spells paths."""
    submit_acl: Acl | UnsplitAcl
    admin_acl: Acl | UnsplitAcl


class Queue:
    """A queue with all that decides about it, from itself up to the root.

    Of a hundred thousand queues few are asked for: what decides is put together then, and
    kept. For whoever uses it, it is immutable.
    """

    __slots__ = ("_admin_acl", "_submit_acl", "above", "chains", "path")

    def __init__(
        self, acls: QueueAcls, above: "Queue | None", chains: tuple[Chain, Chain] | None = None
    ) -> None:
        """Take its ACLs, and the queue above or what decides about submission and
        administration.
        """
        self.path, self._submit_acl, self._admin_acl = acls
        self.above = above
        self.chains = chains
        """What decides about submission and administration; None until it is asked for."""

    @property
    def submit_acl(self) -> Acl:
        """Its own ACL for submission."""
        if isinstance(self._submit_acl, UnsplitAcl):
            self._submit_acl = self._submit_acl.split()
        return self._submit_acl

    @property
    def admin_acl(self) -> Acl:
        """Its own ACL for administration."""
        if isinstance(self._admin_acl, UnsplitAcl):
            self._admin_acl = self._admin_acl.split()
        return self._admin_acl

    @property
    def submit(self) -> Chain:
        """What decides about submission."""
        return (self.chains or self._compile())[0]

    @property
    def admin(self) -> Chain:
        """What decides about administration."""
        return (self.chains or self._compile())[1]

    def chain(self, access: Access) -> Chain:
        """Return what decides about one kind of access."""
        return self.submit if access is Access.SUBMIT else self.admin

    def inherit(self, submit: Chain, admin: Chain) -> tuple[Chain, Chain]:
        """Put its ACLs before what the queue above it has."""
        submit = extend(self.path, (self.submit_acl, self.admin_acl), submit)
        admin = extend(self.path, (self.admin_acl,), admin)
        self.chains = submit, admin
        return self.chains

    def _compile(self) -> tuple[Chain, Chain]:
        waiting = [self]
        while (above := waiting[-1].above) is not None and above.chains is None:
            waiting.append(above)
        chains = above.chains if above and above.chains else (NOBODY, NOBODY)
        while waiting:
            chains = waiting.pop().inherit(*chains)
        return chains


def extend(path: str, acls: tuple[Acl, ...], inherited: Chain) -> Chain:
    """Put the ACLs of a queue, in their order of evaluation, before what it inherits."""
    if inherited is OPEN:
        return OPEN
    users: frozenset[str] = frozenset()
    groups: frozenset[str] = frozenset()
    for acl in acls:
        if acl.allows_all:
            # What stands above an ACL that allows everybody is never reached.
            reason = Reason.WILDCARD if path else Reason.CLUSTER_ADMIN
            inherited = NOBODY._replace(otherwise=Decision(True, reason, path, WILDCARD))
            break
        users = _union(users, acl.users)
        groups = _union(groups, acl.groups)
    up_users, user_queues, up_groups, group_queues, otherwise = inherited
    if users:
        up_users, user_queues = (users, *up_users), (path, *user_queues)
    if groups and (otherwise is None or not otherwise.allowed):
        up_groups, group_queues, otherwise = (groups, *up_groups), (path, *group_queues), None
    elif not users:
        return inherited
    return Chain(up_users, user_queues, up_groups, group_queues, otherwise)


def _union(first: frozenset[str], second: frozenset[str]) -> frozenset[str]:
    """Join two sets; without a copy if one of them is empty."""
    return first | second if first and second else first or second
