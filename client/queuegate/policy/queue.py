"""Queues, their own ACLs, and the kinds of access that these ACLs grant."""

from collections.abc import Callable
from typing import Final, NamedTuple, TypeVar

from queuegate.policy.acl import Acl
from queuegate.policy.decision import Access

_SUBMIT: Final = Access.SUBMIT
_ADMIN: Final = Access.ADMIN
_T = TypeVar("_T")


def granting(access: Access, submit: _T, admin: _T) -> tuple[_T, ...]:
    """Return those of a queue's own ACLs that grant a kind of access, in evaluation order.

    The submit ACL and the admin ACL both grant submission; only the admin ACL grants administration
    (YuniKorn `pkg/scheduler/objects/queue.go`, CheckSubmitAccess and CheckAdminAccess).

    Args:
        access: The kind of access.
        submit: The submit ACL, or its text, or its kind.
        admin: The admin ACL, in the same form.
    """
    return (submit, admin) if access is _SUBMIT else (admin,)


class QueueAcls(NamedTuple):
    """A queue's configured ACLs, as text or parsed."""

    path: str
    """The full path, in the partition's canonical form."""
    submit_acl: Acl | str
    admin_acl: Acl | str


class Queue:
    """A queue in a partition. Immutable.

    ACLs given as text are parsed on first use, since requests involve only a few of up to 100,000
    queues.
    """

    __slots__ = ("_admin_acl", "_parse", "_submit_acl", "path")

    def __init__(self, acls: QueueAcls, parse: Callable[[str], Acl]) -> None:
        self.path, self._submit_acl, self._admin_acl = acls
        self._parse = parse

    @property
    def submit_acl(self) -> Acl:
        """The queue's own submit ACL."""
        if isinstance(self._submit_acl, str):
            self._submit_acl = self._parse(self._submit_acl)
        return self._submit_acl

    @property
    def admin_acl(self) -> Acl:
        """The queue's own admin ACL."""
        if isinstance(self._admin_acl, str):
            self._admin_acl = self._parse(self._admin_acl)
        return self._admin_acl

    def acl(self, kind: Access) -> Acl:
        """Return the queue's own ACL of the given kind."""
        return self.submit_acl if kind is _SUBMIT else self.admin_acl

    def acls_granting(self, access: Access) -> tuple[Acl, ...]:
        """Return the queue's own ACLs that grant access, in evaluation order."""
        return tuple(map(self.acl, granting(access, _SUBMIT, _ADMIN)))

    @property
    def acl_texts(self) -> tuple[str, str]:
        """The unparsed text of the queue's own submit and admin ACLs."""
        submit, admin = self._submit_acl, self._admin_acl
        return (
            submit if isinstance(submit, str) else submit.text,
            admin if isinstance(admin, str) else admin.text,
        )

    def read_acls(self, parse: Callable[[str], Acl]) -> tuple[Acl, Acl]:
        """Return the queue's own submit and admin ACLs. ACLs parsed for this call are not cached.

        Args:
            parse: The partition's parser, without a cache.
        """
        submit, admin = self._submit_acl, self._admin_acl
        return (
            parse(submit) if isinstance(submit, str) else submit,
            parse(admin) if isinstance(admin, str) else admin,
        )

    def has_acls_of(self, other: "Queue", access: Access) -> bool:
        """Return whether this queue's ACLs that grant `access` list the same names as those of
        `other`. Both queues must use the same grammar.
        """
        # Equal texts need not be parsed.
        own = granting(access, self._submit_acl, self._admin_acl)
        if own == granting(access, other._submit_acl, other._admin_acl):  # noqa: SLF001 - same class
            return True
        return all(map(_same_names, self.acls_granting(access), other.acls_granting(access)))


def _same_names(one: Acl, other: Acl) -> bool:
    return one is other or (
        one.users == other.users
        and one.groups == other.groups
        and one.allows_all is other.allows_all
        and one.proxies == other.proxies
    )
