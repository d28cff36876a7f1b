"""Queues of Kubernetes schedulers, and who may use them under Kubernetes RBAC.

A queue has one path: `root.KIND.NAMESPACE.NAME`, or `root.KIND.NAME` if its kind is not namespaced.
RBAC grants by name: a cluster-wide grant that names `training` applies to every LocalQueue named
`training`, in any namespace, whether it exists or not. A policy lists the queues that exist and
those that a binding names in its namespace; `NamedGrants` has the ACLs of all other queues. The
rules are those in Kubernetes' `pkg/registry/rbac/validation/rule.go` and
`pkg/apis/rbac/v1/evaluation_helpers.go`.
"""

import re
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from queuegate.policy.acl import Acl
from queuegate.policy.created_queues import ANY_NAME
from queuegate.policy.names import ROOT, SEPARATOR

SYSTEM: Final = "system:"
"""The name prefix of Kubernetes' own users and groups."""
MASTERS: Final = "system:masters"
"""The group whose members the API server allows to do everything, whatever RBAC says."""
NO_NAMESPACE: Final = "@cluster"
"""The level that replaces the namespace if a question names no namespace, although the kind's
grants may be limited to one. No namespace has this name.
"""

_ANONYMOUS: Final = "system:anonymous"
SERVICE_ACCOUNT: Final = "system:serviceaccount:"
"""The prefix of service accounts' user names. `NAMESPACE:NAME` follows it."""
_DOT: Final = "_dot_"
_MAX_LEVEL: Final = 64
_OBJECT_NAME: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_LEVEL: Final = re.compile(rf"(?:[-a-z0-9]|{_DOT})+")
_LEVELS_BELOW_ROOT: Final = 3
"""The number of levels below the root in the path of a namespaced queue."""


class Kind(NamedTuple):
    """A kind of queue."""

    level: str
    """The level below the root. No two kinds have the same level."""
    group: str
    """The API group."""
    resource: str
    """The resource's name in RBAC rules."""
    object_kind: str
    """The `kind` of its objects."""
    is_namespaced: bool
    may_be_namespaced: bool = False
    """Whether RoleBindings may grant access to the kind, even though its objects are
    cluster-scoped.
    """

    @property
    def path(self) -> str:
        """The path of the queue above all queues of this kind."""
        return f"{ROOT}{SEPARATOR}{self.level}"


KINDS: Final = (
    Kind("localqueues", "kueue.x-k8s.io", "localqueues", "LocalQueue", is_namespaced=True),
    Kind("clusterqueues", "kueue.x-k8s.io", "clusterqueues", "ClusterQueue", is_namespaced=False),
    Kind("cohorts", "kueue.x-k8s.io", "cohorts", "Cohort", is_namespaced=False),
    Kind("kai-queues", "scheduling.run.ai", "queues", "Queue", False, may_be_namespaced=True),
    Kind(
        "volcano-queues", "scheduling.volcano.sh", "queues", "Queue", False, may_be_namespaced=True
    ),
    Kind("namespacequeues", "scheduling.volcano.sh", "namespacequeues", "NamespaceQueue", True),
    Kind("elasticquotas", "scheduling.sigs.k8s.io", "elasticquotas", "ElasticQuota", True),
)


def level_of(name: str) -> str | None:
    """Return the path level that represents an object's name, with `_dot_` for each dot.

    Returns None if the text is not an object's name, or is too long for a level. Different names
    never share a level.
    """
    level = name.replace(SEPARATOR, _DOT)
    is_name = len(level) <= _MAX_LEVEL and _OBJECT_NAME.fullmatch(name)
    return level if is_name else None


def name_of(level: str) -> str:
    """Return the object's name that a path level represents."""
    return level.replace(_DOT, SEPARATOR)


def counting_groups(user: str, groups: Sequence[str], prefix: str = "") -> tuple[str, ...]:
    """Return a user's effective groups, given groups that do not come from a request to the API
    server.

    These are the groups that Kubernetes itself gives the user, followed by those in `groups`, with
    the API server's prefix. Names in `groups` that begin with `system:` are left out, because only
    the API server may assert them.
    """
    return (*_own_groups(user), *(prefix + each for each in groups if not each.startswith(SYSTEM)))


class ServiceAccount(NamedTuple):
    """A service account."""

    namespace: str
    name: str

    @property
    def user(self) -> str:
        """The name of the account's user."""
        return f"{SERVICE_ACCOUNT}{self.namespace}:{self.name}"


def service_account(user: str) -> ServiceAccount | None:
    """Return the service account that a user name belongs to; None for any other user."""
    namespace, _, name = user.removeprefix(SERVICE_ACCOUNT).partition(":")
    is_account = user.startswith(SERVICE_ACCOUNT) and namespace and name
    return ServiceAccount(namespace, name) if is_account else None


def has_only_own_groups(user: str, prefix: str = "") -> bool:
    """Return whether all of the user's groups come from Kubernetes itself, so that no directory
    lists any. A user name without the API server's prefix is not in any directory.
    """
    return user == _ANONYMOUS or user.startswith(SERVICE_ACCOUNT) or not user.startswith(prefix)


def _own_groups(user: str) -> tuple[str, ...]:
    if user == _ANONYMOUS:
        return ("system:unauthenticated",)
    if (account := service_account(user)) is not None:
        accounts = "system:serviceaccounts"
        return (accounts, f"{accounts}:{account.namespace}", "system:authenticated")
    return ("system:authenticated",)


@dataclass(frozen=True)
class NamedGrants:
    """The paths of a cluster's queues, and the ACLs of queues that the policy does not list."""

    with_namespaces: frozenset[str]
    """The levels of the kinds whose paths have a namespace."""
    acls: Mapping[str, Mapping[str, Acl]]
    """The ACLs of cluster-wide grants by name, keyed by the kind's level, then by the queue's
    level.
    """
    verb: str = "use"
    """The verb that permits the use of a queue."""
    users_prefix: str = ""
    """The prefix that the API server adds to user names given by directories and callers."""
    groups_prefix: str = ""
    """The same, for group names."""

    def user(self, name: str) -> str:
        """Return the API server's name for a user whose name comes from a directory or a caller."""
        return name if name.startswith(SYSTEM) else f"{self.users_prefix}{name}"

    def name_in_questions(self, user: str) -> str | None:
        """Return the name by which callers know a user of the API server; None if they cannot name
        the user.

        It is the name for which `user` returns this user.
        """
        if user.startswith(SYSTEM):
            return user
        name = user.removeprefix(self.users_prefix)
        return name if name and self.user(name) == user else None

    def is_in_directory(self, group: str) -> bool:
        """Return whether a group of the API server may come from a directory, where it lacks the
        prefix.
        """
        name = group.removeprefix(self.groups_prefix)
        return group.startswith(self.groups_prefix) and not name.startswith(SYSTEM)

    def canonical_path(self, text: str) -> str | None:
        """Return the text if it is the path of a queue, a namespace or a kind; otherwise None."""
        root, *levels = text.split(SEPARATOR)
        if not levels:
            return text if root == ROOT else None
        kind, *names = levels
        with_namespace = kind in self.with_namespaces
        if root != ROOT or kind not in _LEVELS or len(names) > 1 + with_namespace:
            return None
        if with_namespace and names[:1] == [NO_NAMESPACE]:
            del names[0]
        return text if all(map(_is_level, names)) else None

    def acl(self, path: str) -> Acl | None:
        """Return the ACL of a queue that the policy does not list; None if no grant names it."""
        _, *levels = path.split(SEPARATOR)
        if len(levels) != _LEVELS_BELOW_ROOT:
            return None
        kind, _, name = levels
        return self.acls.get(kind, {}).get(name)

    def paths_below(self, path: str, queues: Container[str]) -> Iterator[str]:
        """Yield the paths of all queues below `path` that are named in grants but not listed in the
        policy.

        Args:
            path: The path of a queue.
            queues: The paths that the policy lists.
        """
        _, *levels = path.split(SEPARATOR)
        for kind, names in self.acls.items():
            if levels[:1] not in ([], [kind]) or len(levels) == _LEVELS_BELOW_ROOT:
                continue
            namespace = levels[1] if len(levels) > 1 else ANY_NAME
            for name in names:
                each = SEPARATOR.join((ROOT, kind, namespace, name))
                if each not in queues:
                    yield each


_LEVELS: Final = frozenset(kind.level for kind in KINDS)


def _is_level(text: str) -> bool:
    return len(text) <= _MAX_LEVEL and _LEVEL.fullmatch(text) is not None
