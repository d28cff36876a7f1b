"""The grant that a denied user lacks under Kubernetes RBAC, as Kubernetes writes it. Pure."""

import hashlib
import json
import re
from typing import Final, NamedTuple, Self

from queuegate.policy.named_grants import (
    KINDS,
    NO_NAMESPACE,
    Kind,
    NamedGrants,
    name_of,
    service_account,
)
from queuegate.policy.names import SEPARATOR

_API: Final = "rbac.authorization.k8s.io"
_NOT_IN_NAMES: Final = re.compile(r"[/%]")
_MAX_NAME: Final = 253
_DIGITS: Final = 16
"""The number of hexadecimal digits that replace a user name that RBAC does not allow in object
names.
"""


class MissingGrant(NamedTuple):
    """The permission to use a queue, which a user lacks."""

    verb: str
    kind: Kind
    namespace: str
    """Empty for a cluster-wide grant."""
    name: str
    """Empty for all queues of the kind."""
    user: str
    name_in_questions: str | None
    """The name by which callers of queuegate know the user; None if they cannot name the user."""

    @classmethod
    def of(cls, path: str, user: str, grants: NamedGrants) -> Self | None:
        """Return the grant for the queue at a path; None for a path above all kinds."""
        _, *levels = path.split(SEPARATOR)
        kind = next((each for each in KINDS if levels[:1] == [each.level]), None)
        if kind is None:
            return None
        names = levels[1:]
        namespace = names.pop(0) if names and kind.level in grants.with_namespaces else ""
        name = name_of(names[0]) if names else ""
        namespace = namespace if namespace != NO_NAMESPACE else ""
        return cls(grants.verb, kind, namespace, name, user, grants.name_in_questions(user))

    def __str__(self) -> str:
        """Return the grant in words, such as `use localqueues.kueue.x-k8s.io/training in ml`."""
        resource = f"{self.verb} {self.kind.resource}.{self.kind.group}"
        name = f"/{self.name}" if self.name else ""
        return f"{resource}{name}{f' in {self.namespace}' if self.namespace else ''}"

    def manifests(self) -> str:
        """Return a role and its binding, in YAML, that grant the permission to the user."""
        prefix = "" if self.namespace else "Cluster"
        role = "-".join(filter(None, (self.verb, self.kind.level, self.name)))
        # A separate binding, so that applying it does not change any other. RBAC allows colons in
        # names; the role's name has none.
        binding = f"{role}:{self.user}"
        if len(binding) > _MAX_NAME or _NOT_IN_NAMES.search(self.user):
            binding = f"{role}:{hashlib.sha256(self.user.encode()).hexdigest()[:_DIGITS]}"
        names = f", resourceNames: {_list(self.name)}" if self.name else ""
        return (
            f"{self._head(f'{prefix}Role', role)}"
            f"rules: [{{apiGroups: {_list(self.kind.group)}, resources: {_list(self.kind.resource)}"
            f"{names}, verbs: {_list(self.verb)}}}]\n"
            "---\n"
            f"{self._head(f'{prefix}RoleBinding', binding)}"
            f"roleRef: {{apiGroup: {_API}, kind: {prefix}Role, name: {json.dumps(role)}}}\n"
            f"subjects: [{_subject(self.user)}]\n"
        )

    def _head(self, kind: str, name: str) -> str:
        namespace = f", namespace: {json.dumps(self.namespace)}" if self.namespace else ""
        metadata = f"{{name: {json.dumps(name)}{namespace}}}"
        return f"apiVersion: {_API}/v1\nkind: {kind}\nmetadata: {metadata}\n"


def _list(text: str) -> str:
    return json.dumps([text])


def _subject(user: str) -> str:
    if (account := service_account(user)) is not None:
        name = f"name: {json.dumps(account.name)}, namespace: {json.dumps(account.namespace)}"
        return f"{{kind: ServiceAccount, {name}}}"
    return f"{{apiGroup: {_API}, kind: User, name: {json.dumps(user)}}}"
