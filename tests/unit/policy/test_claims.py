"""Claims: in a closed world against every person, and the people who refute them."""

from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from queuegate.policy.acl import EMPTY, parse
from queuegate.policy.claims import (
    EVERYONE,
    Answer,
    Claim,
    Everyone,
    Never,
    NoNewAccess,
    NotBoth,
    Only,
    Use,
    Uses,
    Within,
    holds,
    refute,
)
from queuegate.policy.decide import decide
from queuegate.policy.decision import Access
from queuegate.policy.queue import QueueAcls
from queuegate.policy.reach import SubjectKind
from queuegate.policy.tree import Partition, PartitionBuilder, build_partition
from queuegate.policy.worlds import (
    ClosedWorld,
    Exclusion,
    Inclusion,
    OpenWorld,
    Person,
    Subject,
)
from queuegate.policy.yarn_acl import Cluster, Semantics
from tests.support.generators.partitions import (
    ACCESS,
    PATHS,
    yarn_partitions,
    yunikorn_partitions,
)

GROUPS = ("dev", "ops", "qa")
DIRECTORY = {
    f"p{number}": groups
    for number, groups in enumerate(
        group for size in range(3) for group in combinations(GROUPS, size)
    )
} | {"ann": ("dev",), "bob": (), "svc": ("ops",)}
SUBJECTS = st.sampled_from(
    [
        *(Subject(SubjectKind.USER, name) for name in ("ann", "bob", "cem", "p1")),
        *(Subject(SubjectKind.GROUP, name) for name in GROUPS),
        Subject(SubjectKind.PROXY, "svc"),
    ]
)
USES = st.builds(Uses, ACCESS, PATHS, st.booleans())
USE = st.builds(Use, ACCESS, PATHS)
PAIRS = st.one_of(
    st.tuples(yunikorn_partitions(), yunikorn_partitions()),
    st.tuples(yarn_partitions(), yarn_partitions()),
)


def claims(old: Partition) -> st.SearchStrategy[Claim]:
    return st.one_of(
        st.builds(Only, st.frozensets(SUBJECTS, max_size=6), USES),
        st.builds(Never, SUBJECTS, USES),
        st.builds(Everyone, st.one_of(SUBJECTS, st.just(EVERYONE)), USES),
        st.builds(NotBoth, USE, USE),
        st.builds(Within, USE, USE),
        st.just(NoNewAccess(old)),
    )


def is_allowed(partition: Partition, use: Use, person: Person) -> bool:
    decision = decide(
        partition, use.queue, use.access, person.user, person.groups, real_user=person.real_user
    )
    assert decision is not None
    return decision.allowed


def each_use(partition: Partition, uses: Uses) -> list[Use]:
    below = [path for path in partition.paths if path.startswith(f"{uses.queue}.")]
    paths = [uses.queue, *(below if uses.with_below else ())]
    return [Use(uses.access, path) for path in paths]


def applies(subject: Subject, person: Person) -> bool:
    return subject == EVERYONE or person.is_any_of((subject,))


def is_violated(partition: Partition, claim: Claim, person: Person) -> bool:
    """Whether a person refutes a claim, by the words of the claim."""

    def allowed(use: Use) -> bool:
        return is_allowed(partition, use, person)

    match claim:
        case Only(subjects, uses):
            excused = any(applies(each, person) for each in subjects)
            return not excused and any(map(allowed, each_use(partition, uses)))
        case Never(subject, uses):
            return applies(subject, person) and any(map(allowed, each_use(partition, uses)))
        case Everyone(subject, uses):
            return applies(subject, person) and not all(map(allowed, each_use(partition, uses)))
        case NotBoth(first, second):
            return allowed(first) and allowed(second)
        case Within(inner, outer):
            return allowed(inner) and not allowed(outer)
        case NoNewAccess(old):
            return any(
                allowed(Use(access, path)) and not is_allowed(old, Use(access, path), person)
                for path in {*partition.queues, *old.queues}
                for access in Access
            )


@given(st.data(), PAIRS)
def test_a_closed_world_equals_asking_about_everyone(
    data: st.DataObject, pair: tuple[Partition, Partition]
) -> None:
    old, partition = pair
    claim = data.draw(claims(old))
    people = [
        Person(user, groups, real_user)
        for user, groups in DIRECTORY.items()
        for real_user in ("", "svc")
    ]
    violated = any(is_violated(partition, claim, person) for person in people)
    refutation = refute(partition, claim, ClosedWorld(DIRECTORY))
    assert (refutation is not None) is violated
    if refutation is not None:
        assert refutation.person in people
        assert is_violated(partition, claim, refutation.person)
        for answer in refutation.answers:
            assert holds(old if answer.is_old else partition, answer, refutation.person)


def queues(**acls: str) -> Partition:
    return build_partition(
        "default",
        "",
        [
            QueueAcls(path.replace("_", "."), parse(text), parse("top" if path == "root" else ""))
            for path, text in acls.items()
        ],
    )


GROUP_ML = Subject(SubjectKind.GROUP, "ml")
TOP = Subject(SubjectKind.USER, "top")


@pytest.mark.parametrize(
    ("claim", "person"),
    [
        (Only(frozenset({GROUP_ML, TOP}), Uses(Access.SUBMIT, "root.a")), None),
        (
            Only(frozenset({GROUP_ML, TOP}), Uses(Access.SUBMIT, "root.a", with_below=True)),
            Person("sue"),
        ),
        (Only(frozenset({GROUP_ML}), Uses(Access.SUBMIT, "root.a.new")), Person("top")),
        (Never(Subject(SubjectKind.USER, "bob"), Uses(Access.ADMIN, "root")), None),
        (
            Never(Subject(SubjectKind.USER, "bob"), Uses(Access.SUBMIT, "root.a")),
            Person("bob", ("ml",)),
        ),
        (Everyone(GROUP_ML, Uses(Access.SUBMIT, "root.a", with_below=True)), None),
        (Everyone(GROUP_ML, Uses(Access.SUBMIT, "root.b")), Person("", ("ml",))),
        (Everyone(EVERYONE, Uses(Access.SUBMIT, "root.open")), None),
        (NotBoth(Use(Access.SUBMIT, "root.a"), Use(Access.SUBMIT, "root.b")), Person("top")),
        (Within(Use(Access.SUBMIT, "root.a"), Use(Access.SUBMIT, "root.a.x")), None),
        (Within(Use(Access.SUBMIT, "root.a.x"), Use(Access.SUBMIT, "root.a")), Person("sue")),
    ],
)
def test_the_smallest_person_refutes(claim: Claim, person: Person | None) -> None:
    partition = queues(root="", root_a=" ml", root_a_x="sue", root_b=" ops", root_open="*")
    refutation = refute(partition, claim, OpenWorld())
    assert (refutation and refutation.person) == person


def test_facts_prove_what_names_alone_do_not() -> None:
    partition = queues(root="", root_a=" ml-admins", root_b=" ops")
    only = Only(frozenset({GROUP_ML, TOP}), Uses(Access.SUBMIT, "root.a"))
    assert refute(partition, only, OpenWorld()) is not None
    lead = Subject(SubjectKind.GROUP, "ml-leads")
    admins = Subject(SubjectKind.GROUP, "ml-admins")
    facts = (Inclusion(admins, "ml-leads"), Inclusion(lead, "ml"))
    assert refute(partition, only, OpenWorld(facts)) is None

    bob = Subject(SubjectKind.USER, "bob")
    never = Never(bob, Uses(Access.SUBMIT, "root.a"))
    refutation = refute(partition, never, OpenWorld(facts))
    assert refutation is not None
    assert {*refutation.person.groups} == {"ml-admins", "ml-leads", "ml"}
    assert refute(partition, never, OpenWorld(facts, (Exclusion(bob, "ml"),))) is None


def test_no_new_access_by_facts() -> None:
    old, new = queues(root=" ml"), queues(root=" ml,ml-admins", root_a="")
    refutation = refute(new, NoNewAccess(old), OpenWorld())
    assert refutation is not None
    use = Use(Access.SUBMIT, "root")
    assert refutation.answers == (Answer(use, True), Answer(use, False, is_old=True))
    fact = Inclusion(Subject(SubjectKind.GROUP, "ml-admins"), "ml")
    assert refute(new, NoNewAccess(old), OpenWorld((fact,))) is None


def test_names_that_look_like_other_entries_are_not_taken_for_them() -> None:
    yarn = Cluster(Semantics.DOCUMENTED, EMPTY)
    names = [Subject(SubjectKind.USER, name) for name in ("*", "sue", "ann")]
    claim = Only(frozenset(names), Uses(Access.SUBMIT, "root", with_below=True))

    def refuted_at(text: str) -> str:
        builder = PartitionBuilder("default", cluster=yarn)
        builder.add([QueueAcls("root", "", ""), QueueAcls("root.a", "*,sue,,ann", "")])
        builder.add([QueueAcls("root.b", text, "")])
        found = refute(builder.build(), claim, OpenWorld())
        return found.answers[0].use.queue if found else ""

    assert refuted_at("sue,ann ") == refuted_at("sue") == ""
    assert refuted_at("*") == refuted_at("sue staff") == refuted_at(" staff") == "root.b"
