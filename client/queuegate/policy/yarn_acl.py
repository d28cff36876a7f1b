"""YARN's ACL grammar, as documented and as in Hadoop 3.4's code, and a cluster's ACL settings."""

import functools
import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from queuegate.policy.acl import EMPTY, WILDCARD, Acl
from queuegate.policy.chain import CLUSTER, Chain, ChainEnd, ChainIndexes
from queuegate.policy.decision import ACLS_DISABLED, NO_MATCH

TRIMMED: Final = "".join(map(chr, range(0x21)))
"""The characters removed by Java's `String.trim`."""
_SEPARATOR: Final = re.compile("[,\n]")
_SPACE: Final = re.compile(r"\s")
_PROXY: Final = "~"
MAX_SHOWN_NAMES: Final = 10


class Semantics(StrEnum):
    """The rules that apply where YARN's documentation and code differ."""

    DOCUMENTED = "documented"
    """The rules in YARN's documentation."""
    HADOOP = "hadoop"
    """Hadoop 3.4's behavior."""


@dataclass(frozen=True, slots=True)
class Cluster:
    """A YARN cluster's settings that affect access to its queues."""

    semantics: Semantics
    admins: Acl
    """`yarn.admin.acl`, plus the user who runs the ResourceManager."""
    acls_enabled: bool = True
    """`yarn.acl.enable`."""
    checks_submission_always: bool = False
    """True for the fair scheduler, which checks submit ACLs even if ACLs are disabled."""
    has_short_names: bool = False
    """True for the capacity scheduler, where a name without dots refers to the queue whose last
    level is that name."""


def chains_above_root(cluster: Cluster | None) -> tuple[Chain, Chain]:
    """Return the chains above the root, for submission and administration.

    Under documented semantics, the cluster's administrators administer every queue. Under Hadoop's
    semantics, they have access only to applications.
    """
    indexes = ChainIndexes()
    nobody = ChainEnd(NO_MATCH, indexes)
    if cluster is None:
        return nobody, nobody
    documented = cluster.semantics is Semantics.DOCUMENTED
    if not cluster.acls_enabled:
        everyone = ChainEnd(ACLS_DISABLED, indexes)
        checks_submission = cluster.checks_submission_always and not documented
        return nobody if checks_submission else everyone, everyone
    chain = nobody.extend(CLUSTER, (cluster.admins,)) if documented else nobody
    return chain, chain


def parse_yarn(text: str, semantics: Semantics) -> Acl:
    """Parse `users[ groups]`, where each list is comma-separated or `*`.

    Any text is a valid ACL. Under documented semantics, only the exact text `*` allows everyone,
    text after a second space is ignored, and entries are not trimmed. Hadoop splits at the first
    space, trims both lists and their entries, and allows everyone if either trimmed list is `*`. In
    the user list, `~name` grants access to the service `name` acting on behalf of any user.
    """
    if text == WILDCARD:
        return Acl(text=text, allows_all=True)
    if not text:
        return EMPTY
    return _documented(text) if semantics is Semantics.DOCUMENTED else _hadoop(text)


@functools.cache
def yarn_grammar(semantics: Semantics) -> Callable[[str], Acl]:
    """Return `parse_yarn` bound to the given semantics. Repeated calls return the same object."""
    return functools.partial(parse_yarn, semantics=semantics)


def _documented(text: str) -> Acl:
    users_field, _, rest = text.partition(" ")
    groups_field, _, ignored = rest.partition(" ")
    users, odd_users = _usable(users_field)
    groups, odd_groups = _usable(groups_field)
    beyond = (name for name in re.split(r"[,\s]", ignored) if name)
    return Acl(text, users, groups, False, odd_users, (*odd_groups, *beyond))


def _usable(field: str) -> tuple[frozenset[str], tuple[str, ...]]:
    """Split a list into names and unusable entries.

    Documented semantics forbid white space in a list and do not define `~name`.
    """
    entries = [entry for entry in field.split(",") if entry]
    odd = tuple(name for name in entries if name.startswith(_PROXY) or _SPACE.search(name))
    return frozenset(entries).difference(odd), odd


def _hadoop(text: str) -> Acl:
    users_field, _, groups_field = text.partition(" ")
    if WILDCARD in (users_field.strip(TRIMMED), groups_field.strip(TRIMMED)):
        return Acl(text=text, allows_all=True)
    users = _entries(users_field)
    proxies = frozenset(name[1:] for name in users if name.startswith(_PROXY)) - {""}
    listed = frozenset(name for name in users if not name.startswith(_PROXY))
    return Acl(text, listed, frozenset(_entries(groups_field)), proxies=proxies)


def _entries(field: str) -> list[str]:
    return [name for entry in _SEPARATOR.split(field) if (name := entry.strip(TRIMMED))]


def describe_difference(text: str) -> str:
    """Describe how the two semantics differ for an ACL, or return an empty string if they agree."""
    documented = parse_yarn(text, Semantics.DOCUMENTED)
    hadoop = parse_yarn(text, Semantics.HADOOP)
    if (documented.allows_all, documented.users, documented.groups, documented.proxies) == (
        hadoop.allows_all,
        hadoop.users,
        hadoop.groups,
        hadoop.proxies,
    ):
        return ""
    return f"as documented it allows {_in_words(documented)}, in Hadoop {_in_words(hadoop)}"


def _quoted(name: str) -> str:
    return json.dumps(name, ensure_ascii=not name.isprintable())


def _in_words(acl: Acl) -> str:
    if acl.allows_all:
        return "everyone"
    impersonated = "every user impersonated by"
    kinds = (
        ("user", "users", acl.users),
        ("group", "groups", acl.groups),
        (impersonated, impersonated, acl.proxies),
    )
    parts = [
        f"{one if len(names) == 1 else more} "
        f"{', '.join(map(_quoted, sorted(names)[:MAX_SHOWN_NAMES]))}"
        f"{', …' if len(names) > MAX_SHOWN_NAMES else ''}"
        for one, more, names in kinds
        if names
    ]
    return " and ".join(parts) or "nobody"
