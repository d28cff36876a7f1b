"""Finds probable mistakes in a cluster's RBAC, and grants that are wider than they look."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from queuegate.policy.named_grants import KINDS, SYSTEM, Kind, level_of
from queuegate_server.formats.diagnostics import (
    Diagnostic,
    diagnostic_of,
    quoted,
    quoted_names,
    sort_diagnostics,
)
from queuegate_server.formats.findings.finding import Finding
from queuegate_server.formats.findings.table import finding
from queuegate_server.formats.kubernetes_rbac.grants import RbacOptions
from queuegate_server.formats.kubernetes_rbac.load import read_objects
from queuegate_server.formats.kubernetes_rbac.objects import At, Binding, Objects, RbacRole, Rule

_RBAC: Final = "rbac.authorization.k8s.io"
_MAY_GRANT: Final = ("bind", "escalate")
_MAX_SHOWN: Final = 5
_GROUPS: Final = frozenset(kind.group for kind in KINDS)
_RESOURCES: Final = frozenset(kind.resource for kind in KINDS)


def lint_rbac(data: bytes, file: str, options: RbacOptions) -> tuple[Diagnostic, ...]:
    """Return warnings about valid manifests. The arguments are those of `load_rbac`."""
    objects, _ = read_objects(data, file)
    linter = _Linter(objects, options)
    found = [
        diagnostic_of(each, at.file, at.line, at.column)
        for check in (linter.bindings, linter.roles, linter.queues)
        for at, each in check()
    ]
    return tuple(sort_diagnostics(dict.fromkeys(found)))


_Found = Iterator[tuple[At, Finding]]


@dataclass(frozen=True)
class _Linter:
    objects: Objects
    options: RbacOptions

    @cached_property
    def _granted(self) -> dict[tuple[str, str], Binding]:
        """The first binding that grants each role to people, not only to parts of Kubernetes."""
        granted: dict[tuple[str, str], Binding] = {}
        for each in self.objects.bindings.values():
            if any(not subject.name.startswith(SYSTEM) for subject in each.subjects):
                granted.setdefault(each.role, each)
        return granted

    @cached_property
    def _names(self) -> dict[tuple[str, str], set[str]]:
        """Queue names by the level of their kind and by namespace; "" stands for all namespaces."""
        names: dict[tuple[str, str], set[str]] = {}
        for kind, namespace, name in self.objects.queues:
            for above in (namespace, ""):
                names.setdefault((kind, above), set()).add(name)
        return names

    def bindings(self) -> _Found:
        """Yield findings about bindings."""
        for each in self.objects.bindings.values():
            binding = _in_words(each)
            role = self.objects.roles.get(each.role)
            if role is None:
                name = f"{each.role_kind} {quoted(each.role_name)}"
                yield each.at, finding("missing-role", binding=binding, role=name)
            else:
                yield from self._wide_in_namespace(each, role)
            for kind, name in each.subjects:
                if name == "*":
                    star = {"kind": str(kind), "name": quoted(name)}
                    yield each.at, finding("literal-star", binding=binding, **star)

    def roles(self) -> _Found:
        """Yield findings about roles."""
        for role in self.objects.roles.values():
            if role.is_aggregated and not role.rules:
                yield role.at, finding("aggregated-role", name=quoted(role.name))
            for rule in role.rules:
                for found in (
                    *self._wide(role, rule),
                    *self._of_no_queue(role, rule),
                    *self._names_of_queues(role, rule),
                ):
                    yield role.at, found

    def queues(self) -> _Found:
        """Yield findings about queues."""
        for each in self.objects.queues.values():
            if level_of(each.name) is None:
                about = {"kind": each.kind.object_kind, "name": quoted(each.name)}
                yield each.at, finding("queue-without-path", **about)

    def _wide_in_namespace(self, binding: Binding, role: RbacRole) -> _Found:
        if not (self.options.namespaced_grants and binding.namespace and binding.subjects):
            return
        for kind in KINDS:
            if kind.may_be_namespaced and any(
                not rule.names and rule.allows(self.options.verb, kind.group, kind.resource)
                for rule in role.rules
            ):
                about = {"binding": _in_words(binding), "namespace": binding.namespace}
                resource = f"{kind.resource}.{kind.group}"
                yield binding.at, finding("opens-every-queue", **about, resource=resource)

    def _wide(self, role: RbacRole, rule: Rule) -> Iterator[Finding]:
        """Yield warnings about a bound role that grants every verb, or the right to grant."""
        binding = self._granted.get((role.namespace, role.name))
        if binding is None:
            return
        about = {"role": _in_words(role), "binding": _in_words(binding)}
        if "*" in rule.verbs and (kinds := self._kinds(rule)):
            resources = ", ".join(sorted({kind.resource for kind in kinds}))
            yield finding("every-verb", **about, resources=resources, verb=self.options.verb)
        verbs = " and ".join(verb for verb in _MAY_GRANT if verb in rule.verbs)
        if "*" in rule.verbs:
            verbs = "every verb"
        if verbs and any(rule.covers(_RBAC, each) for each in ("roles", "clusterroles")):
            yield finding("may-grant-more", **about, verbs=verbs)

    def _of_no_queue(self, role: RbacRole, rule: Rule) -> Iterator[Finding]:
        is_meant = _GROUPS.intersection(rule.groups) or _RESOURCES.intersection(rule.resources)
        if self.options.verb in rule.verbs and is_meant and not self._kinds(rule):
            known = (f"{kind.resource} of {kind.group}" for kind in KINDS)
            yield finding(
                "use-of-no-queue",
                role=_in_words(role),
                verb=self.options.verb,
                resources=quoted_names(rule.resources, _MAX_SHOWN),
                groups=quoted_names(rule.groups, _MAX_SHOWN),
                known=", ".join(known),
            )

    def _names_of_queues(self, role: RbacRole, rule: Rule) -> Iterator[Finding]:
        """Yield warnings about names that no queue has. If no file has queues, any may exist."""
        for kind in self._kinds(rule):
            for name in rule.names:
                about = {
                    "role": _in_words(role),
                    "resource": kind.resource,
                    "name": quoted(name),
                }
                above = role.namespace if kind.is_namespaced else ""
                if level_of(name) is None:
                    yield finding("no-name-of-queue", **about)
                elif (kind.level, "") in self._names and name not in self._names.get(
                    (kind.level, above), ()
                ):
                    yield finding("no-such-queue", **about)

    def _kinds(self, rule: Rule) -> list[Kind]:
        verb = self.options.verb
        return [kind for kind in KINDS if rule.allows(verb, kind.group, kind.resource)]


def _in_words(entry: Binding | RbacRole) -> str:
    kind = "RoleBinding" if isinstance(entry, Binding) else "Role"
    if not entry.namespace:
        return f"Cluster{kind} {quoted(entry.name)}"
    return f"{kind} {quoted(f'{entry.namespace}/{entry.name}')}"
