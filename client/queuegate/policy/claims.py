"""Claims about who may use queues. Each claim is proved, or refuted by a counterexample.

A single matching name grants access, and additional names never revoke it. Every false claim
therefore has a counterexample that depends on a single grant (or two, for a claim about two
queues), so checking each grant once is enough to prove a claim for everyone. `worlds.py` defines
the people who may exist.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain, product
from typing import NamedTuple, TypeAlias

from queuegate.policy.acl import WILDCARD
from queuegate.policy.decide import decide
from queuegate.policy.decision import IN_RECOVERY_QUEUE, Access
from queuegate.policy.difference import walk
from queuegate.policy.names import RECOVERY_QUEUE, SEPARATOR
from queuegate.policy.queue import granting
from queuegate.policy.reach import EffectiveAcl, SubjectKind, effective_acl
from queuegate.policy.tree import Partition
from queuegate.policy.worlds import Person, Subject, World

EVERYONE = Subject(SubjectKind.EVERYONE, WILDCARD)


class Use(NamedTuple):
    """A kind of access to a queue."""

    access: Access
    queue: str
    """A path returned by `Partition.path`."""


class Uses(NamedTuple):
    """A kind of access to a queue and, optionally, to all existing and future queues below it."""

    access: Access
    queue: str
    with_below: bool = False


@dataclass(frozen=True, slots=True)
class Only:
    """The claim that only these subjects may use the queues. If there are no subjects, nobody may
    use them.
    """

    subjects: frozenset[Subject]
    uses: Uses


@dataclass(frozen=True, slots=True)
class Never:
    """The claim that the given user, or anyone in the given group, may not use the queues, whatever
    other groups they are in.
    """

    subject: Subject
    uses: Uses


@dataclass(frozen=True, slots=True)
class Everyone:
    """The claim that everyone, or everyone in a group, may use the queues."""

    subject: Subject
    uses: Uses


@dataclass(frozen=True, slots=True)
class NotBoth:
    """The claim that nobody has both kinds of access."""

    first: Use
    second: Use


@dataclass(frozen=True, slots=True)
class Within:
    """The claim that everyone with the inner kind of access also has the outer kind."""

    inner: Use
    outer: Use


@dataclass(frozen=True, slots=True)
class NoNewAccess:
    """The claim that everyone with access to a queue already had it in the old partition."""

    old: Partition


Claim: TypeAlias = Only | Never | Everyone | NotBoth | Within | NoNewAccess


class Answer(NamedTuple):
    """A policy's decision on a person's access to a queue."""

    use: Use
    is_allowed: bool
    is_old: bool = False
    """Whether the decision is the old policy's."""


class Refutation(NamedTuple):
    """A counterexample: a person, and the decisions that contradict the claim."""

    person: Person
    answers: tuple[Answer, ...]


def refute(partition: Partition, claim: Claim, world: World) -> Refutation | None:
    """Return a counterexample to a claim, or None if the claim is proved.

    Args:
        partition: The partition to which the claim applies.
        claim: The claim.
        world: The people who may exist.
    """
    match claim:
        case Only(subjects, uses):
            return _refute_exclusion(partition, uses, world, (), subjects)
        case Never(subject, uses):
            return _refute_exclusion(partition, uses, world, (subject,), frozenset())
        case Everyone(subject, uses):
            return _refute_everyone(partition, uses, world, subject)
        case NotBoth(first, second):
            return _refute_not_both(partition, first, second, world)
        case Within(inner, outer):
            return _refute_within(partition, inner, outer, world)
        case NoNewAccess(old):
            return _refute_no_new_access(partition, old, world)


def _subjects(acl: EffectiveAcl) -> Iterator[Subject]:
    """Yield the subjects listed in an effective ACL."""
    if acl.open_by is not None:
        yield EVERYONE
    for kind, names in (
        (SubjectKind.USER, acl.users),
        (SubjectKind.GROUP, acl.groups),
        (SubjectKind.PROXY, acl.proxies),
    ):
        yield from (Subject(kind, name) for name in sorted(names))


def _own_names(partition: Partition, use: Use) -> Iterator[tuple[SubjectKind, frozenset[str]]]:
    """Yield the names listed in the queue's own ACLs, by kind of subject."""
    configured = partition.queues.get(use.queue)
    queues = partition.created(use.queue) if configured is None else (configured,)
    # The admin ACLs come first, so counterexamples prefer administrators.
    kinds = reversed(granting(use.access, Access.SUBMIT, Access.ADMIN))
    for acl in [queue.acl(kind) for kind in kinds for queue in queues]:
        if acl.allows_all:
            yield SubjectKind.EVERYONE, frozenset({WILDCARD})
        yield SubjectKind.USER, acl.users
        yield SubjectKind.GROUP, acl.groups
        if acl.proxies:
            yield SubjectKind.PROXY, acl.proxies


def _has_only(partition: Partition, use: Use, users: set[str], groups: set[str]) -> bool:
    """Return whether the queue's own ACLs list only the given names, without parsing the ACLs.

    For a claim about many queues, parsing would dominate the run time. If parsing would change or
    drop an entry, the result is false, because such an entry does not match any of the names.
    """
    queue = partition.queues.get(use.queue)
    if queue is None:
        return False
    for text in granting(use.access, *queue.acl_texts):
        first, _, second = text.partition(" ")
        if WILDCARD in text or not (
            users.issuperset(first.split(",")) and groups.issuperset(second.split(","))
        ):
            return False
    return True


def _below(partition: Partition, uses: Uses) -> Iterator[Use]:
    """Yield a `Use` for each existing or future queue below `uses.queue` if the claim covers it."""
    if uses.with_below:
        start = uses.queue + SEPARATOR
        yield from (Use(uses.access, path) for path in partition.paths if path.startswith(start))
        yield from (Use(uses.access, path) for path in partition.created_below(uses.queue))


def _refute_exclusion(
    partition: Partition,
    uses: Uses,
    world: World,
    applies: tuple[Subject, ...],
    excused: frozenset[Subject],
) -> Refutation | None:
    """Find a person with access who matches all of `applies` and none of `excused`.

    Each name is checked once, at the first queue that lists it. If everyone may use the topmost
    queue, no other queue is checked.
    """
    # Treat the empty name as checked, because splitting an empty list yields it.
    checked = {kind: {""} for kind in SubjectKind}
    for kind, name in excused:
        checked[kind].add(name)
    top = Use(uses.access, uses.queue)
    acl = effective_acl(partition, top.queue, top.access)
    grants = [(top, subject.kind, frozenset({subject.name})) for subject in _subjects(acl)]
    below = (
        (use, kind, names)
        for use in _below(partition, uses)
        if acl.open_by is None
        and not _has_only(partition, use, checked[SubjectKind.USER], checked[SubjectKind.GROUP])
        and not _is_recovery(partition, use)
        for kind, names in _own_names(partition, use)
    )
    for use, kind, names in chain(grants, below):
        if not (new := names - checked[kind]):
            continue
        checked[kind] |= new
        for name in sorted(new):
            for person in world.people((*applies, Subject(kind, name))):
                if not person.is_any_of(excused):
                    return Refutation(person, (Answer(use, is_allowed=True),))
    return None


def _is_recovery(partition: Partition, use: Use) -> bool:
    """Return whether access is always denied because the queue is at or below the recovery
    queue.
    """
    return (
        RECOVERY_QUEUE in use.queue
        and partition.chain(use.queue, use.access).otherwise is IN_RECOVERY_QUEUE
    )


def _refute_everyone(
    partition: Partition, uses: Uses, world: World, subject: Subject
) -> Refutation | None:
    """Find a person who matches the subject but lacks access to one of the queues. Queues below
    `uses.queue` are checked only if they do not inherit grants.
    """
    checked = [Use(uses.access, uses.queue)]
    # Queues do not inherit grants from a queue that does not exist yet.
    is_created = partition.creates(uses.queue)
    checked += (
        use for use in _below(partition, uses) if is_created or _is_recovery(partition, use)
    )
    for use in checked:
        acl = effective_acl(partition, use.queue, use.access)
        for person in world.people((subject,)):
            if not acl.allows(person.user, person.groups, person.real_user):
                return Refutation(person, (Answer(use, is_allowed=False),))
    return None


def _refute_not_both(
    partition: Partition, first: Use, second: Use, world: World
) -> Refutation | None:
    acls = [effective_acl(partition, use.queue, use.access) for use in (first, second)]
    for subjects in product(*map(_subjects, acls)):
        for person in world.people(subjects):
            return Refutation(
                person, (Answer(first, is_allowed=True), Answer(second, is_allowed=True))
            )
    return None


def _refute_within(partition: Partition, inner: Use, outer: Use, world: World) -> Refutation | None:
    around = effective_acl(partition, outer.queue, outer.access)
    for subject in _subjects(effective_acl(partition, inner.queue, inner.access)):
        for person in world.people((subject,)):
            if not around.allows(person.user, person.groups, person.real_user):
                return Refutation(
                    person, (Answer(inner, is_allowed=True), Answer(outer, is_allowed=False))
                )
    return None


def _refute_no_new_access(partition: Partition, old: Partition, world: World) -> Refutation | None:
    for access in Access:
        for queue in walk(old, partition, access):
            if queue.starting is None or queue.starting.gained.is_empty:
                continue
            use = Use(access, queue.queue)
            gained = queue.starting.gained
            names = sorted(gained.names)
            subjects = [EVERYONE] if gained.everyone else [*map(_subject, names)]
            before = effective_acl(old, use.queue, access)
            for subject in subjects:
                for person in world.people((subject,)):
                    if not before.allows(person.user, person.groups, person.real_user):
                        return Refutation(
                            person,
                            (
                                Answer(use, is_allowed=True),
                                Answer(use, is_allowed=False, is_old=True),
                            ),
                        )
    return None


def _subject(written: str) -> Subject:
    kind, _, name = written.partition(":")
    return Subject(SubjectKind(kind), name)


def holds(partition: Partition, answer: Answer, person: Person) -> bool:
    """Return whether `decide` confirms the decision in a refutation."""
    decision = decide(
        partition,
        answer.use.queue,
        answer.use.access,
        person.user,
        person.groups,
        real_user=person.real_user,
    )
    return decision is not None and decision.allowed is answer.is_allowed
