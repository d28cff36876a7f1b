"""Compares two policies to determine who gains and who loses access."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from queuegate.policy.decide import decide
from queuegate.policy.decision import Access
from queuegate.policy.difference import (
    QueueDifference,
    Selection,
    by_name,
    compare,
    people,
    written,
)
from queuegate.policy.names import is_at_or_below
from queuegate.policy.reach import SubjectKind, grant_of
from queuegate.policy.tree import Partition, build_partition
from queuegate.policy.worlds import Person, Subject
from queuegate_server.analysis.policy_file import PolicyFile
from queuegate_server.formats.acl_positions import Place
from queuegate_server.formats.diagnostics import Diagnostic, quoted
from queuegate_server.formats.findings.finding import Severity

GroupsByUser = Mapping[str, tuple[str, ...]]

GAIN: Final = "gain"
LOSS: Final = "loss"
ANY: Final = "any"
_MAX_SHOWN: Final = 10


class AllowedGain(NamedTuple):
    """An intended gain of access, declared with `--allow-gain`."""

    subject: Subject
    queue: str


@dataclass(frozen=True, slots=True)
class AffectedPeople:
    """The people who gain access through a change, or those who lose it."""

    everyone: bool
    subjects: tuple[str, ...]
    """Names such as `user:sue`, sorted."""
    but: tuple[str, ...]
    """The exceptions, if everyone else is affected."""

    def __bool__(self) -> bool:
        return self.everyone or bool(self.subjects)

    def in_words(self, sign: str) -> str:
        """Describe the people, prefixed with `sign` (+ or -). The number of listed names is
        limited.
        """
        if self.everyone and not self.subjects:
            but = f" but {_listed(self.but)}" if self.but else ""
            return f"{sign} everyone{but}"
        who = f"{sign} {_listed(self.subjects, f', {sign} ')}"
        return f"{sign} everyone, among them {_listed(self.subjects)}" if self.everyone else who


@dataclass(frozen=True, slots=True)
class AccessChange:
    """A change in access to a queue, excluding changes inherited from the queue's parent."""

    partition: str
    queue: str
    access: Access
    gained: AffectedPeople
    unexpected: AffectedPeople
    """The people whose gain is not an `AllowedGain`."""
    lost: AffectedPeople
    below: int
    partly_below: int
    place: Place
    """The position of the ACL that causes the change: in the new policy for a gain, in the old
    policy for a loss.
    """

    def fails(self, on: str) -> bool:
        """Return whether the change is a failure under the given `--fail-on` value."""
        return (on != LOSS and bool(self.unexpected)) or (on != GAIN and bool(self.lost))

    def __str__(self) -> str:
        """Describe the change and its queue in one line."""
        where = f"partition {quoted(self.partition)}, queue {quoted(self.queue)}"
        sides = ((self.gained, "+"), (self.lost, "-"))
        people = ", ".join(side.in_words(sign) for side, sign in sides if side)
        allowed = " (allowed)" if self.gained and not self.unexpected else ""
        counts = ((self.below, "it"), (self.partly_below, "part of it"))
        below = "".join(f"; {_queues_inherit(count)} {what}" for count, what in counts if count)
        return f"{where}: {self.access}: {people}{allowed}{below}"

    def document(self) -> dict[str, Any]:
        """Return the change as JSON-serializable data."""
        return {
            "partition": self.partition,
            "queue": self.queue,
            "access": str(self.access),
            "gained": _document(self.gained),
            "unexpected": _document(self.unexpected),
            "lost": _document(self.lost),
            "queues_below": self.below,
            "queues_partly_below": self.partly_below,
            **self.place._asdict(),
        }

    def diagnostic(self, fail_on: str) -> Diagnostic:
        """Return a diagnostic about the change. It is an error if the change is a failure,
        otherwise a warning.
        """
        severity = Severity.ERROR if self.fails(fail_on) else Severity.WARNING
        finding = "access-gained" if self.gained else "access-lost"
        return Diagnostic(*self.place, severity, str(self), queue=self.queue, finding=finding)


def access_changes(
    old: PolicyFile,
    new: PolicyFile,
    directories: Mapping[str, GroupsByUser] | None,
    allowed: Sequence[AllowedGain],
) -> Iterator[AccessChange]:
    """Yield the changes in all partitions, ordered by partition, access and queue.

    `directories` maps each partition to its users' groups. If None, names are compared instead of
    people.
    """
    for name, before, after in partition_pairs(old, new):
        directory = None if directories is None else counting(after, directories.get(name, {}))
        expand = by_name if directory is None else people(_members(directory))
        for access in Access:
            for each in compare(before, after, access, expand):
                yield _Change(old, new, before, after, directory, each).build(allowed)


def partition_pairs(old: PolicyFile, new: PolicyFile) -> Iterator[tuple[str, Partition, Partition]]:
    """Yield each partition's name with its old and new versions. A missing version is empty."""
    for name in sorted({*old.partitions, *new.partitions}):
        empty = build_partition(name, "", ())
        yield name, old.partitions.get(name, empty), new.partitions.get(name, empty)


def counting(partition: Partition, directory: GroupsByUser) -> GroupsByUser:
    """Return the users of a directory as a partition knows them, with their effective groups."""
    grants = partition.named_grants
    if grants is None:
        return directory
    users = {grants.user(user): groups for user, groups in directory.items()}
    return {
        user: tuple(partition.counting_groups(user, groups) or ()) for user, groups in users.items()
    }


def _members(directory: GroupsByUser) -> dict[str, frozenset[str]]:
    members: dict[str, set[str]] = {}
    for user, groups in directory.items():
        for group in groups:
            members.setdefault(group, set()).add(user)
    return {group: frozenset(users) for group, users in members.items()}


@dataclass(frozen=True, slots=True)
class _Change:
    """A difference between two policies, with the data needed to describe it."""

    old: PolicyFile
    new: PolicyFile
    before: Partition
    after: Partition
    directory: GroupsByUser | None
    difference: QueueDifference

    def build(self, allowed: Sequence[AllowedGain]) -> AccessChange:
        difference = self.difference
        gained, lost = self._side(difference.gained), self._side(difference.lost)
        intended = {
            each.subject
            for each in allowed
            if is_at_or_below(difference.queue, self.after.canonical_path(each.queue) or each.queue)
        }
        all_may = Subject(SubjectKind.EVERYONE, "*") in intended
        unexpected = AffectedPeople(
            gained.everyone and not all_may,
            tuple(
                name
                for name in gained.subjects
                if not all_may and not self._person(name).is_any_of(intended)
            ),
            gained.but,
        )
        return AccessChange(
            self.after.name,
            difference.queue,
            difference.access,
            gained,
            unexpected,
            lost,
            difference.below,
            difference.partly_below,
            self._place(gained, lost),
        )

    def _side(self, selection: Selection) -> AffectedPeople:
        names, everyone = selection.names, selection.everyone
        if self.directory is None:
            listed = tuple(sorted(names))
            subjects, but = ((), listed) if everyone else (listed, ())
            return AffectedPeople(everyone, subjects, but)
        if everyone:
            names = frozenset(self.directory) - names
        services = {name for name in names if name.startswith("~")}
        affected = [written(SubjectKind.USER, name) for name in names - services]
        affected += [written(SubjectKind.PROXY, name[1:]) for name in services]
        return AffectedPeople(everyone, tuple(sorted(affected)), ())

    def _person(self, name: str) -> Person:
        """Return the person denoted by a name such as `user:sue`."""
        kind, _, subject = name.partition(":")
        if kind == SubjectKind.USER:
            return Person(subject, (self.directory or {}).get(subject, ()))
        return Person("", (subject,)) if kind == SubjectKind.GROUP else Person("", (), subject)

    def _place(self, gained: AffectedPeople, lost: AffectedPeople) -> Place:
        side, policy, partition = (
            (gained, self.new, self.after) if gained else (lost, self.old, self.before)
        )
        person = self._person(side.subjects[0]) if side.subjects else Person("")
        access, queue = self.difference.access, self.difference.queue
        decision = decide(
            partition, queue, access, person.user, person.groups, real_user=person.real_user
        )
        if decision is None or not decision.allowed:
            return Place(policy.name)
        grant = grant_of(partition, queue, access, decision, person.user)
        return policy.place(partition.name, queue, grant)


def _listed(subjects: Sequence[str], between: str = ", ") -> str:
    names = (subject.partition(":") for subject in subjects[:_MAX_SHOWN])
    shown = [f"{kind} {quoted(name)}" for kind, _, name in names]
    if len(subjects) > _MAX_SHOWN:
        shown.append(f"{len(subjects) - _MAX_SHOWN} more")
    return between.join(shown)


def _queues_inherit(count: int) -> str:
    return "1 queue below inherits" if count == 1 else f"{count} queues below inherit"


def _document(side: AffectedPeople) -> dict[str, Any]:
    return {"everyone": side.everyone, "subjects": [*side.subjects], "except": [*side.but]}
