"""Random clusters: RBAC, queues, and questions about them."""

import json
import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from queuegate.policy.named_grants import KINDS, NO_NAMESPACE, Kind, counting_groups, level_of
from queuegate_server.formats.kubernetes_rbac.grants import RbacOptions

API = "rbac.authorization.k8s.io"
NAMESPACES = ("ml", "web", "batch-1")
QUEUES = ("training", "a.b", "x")
UNLISTED = ("later", "a-b", "Training", "", "a_dot_b", "*", "n" * 64, "n" * 65)
"""Names that no queue has, some of which none can have."""
USERS = ("ann", "bob jones", "system:serviceaccount:ml:runner", "system:serviceaccount:web:runner")
ODD_USERS = ("*", "system:anonymous", "system:serviceaccount:ml", "Ann", "dev")
GROUPS = ("dev", "team a", "*", "ops")
SYSTEM_GROUPS = (
    *("system:masters", "system:authenticated", "system:unauthenticated"),
    *("system:serviceaccounts", "system:serviceaccounts:ml"),
)
VERBS = ("use", "*", "get", "Use")
_RESOURCES = (
    *dict.fromkeys(kind.resource for kind in KINDS),
    *("*", "*/status", "localqueues/status", "pods"),
)
_GROUPS_OF_APIS = (*dict.fromkeys(kind.group for kind in KINDS), "*", "", "batch")


@dataclass(frozen=True)
class Question:
    """May this user use this queue?"""

    user: str
    groups: tuple[str, ...]
    """Those that a directory or a caller gives."""
    kind: Kind
    namespace: str
    """Empty if the question comes from no namespace."""
    name: str

    def path(self, options: RbacOptions) -> str | None:
        """Return the path of the queue; None if no path can stand for it."""
        level = level_of(self.name)
        if level is None:
            return None
        above = [self.namespace or NO_NAMESPACE] if options.has_namespaces(self.kind) else []
        return ".".join((self.kind.path, *above, level))

    def for_oracle(self, verb: str) -> dict[str, Any]:
        """Return the question to Kubernetes, with the groups that the API server would see."""
        return {
            "user": self.user,
            "groups": counting_groups(self.user, self.groups),
            "verb": verb,
            "group": self.kind.group,
            "resource": self.kind.resource,
            "namespace": self.namespace,
            "name": self.name,
        }


class RandomCluster:
    """A cluster's objects."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self.options = RbacOptions(
            rng.choice(["use", "use", "get"]), namespaced_grants=rng.random() < 0.4
        )
        self.roles = [*self._roles("Role", NAMESPACES), *self._roles("ClusterRole", ("",))]
        self.bindings = [
            *self._bindings("RoleBinding", NAMESPACES),
            *self._bindings("ClusterRoleBinding", ("",)),
        ]
        self.queues = [*self._queues()]

    @property
    def objects(self) -> list[dict[str, Any]]:
        """All objects, as `kubectl get` prints them."""
        return [*self.roles, *self.bindings, *self.queues]

    def for_oracle(self, questions: list[Question]) -> dict[str, Any]:
        """Return the objects and the questions as the oracle reads them."""
        lists = {
            f"{kind[0].lower()}{kind[1:]}s": [each for each in some if each["kind"] == kind]
            for some in (self.roles, self.bindings)
            for kind in sorted({each["kind"] for each in some})
        }
        return {**lists, "questions": [each.for_oracle(self.options.verb) for each in questions]}

    @property
    def text(self) -> bytes:
        """The objects as one list, in JSON."""
        return json.dumps({"apiVersion": "v1", "kind": "List", "items": self.objects}).encode()

    def questions(self, number: int) -> list[Question]:
        """Return random questions."""
        rng = self._rng
        asked = []
        for _ in range(number):
            kind = rng.choice(KINDS)
            namespace = rng.choice((*NAMESPACES, "other"))
            if not self.options.has_namespaces(kind) or (
                not kind.is_namespaced and rng.random() < 0.2
            ):
                namespace = ""
            groups = rng.sample(GROUPS, rng.choice([0, 1, 2]))
            if rng.random() < 0.1:
                groups.append(rng.choice(SYSTEM_GROUPS))
            user = rng.choice(USERS if rng.random() < 0.8 else ODD_USERS)
            name = rng.choice(QUEUES if rng.random() < 0.8 else UNLISTED)
            asked.append(Question(user, tuple(groups), kind, namespace, name))
        return asked

    def _roles(self, kind: str, namespaces: tuple[str, ...]) -> Iterator[dict[str, Any]]:
        for namespace in namespaces:
            for name in ("one", "two", "three"):
                rules = [self._rule() for _ in range(self._rng.choice([0, 1, 2, 3]))]
                yield {**_object(API, kind, namespace, name), "rules": rules}

    def _rule(self) -> dict[str, Any]:
        rng = self._rng
        kind = rng.choice(KINDS)
        rule: dict[str, Any] = {
            "verbs": rng.sample(VERBS, rng.choice([0, 1, 2])),
            "apiGroups": [kind.group, *rng.sample(_GROUPS_OF_APIS, rng.choice([0, 1, 4]))],
            "resources": [kind.resource, *rng.sample(_RESOURCES, rng.choice([0, 1, 4]))],
        }
        if rng.random() < 0.8:
            rule["verbs"].append(self.options.verb)
        if rng.random() < 0.6:
            rule["resourceNames"] = rng.sample((*QUEUES, *UNLISTED), rng.choice([0, 1, 1, 3]))
        return rule

    def _bindings(self, kind: str, namespaces: tuple[str, ...]) -> Iterator[dict[str, Any]]:
        rng = self._rng
        for namespace in namespaces:
            for number in range(rng.choice([1, 2, 4])):
                role_kind = rng.choice(["Role", "ClusterRole"]) if namespace else "ClusterRole"
                role = rng.choice(["one", "one", "two", "three", "missing"])
                yield {
                    **_object(API, kind, namespace, f"b{number}"),
                    "roleRef": {"apiGroup": API, "kind": role_kind, "name": role},
                    "subjects": [self._subject(namespace) for _ in range(rng.choice([0, 1, 3]))],
                }

    def _subject(self, namespace: str) -> dict[str, Any]:
        rng = self._rng
        kind = rng.choice(["User", "Group", "Group", "ServiceAccount"])
        if kind == "User":
            return {"apiGroup": API, "kind": kind, "name": rng.choice((*USERS, *ODD_USERS))}
        if kind == "Group":
            return {"apiGroup": API, "kind": kind, "name": rng.choice((*GROUPS, *SYSTEM_GROUPS))}
        home = {"namespace": rng.choice(NAMESPACES)} if not namespace or rng.random() < 0.5 else {}
        return {"kind": kind, "name": "runner", **home}

    def _queues(self) -> Iterator[dict[str, Any]]:
        for kind in KINDS:
            for namespace in NAMESPACES if kind.is_namespaced else ("",):
                for name in self._rng.sample(QUEUES, self._rng.choice([0, 1, 2])):
                    yield _object(kind.group, kind.object_kind, namespace, name)


def _object(group: str, kind: str, namespace: str, name: str) -> dict[str, Any]:
    metadata = {"name": name, **({"namespace": namespace} if namespace else {})}
    return {"apiVersion": f"{group}/v1", "kind": kind, "metadata": metadata}
