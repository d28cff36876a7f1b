"""Access control lists and YuniKorn's grammar for them.

The grammar follows YuniKorn's `NewACL` (`pkg/common/security/acl.go`). `yarn_acl.py` parses YARN's
grammar into the same type, `Acl`.
"""

import functools
import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, NamedTuple

from queuegate.policy.names import CONTROL_CHARACTERS

WILDCARD: Final = "*"

# Unicode White_Space. `str.strip()` would also remove U+001C to U+001F.
WHITE_SPACE: Final = (
    "\t\n\v\f\r \x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007"
    "\u2008\u2009\u200a\u2028\u2029\u202f\u205f\u3000"
)


class AclNames(StrEnum):
    """The set of names allowed in an ACL (partition setting `acl_names`). Each set includes the
    previous set.
    """

    YUNIKORN = "yunikorn"
    """Names accepted by YuniKorn's ACL parser, which rejects `:`, `#` and `/`, and dots in group
    names.
    """
    EXTENDED = "extended"
    """Names that YuniKorn accepts in limits, including `system:serviceaccount:ns:name` and dotted
    groups.
    """
    ANY = "any"
    """Any name without spaces, commas or control characters, except `*`."""


_ANY: Final = rf"(?!\*(?:[ ,]|\Z))[^ ,{CONTROL_CHARACTERS}]++"
_USER_PATTERNS: Final = {
    AclNames.YUNIKORN: re.compile(r"[_a-zA-Z][a-zA-Z0-9_.@-]*+[$]?"),
    AclNames.EXTENDED: re.compile(r"[_a-zA-Z][a-zA-Z0-9:#/_.@-]*+[$]?"),
    AclNames.ANY: re.compile(_ANY),
}
_GROUP_PATTERNS: Final = {
    AclNames.YUNIKORN: re.compile(r"[_a-zA-Z][a-zA-Z0-9_-]*+"),
    AclNames.EXTENDED: re.compile(r"[_a-zA-Z][a-zA-Z0-9:_.-]*+"),
    AclNames.ANY: re.compile(_ANY),
}


def _lists_of(user: str, group: str) -> re.Pattern[str]:
    """Return a pattern for ACLs in which all users match `user` and all groups match `group`."""
    users, groups = (f"(?:{name}(?:,{name})*+)?" for name in (user, group))
    return re.compile(f"{users}(?: {groups})?")


_VALID_NAMES: Final = {
    names: _lists_of(_USER_PATTERNS[names].pattern, _GROUP_PATTERNS[names].pattern)
    for names in AclNames
}
_NOBODY: Final[frozenset[str]] = frozenset()
_MANY_NAMES: Final = 4_096


class AclError(ValueError):
    """An invalid ACL. The message gives the reason."""


@dataclass(frozen=True, eq=False, slots=True)
class Origins:
    """The origins, such as `RoleBinding ml/team, ClusterRole use`, of the entries in an ACL without
    text. Each user or group in the ACL has one or more origins.
    """

    users: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    groups: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def __len__(self) -> int:
        """Return the number of entries."""
        return len(self.users) + len(self.groups)


NO_ORIGINS: Final = Origins()


class Acl(NamedTuple):
    """A parsed ACL. An empty ACL grants no access."""

    text: str = ""
    users: frozenset[str] = _NOBODY
    groups: frozenset[str] = _NOBODY
    allows_all: bool = False
    dropped_users: tuple[str, ...] = ()
    """Invalid names in the user list, in order. They never match."""
    dropped_groups: tuple[str, ...] = ()
    """Invalid names in the group list, in order. They never match."""
    proxies: frozenset[str] = _NOBODY
    """Services granted access on behalf of any user (Hadoop's `~name`)."""
    origins: Origins = NO_ORIGINS
    """The origins of the entries, if the ACL has no text because it is built from role bindings."""

    def with_shared_names(self) -> "Acl":
        """Return an equal ACL with interned names, to save memory if the ACL is kept."""
        return self._replace(
            users=_share(self.users), groups=_share(self.groups), proxies=_share(self.proxies)
        )

    @property
    def is_empty(self) -> bool:
        """Whether the ACL grants access to nobody."""
        return not (self.allows_all or self.users or self.groups or self.proxies)


EMPTY: Final = Acl()


def parse(text: str, names: AclNames = AclNames.YUNIKORN) -> Acl:
    """Parse `users[ groups]`, where each list is comma-separated or `*`.

    A single space (U+0020) separates the lists. A list that is exactly `*` allows everyone; a `*`
    among other entries is an invalid name. Invalid names are dropped and recorded in
    `dropped_users` and `dropped_groups`.

    Raises:
        AclError: The text contains more than one space.
    """
    if not text:
        return EMPTY
    users_field, _, groups_field = text.partition(" ")
    if has_only_valid_names(text, names):
        return Acl(text, _names(users_field), _names(groups_field))
    check(text)
    if text.strip(WHITE_SPACE) == WILDCARD or WILDCARD in (users_field, groups_field):
        return Acl(text=text, allows_all=True)
    users, dropped_users = _split_names(users_field, _USER_PATTERNS[names])
    groups, dropped_groups = _split_names(groups_field, _GROUP_PATTERNS[names])
    return Acl(
        text=text,
        users=users,
        groups=groups,
        dropped_users=dropped_users,
        dropped_groups=dropped_groups,
    )


@functools.cache
def yunikorn_grammar(names: AclNames) -> Callable[[str], Acl]:
    """Return `parse` bound to the given names. Repeated calls return the same object."""
    return functools.partial(parse, names=names)


def check(text: str) -> None:
    """Raise AclError if `parse` would reject the text."""
    spaces = text.count(" ")
    if spaces > 1:
        raise AclError(
            f"an ACL has at most one space, between users and groups; this one has {spaces}"
        )


def has_only_valid_names(text: str, names: AclNames) -> bool:
    """Return whether all entries are valid names. If so, parsing can be deferred until the ACL is
    needed, because there are no invalid names to report.
    """
    # A `*` surrounded by white space is the wildcard, not a name.
    return _VALID_NAMES[names].fullmatch(text) is not None and text.strip(WHITE_SPACE) != WILDCARD


def _names(field: str) -> frozenset[str]:
    """Split a list of valid names."""
    return frozenset(field.split(",")) if field else _NOBODY


def _split_names(field: str, pattern: re.Pattern[str]) -> tuple[frozenset[str], tuple[str, ...]]:
    """Split a list into valid and invalid names, skipping empty entries."""
    valid = []
    dropped = []
    for entry in field.split(","):
        if pattern.fullmatch(entry):
            valid.append(entry)
        elif entry:
            dropped.append(entry)
    return frozenset(valid), tuple(dropped)


def _share(names: frozenset[str]) -> frozenset[str]:
    # `map` is faster, but blocks other threads; a generator lets them run between names.
    is_long = len(names) > _MANY_NAMES
    return frozenset((sys.intern(name) for name in names) if is_long else map(sys.intern, names))


def accepted_names(acl: Acl, names: AclNames) -> tuple[frozenset[str], frozenset[str]]:
    """Return the users and groups in an ACL whose names are allowed by `names`."""
    user, group = _USER_PATTERNS[names], _GROUP_PATTERNS[names]
    return (
        frozenset(name for name in acl.users if user.fullmatch(name)),
        frozenset(name for name in acl.groups if group.fullmatch(name)),
    )


def names_for(kind: str, name: str) -> AclNames | None:
    """Return the strictest set that allows a user or group name, or None if no set does."""
    patterns = _USER_PATTERNS if kind == "user" else _GROUP_PATTERNS
    return next((names for names in AclNames if patterns[names].fullmatch(name)), None)
