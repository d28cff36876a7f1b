"""Spark's access rules for its applications (Spark 4, `SecurityManager`)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from queuegate.policy.acl import WILDCARD, Acl
from queuegate.policy.applications import (
    DISABLED,
    AccessList,
    AccessListKind,
    Action,
    ApplicationDecision,
    evaluate,
)
from queuegate.policy.yarn_acl import TRIMMED

_ENABLE: Final = "spark.acls.enable"
_MAPPING: Final = "spark.user.groups.mapping"
_VIEW: Final = "spark.ui.view.acls"
_MODIFY: Final = "spark.modify.acls"
_ADMIN: Final = "spark.admin.acls"
_GROUPS: Final = ".groups"
PROPERTIES: Final = (
    _ENABLE,
    _MAPPING,
    *(key + suffix for key in (_VIEW, _MODIFY, _ADMIN) for suffix in ("", _GROUPS)),
)
"""The properties that affect access."""
_SHELL: Final = "org.apache.spark.security.ShellBasedGroupsMappingProvider"
_TRUTHS: Final = {"true": True, "false": False}


class SparkError(ValueError):
    """A property value that Spark rejects."""


@dataclass(frozen=True, slots=True)
class SparkAcls:
    """Who may view, modify and administer a Spark application."""

    enabled: bool
    owners: Acl
    """The application's user and its process owner. Both may always view and modify the
    application.
    """
    view: Acl
    modify: Acl
    admin: Acl
    uses_groups: bool
    """False if `spark.user.groups.mapping` names a custom class, because queuegate cannot call it.
    Groups then do not grant access, as in Spark when the mapping fails.
    """

    def decide(
        self, action: Action, user: str | None, groups: Sequence[str] | None
    ) -> ApplicationDecision:
        """Decide whether a user may take an action on the application.

        Args:
            action: The requested action.
            user: The user name, or None if no login is required.
            groups: All of the user's groups, or None if they are unknown.

        Raises:
            ValueError: The action is `Action.MOVE`. Spark does not support moves.
        """
        if not self.enabled or user is None:
            return DISABLED
        admin = AccessList(AccessListKind.APPLICATION_ADMIN, "", self.admin)
        owners = AccessList(AccessListKind.OWNER, "", self.owners)
        lists: tuple[AccessList, ...]
        match action:
            case Action.VIEW | Action.VIEW_LOGS:
                lists = (owners, AccessList(AccessListKind.VIEW, "", self.view), admin)
            case Action.MODIFY:
                lists = (owners, AccessList(AccessListKind.MODIFY, "", self.modify), admin)
            case Action.ADMIN:
                lists = (admin,)
            case _:
                raise ValueError(action)
        return evaluate(lists, user, groups if self.uses_groups else ())

    def yarn_acls(self) -> tuple[Acl, Acl]:
        """Return the view and modify ACLs that Spark passes to YARN, even if ACLs are disabled."""
        return self._join(self.view), self._join(self.modify)

    def _join(self, acl: Acl) -> Acl:
        lists = (self.owners, acl, self.admin)
        if any(one.allows_all for one in lists):
            return Acl(text=WILDCARD, allows_all=True)
        users = frozenset().union(*(one.users for one in lists))
        groups = frozenset().union(*(one.groups for one in lists))
        text = f"{','.join(sorted(users))} {','.join(sorted(groups))}"
        return Acl(text=text, users=users, groups=groups)


def spark_acls(
    properties: Mapping[str, str], spark_user: str = "", process_user: str = ""
) -> SparkAcls:
    """Return the ACLs defined by an application's properties.

    Lists are comma-separated, and their entries are trimmed. A `*` anywhere in a list of users or
    groups means everyone.

    Raises:
        SparkError: Spark would reject a property's value.
    """
    text = properties.get(_ENABLE, "false")
    enabled = _TRUTHS.get(text.strip(TRIMMED).lower())
    if enabled is None:
        raise SparkError(f"{_ENABLE} must be true or false, not {text!r}")
    users = frozenset({spark_user, process_user}) - {""}
    return SparkAcls(
        enabled,
        Acl(text=",".join(sorted(users)), users=users),
        _acl(properties, _VIEW),
        _acl(properties, _MODIFY),
        _acl(properties, _ADMIN),
        properties.get(_MAPPING, _SHELL) == _SHELL,
    )


def _acl(properties: Mapping[str, str], key: str) -> Acl:
    texts = [properties.get(name, "") for name in (key, key + _GROUPS)]
    users, groups = (
        frozenset(name for entry in text.split(",") if (name := entry.strip(TRIMMED)))
        for text in texts
    )
    if WILDCARD in users | groups:
        return Acl(text=" ".join(texts), allows_all=True)
    return Acl(text=" ".join(texts), users=users, groups=groups)
