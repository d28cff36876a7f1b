"""Computes what a cluster's bindings grant, and what a change to a role or binding affects.

Each binding grants its subjects some targets, which depend only on the binding and its role. A user
who may write bindings in a namespace can multiply subjects by names, so each namespace has a limit:
if its bindings exceed it, none of them grants anything. RBAC only grants, so the limit opens no
queue. The result does not depend on the order of the objects.
"""

import hashlib
import json
from collections import Counter
from collections.abc import Generator, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from queuegate.policy.acl import EMPTY, Acl, Origins
from queuegate.policy.named_grants import KINDS, Kind, level_of
from queuegate.policy.reach import SubjectKind
from queuegate_server.formats.kubernetes_rbac.objects import Binding, Key, RbacRole

MAX_NAMESPACE_GRANTS: Final = 50_000
"""The maximum number of subject-target pairs in the bindings of a namespace, and in all
ClusterRoleBindings."""
MAX_GRANTS: Final = 2_000_000
"""The maximum number of such pairs in a cluster."""
MAX_ORIGINS: Final = 10
"""The maximum number of origins of one entry. The first ones in alphabetical order are kept."""
_DIGEST_BITS: Final = 256
_NO_BINDINGS: Final[Mapping[Key, Binding]] = {}

Grants = tuple[tuple[Kind, str], ...]
"""What a role grants: kinds of queues, each with the level of a name, or empty for all names."""


class TooManyGrants(Exception):
    """The cluster's bindings grant more than `MAX_GRANTS`."""


@dataclass(frozen=True, slots=True)
class RbacOptions:
    """Options for reading RBAC."""

    verb: str = "use"
    """The verb that grants the use of a queue."""
    namespaced_grants: bool = False
    """Whether RoleBindings may grant the queues of KAI and Volcano, which have no namespace, to
    objects of their namespace."""
    users_prefix: str = ""
    groups_prefix: str = ""
    """The prefixes that the API server adds to the names of users and groups. Names in requests and
    directories lack them.
    """

    def has_namespaces(self, kind: Kind) -> bool:
        """Return whether the paths of a kind have a namespace."""
        return kind.is_namespaced or (self.namespaced_grants and kind.may_be_namespaced)


class GrantTarget(NamedTuple):
    """What a binding grants: the queues of a kind, in a namespace and with a name."""

    kind: str
    """The level of the kind."""
    namespace: str
    """Empty for a cluster-wide grant."""
    name: str
    """The level of the name; empty for all names."""


def role_grants(role: RbacRole, options: RbacOptions) -> Generator[None, None, Grants]:
    """Return what a role grants, without duplicates. Runs in short steps."""
    grants: dict[tuple[Kind, str], None] = {}
    for rule in role.rules:
        yield
        for kind in KINDS:
            if not rule.allows(options.verb, kind.group, kind.resource):
                continue
            for name in rule.names or ("",):
                # Skip a name that cannot be a level, because no queue has such a name.
                level = level_of(name) if rule.names else name
                if level is not None:
                    grants[kind, level] = None
    return (*grants,)


class GrantTable:
    """A cluster's bindings, by target."""

    def __init__(self, options: RbacOptions) -> None:
        self._options = options
        self.bindings: dict[GrantTarget, dict[Key, Binding]] = {}
        self.left_out: frozenset[str] = frozenset()
        """The namespaces whose bindings grant nothing because they exceed the limit. An empty name
        stands for the ClusterRoleBindings."""
        self.digest = 0
        """The sum of the digests of the table's entries, in any order. It is only displayed and
        decides nothing: a user who chooses many entries can choose the sum."""
        self._known: dict[Key, Binding] = {}
        self._of_role: dict[Key, dict[Key, None]] = {}
        self._grants: dict[Key, Grants] = {}
        """The grants of the roles that have any."""
        self._entered: dict[Key, tuple[Binding, tuple[GrantTarget, ...]]] = {}
        self._costs: dict[Key, int] = {}
        self._sums: Counter[str] = Counter()

    def change(
        self, roles: Mapping[Key, RbacRole | None], bindings: Mapping[Key, Binding | None]
    ) -> Generator[None, None, Iterable[GrantTarget]]:
        """Add, replace and delete roles and bindings; a value of None deletes the entry. Runs in
        short steps.

        Returns the targets whose bindings have changed. Raises TooManyGrants; the table must not be
        used afterwards.
        """
        concerned: dict[Key, None] = {}
        for key, role in roles.items():
            grants = () if role is None else (yield from role_grants(role, self._options))
            if grants != self._grants.get(key, ()):
                concerned |= self._of_role.get(key, {})
            if grants:
                self._grants[key] = grants
            else:
                self._grants.pop(key, None)
        for key, binding in bindings.items():
            yield
            self._replace(key, binding)
            concerned[key] = None
        for key in concerned:
            yield
            self._count(key)
        yield from self._judge_namespaces(concerned)
        changed: dict[GrantTarget, None] = {}
        for key in concerned:
            yield
            yield from self._leave(key, changed)
            yield from self._enter(key, changed)
        return changed

    def acl(self, *of: GrantTarget) -> Generator[None, None, Acl]:
        """Return the ACL built from the bindings of some targets. Runs in short steps."""
        users: dict[str, list[str]] = {}
        groups: dict[str, list[str]] = {}
        for target in of:
            for binding in self.bindings.get(target, _NO_BINDINGS).values():
                yield
                origin = binding.origin
                for kind, name in dict.fromkeys(binding.subjects):
                    names = users if kind is SubjectKind.USER else groups
                    origins = names.setdefault(name, [])
                    origins.append(origin)
                    if len(origins) >= 2 * MAX_ORIGINS:
                        origins.sort()
                        del origins[MAX_ORIGINS:]
        if not users and not groups:
            return EMPTY
        of_users = yield from _sorted_origins(users)
        of_groups = yield from _sorted_origins(groups)
        origins_of_all = Origins(of_users, of_groups)
        return Acl(users=frozenset(users), groups=frozenset(groups), origins=origins_of_all)

    def _replace(self, key: Key, binding: Binding | None) -> None:
        old = self._known.pop(key, None)
        if old is not None:
            others = self._of_role[old.role]
            del others[key]
            if not others:
                del self._of_role[old.role]
        if binding is not None:
            self._known[key] = binding
            self._of_role.setdefault(binding.role, {})[key] = None

    def _count(self, key: Key) -> None:
        """Count what a binding grants."""
        binding = self._known.get(key)
        cost = 0
        if binding is not None:
            grants = self._grants.get(binding.role, ())
            cost = len(grants) * max(1, len(binding.subjects))
        self._sums[key[0]] += cost - self._costs.pop(key, 0)
        if cost:
            self._costs[key] = cost

    def _judge_namespaces(self, concerned: dict[Key, None]) -> Iterator[None]:
        """Exclude the namespaces that exceed the limit, and add the bindings that this affects."""
        left_out = set(self.left_out)
        for namespace in {key[0] for key in concerned}:
            if self._sums[namespace] > MAX_NAMESPACE_GRANTS:
                left_out.add(namespace)
            else:
                left_out.discard(namespace)
            if not self._sums[namespace]:
                del self._sums[namespace]
        if turned := left_out ^ self.left_out:
            for key in self._known:
                yield
                if key[0] in turned:
                    concerned[key] = None
        self.left_out = frozenset(left_out)
        if sum(each for name, each in self._sums.items() if name not in left_out) > MAX_GRANTS:
            raise TooManyGrants(
                f"the cluster's bindings have more than {MAX_GRANTS} pairs of a subject and a queue"
            )

    def _enter(self, key: Key, changed: dict[GrantTarget, None]) -> Iterator[None]:
        binding = self._known.get(key)
        grants = () if binding is None else self._grants.get(binding.role, ())
        if binding is None or not grants or binding.namespace in self.left_out:
            return
        targets = tuple(
            GrantTarget(kind.level, binding.namespace, name)
            for kind, name in grants
            if not binding.namespace or self._options.has_namespaces(kind)
        )
        self._entered[key] = binding, targets
        self._add_digest(binding, targets, 1)
        for target in targets:
            yield
            self.bindings.setdefault(target, {})[key] = binding
            changed[target] = None

    def _leave(self, key: Key, changed: dict[GrantTarget, None]) -> Iterator[None]:
        entered = self._entered.pop(key, None)
        if entered is None:
            return
        self._add_digest(*entered, -1)
        for target in entered[1]:
            yield
            others = self.bindings[target]
            del others[key]
            if not others:
                del self.bindings[target]
            changed[target] = None

    def _add_digest(self, binding: Binding, targets: tuple[GrantTarget, ...], sign: int) -> None:
        self.digest += sign * digest((binding.origin, binding.subjects, targets))
        self.digest %= 1 << _DIGEST_BITS


def _sorted_origins(
    names: Mapping[str, list[str]],
) -> Generator[None, None, dict[str, tuple[str, ...]]]:
    origins = {}
    for name, of_name in names.items():
        yield
        origins[name] = tuple(sorted(of_name)[:MAX_ORIGINS])
    return origins


def bindings_of(namespace: str) -> str:
    """Return what messages call a namespace's bindings or, without a namespace, the cluster's."""
    return f"the bindings of the namespace {namespace}" if namespace else "the ClusterRoleBindings"


def digest(value: object) -> int:
    """Return the SHA-256 of a value, which consists of tuples and strings, as a number."""
    return int.from_bytes(hashlib.sha256(json.dumps(value).encode()).digest())
