"""The people for whom a claim about a policy must hold.

A single name in an ACL is enough to grant a person access: the person's own name, a group's name,
or the name of a service acting for the person. Additional names never revoke access. In an open
world, it is therefore enough to consider minimal people: a user without groups, or a new user in
one group, plus any memberships implied by stated facts.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple, Protocol

from queuegate.policy.reach import SubjectKind


class Subject(NamedTuple):
    """A user, group or proxy name, with its kind."""

    kind: SubjectKind
    name: str

    def __str__(self) -> str:
        """Return the subject as written in claims, such as `group:dev`."""
        return f"{self.kind}:{self.name}"


@dataclass(frozen=True, slots=True)
class Person:
    """A user, the user's groups, and the service acting for the user, if any."""

    user: str
    """The user name; empty for a new user not named by any ACL or fact."""
    groups: tuple[str, ...] = ()
    real_user: str = ""

    def is_any_of(self, subjects: Collection[Subject]) -> bool:
        """Return whether the person matches any of the subjects."""
        return (
            Subject(SubjectKind.USER, self.user) in subjects
            or Subject(SubjectKind.PROXY, self.real_user) in subjects
            or any(Subject(SubjectKind.GROUP, group) in subjects for group in self.groups)
        )


class World(Protocol):
    """The people for whom a claim must hold."""

    def people(self, subjects: Iterable[Subject]) -> Iterator[Person]:
        """Yield people who match all subjects. Yielding only those with the fewest groups is
        enough.
        """


class Inclusion(NamedTuple):
    """The fact that a user, or every member of a group, belongs to another group."""

    subject: Subject
    group: str


class Exclusion(NamedTuple):
    """The fact that a user, or every member of a group, does not belong to another group."""

    subject: Subject
    group: str


@dataclass(frozen=True)
class OpenWorld:
    """A world in which any person may exist, with any name and groups, unless stated facts exclude
    it.
    """

    inclusions: tuple[Inclusion, ...] = ()
    exclusions: tuple[Exclusion, ...] = ()

    @cached_property
    def _included(self) -> Mapping[Subject, list[str]]:
        parents: dict[Subject, list[str]] = {}
        for subject, group in self.inclusions:
            parents.setdefault(subject, []).append(group)
        return parents

    def people(self, subjects: Iterable[Subject]) -> Iterator[Person]:
        """Yield the person with the fewest groups who matches all subjects, if facts allow one."""
        wanted = dict.fromkeys(subjects)
        names = {kind: [name for each, name in wanted if each is kind] for kind in SubjectKind}
        if len(names[SubjectKind.USER]) > 1 or len(names[SubjectKind.PROXY]) > 1:
            return
        known = self._with_inclusions(wanted)
        groups = tuple(name for kind, name in known if kind is SubjectKind.GROUP)
        if not any(subject in known and group in groups for subject, group in self.exclusions):
            yield Person(
                "".join(names[SubjectKind.USER]), groups, "".join(names[SubjectKind.PROXY])
            )

    def _with_inclusions(self, subjects: Iterable[Subject]) -> dict[Subject, None]:
        """Return the subjects, followed by all groups that include them directly or indirectly."""
        known = dict.fromkeys(subjects)
        waiting = [*known]
        while waiting:
            for group in self._included.get(waiting.pop(), ()):
                subject = Subject(SubjectKind.GROUP, group)
                if subject not in known:
                    known[subject] = None
                    waiting.append(subject)
        return known


@dataclass(frozen=True)
class ClosedWorld:
    """A world in which only the people in a directory exist."""

    directory: Mapping[str, tuple[str, ...]]
    """Each user's groups."""
    _members: dict[str, list[str]] = field(default_factory=dict, init=False, repr=False)

    def __post_init__(self) -> None:
        for user, groups in self.directory.items():
            for group in groups:
                self._members.setdefault(group, []).append(user)

    def people(self, subjects: Iterable[Subject]) -> Iterator[Person]:
        """Yield each person in the directory who matches all subjects.

        A service acting for a person must also be in the directory.
        """
        wanted = [*subjects]
        services = {name for kind, name in wanted if kind is SubjectKind.PROXY}
        if len(services) > 1 or not services <= self.directory.keys():
            return
        real_user = next(iter(services), "")
        for user in self._candidates(wanted):
            groups = self.directory.get(user)
            if groups is None:
                continue
            person = Person(user, groups, real_user)
            if all(
                kind is SubjectKind.EVERYONE or person.is_any_of((Subject(kind, name),))
                for kind, name in wanted
            ):
                yield person

    def _candidates(self, wanted: Iterable[Subject]) -> Iterable[str]:
        for kind, name in wanted:
            if kind is SubjectKind.USER:
                return (name,)
        for kind, name in wanted:
            if kind is SubjectKind.GROUP:
                return self._members.get(name, ())
        return self.directory
