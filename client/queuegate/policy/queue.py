"""Queues and their own ACLs."""

from collections.abc import Callable
from typing import Final, NamedTuple

from queuegate.policy.acl import Acl
from queuegate.policy.decision import Access

_ADMIN: Final = Access.ADMIN


class QueueAcls(NamedTuple):
    """A queue's configured ACLs, as text or parsed."""

    path: str
    """The full path, in the partition's canonical form."""
    submit_acl: Acl | str
    admin_acl: Acl | str


class Queue:
    """A queue in a partition. Immutable.

    ACLs given as text are parsed on first use, since requests involve only a few of up to 100 000
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

    @property
    def acl_texts(self) -> tuple[str, str]:
        """The unparsed texts of the queue's own submit and admin ACLs."""
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
        if not (
            _is_same_text(self._admin_acl, other._admin_acl)  # noqa: SLF001 - of the same class
            or _same_names(self.admin_acl, other.admin_acl)
        ):
            return False
        return (
            access is _ADMIN
            or _is_same_text(self._submit_acl, other._submit_acl)  # noqa: SLF001
            or _same_names(self.submit_acl, other.submit_acl)
        )


def _is_same_text(one: Acl | str, other: Acl | str) -> bool:
    return isinstance(one, str) and one == other


def _same_names(one: Acl, other: Acl) -> bool:
    return one is other or (
        one.users == other.users
        and one.groups == other.groups
        and one.allows_all is other.allows_all
        and one.proxies == other.proxies
    )
