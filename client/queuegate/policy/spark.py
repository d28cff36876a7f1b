"""Spark's own access rules, from the properties of an application (Spark 4, SecurityManager)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from queuegate.policy.acl import WILDCARD, Acl
from queuegate.policy.applications import DISABLED, Action, Judged, Listed, ListKind, judge
from queuegate.policy.yarn_acl import TRIMMED

_ENABLE: Final = "spark.acls.enable"
_MAPPING: Final = "spark.user.groups.mapping"
_SHELL: Final = "org.apache.spark.security.ShellBasedGroupsMappingProvider"
_TRUTHS: Final = {"true": True, "false": False}


class SparkError(ValueError):
    """A property has a value that Spark refuses; the text says which."""


@dataclass(frozen=True, slots=True)
class SparkAcls:
    """Who may see, change and administer an application of Spark."""

    enabled: bool
    owners: Acl
    """Whom Spark always lets see and change: the user of the application and of its process."""
    view: Acl
    modify: Acl
    admin: Acl
    uses_groups: bool
    """False if `spark.user.groups.mapping` names a class of the application's own: it
    cannot be asked here, and Spark denies where its mapping fails."""

    def decide(self, action: Action, user: str | None, groups: Sequence[str] | None) -> Judged:
        """Decide about an action. A user of None means that nobody had to log in.

        `groups` are all groups of the user, or None while they are not known. Raises
        ValueError for a move, which is none of Spark's.
        """
        if not self.enabled or user is None:
            return DISABLED
        admin = Listed(ListKind.APPLICATION_ADMIN, "", self.admin)
        owners = Listed(ListKind.OWNER, "", self.owners)
        lists: tuple[Listed, ...]
        match action:
            case Action.VIEW | Action.VIEW_LOGS:
                lists = (owners, Listed(ListKind.VIEW, "", self.view), admin)
            case Action.MODIFY:
                lists = (owners, Listed(ListKind.MODIFY, "", self.modify), admin)
            case Action.ADMIN:
                lists = (admin,)
            case _:
                raise ValueError(action)
        return judge(lists, user, groups if self.uses_groups else ())

    def for_yarn(self) -> tuple[Acl, Acl]:
        """Return the view and the modify ACL that Spark hands to YARN, enabled or not."""
        return self._joined(self.view), self._joined(self.modify)

    def _joined(self, acl: Acl) -> Acl:
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
    """Read the properties. Raises SparkError if Spark would refuse one.

    A list is parted at commas only, its entries are trimmed, and a `*` anywhere in it, also
    among the groups, means everybody.
    """
    text = properties.get(_ENABLE, "false")
    enabled = _TRUTHS.get(text.strip(TRIMMED).lower())
    if enabled is None:
        raise SparkError(f"{_ENABLE} should be true or false, not {text!r}")
    users = frozenset({spark_user, process_user}) - {""}
    return SparkAcls(
        enabled,
        Acl(text=",".join(sorted(users)), users=users),
        _acl(properties, "spark.ui.view.acls"),
        _acl(properties, "spark.modify.acls"),
        _acl(properties, "spark.admin.acls"),
        properties.get(_MAPPING, _SHELL) == _SHELL,
    )


def _acl(properties: Mapping[str, str], key: str) -> Acl:
    texts = [properties.get(name, "") for name in (key, f"{key}.groups")]
    users, groups = (
        frozenset(name for entry in text.split(",") if (name := entry.strip(TRIMMED)))
        for text in texts
    )
    if WILDCARD in users | groups:
        return Acl(text=" ".join(texts), allows_all=True)
    return Acl(text=" ".join(texts), users=users, groups=groups)
