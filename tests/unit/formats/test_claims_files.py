"""Files of claims: their language, and the places of what is wrong in them."""

import pytest

from queuegate.policy.acl import parse
from queuegate.policy.claims import (
    EVERYONE,
    Claim,
    Everyone,
    Never,
    NoNewAccess,
    NotBoth,
    Only,
    Use,
    Uses,
    Within,
)
from queuegate.policy.decision import Access
from queuegate.policy.queue import QueueAcls
from queuegate.policy.reach import SubjectKind
from queuegate.policy.tree import build_partition
from queuegate.policy.worlds import Exclusion, Inclusion, Subject
from queuegate_server.formats.claims import BadClaim, ClaimsFile, bind, load_claims
from queuegate_server.formats.diagnostics import Diagnostics
from tests.support.rows import rows

SUBMIT, ADMIN = Access.SUBMIT, Access.ADMIN
PARTITION = build_partition("default", "", [QueueAcls("root", parse("sue"), parse(""))])
OLD = build_partition("default", "", ())
ML, SUE = Subject(SubjectKind.GROUP, "ml"), Subject(SubjectKind.USER, "sue")


def load(text: str) -> tuple[ClaimsFile, list[str]]:
    diagnostics = Diagnostics("claims.yaml")
    found = load_claims(text.encode(), diagnostics, "claims.yaml")
    return found, [str(each) for each in diagnostics.sorted()]


@pytest.mark.parametrize(
    ("text", "claim"),
    [
        (
            "only group:ml, user:sue may submit root.ML",
            Only(frozenset({ML, SUE}), Uses(SUBMIT, "root.ml")),
        ),
        (
            "only  group:ml,proxy:hue may  admin root.a.**",
            Only(
                frozenset({ML, Subject(SubjectKind.PROXY, "hue")}),
                Uses(ADMIN, "root.a", with_below=True),
            ),
        ),
        (
            'only group:"domain users" may submit root',
            Only(frozenset({Subject(SubjectKind.GROUP, "domain users")}), Uses(SUBMIT, "root")),
        ),
        (
            "never user:system:serviceaccount:a:b admin root",
            Never(Subject(SubjectKind.USER, "system:serviceaccount:a:b"), Uses(ADMIN, "root")),
        ),
        ("nobody may submit root.a", Only(frozenset(), Uses(SUBMIT, "root.a"))),
        ("never user:sue admin root", Never(SUE, Uses(ADMIN, "root"))),
        ("everyone may submit root.open", Everyone(EVERYONE, Uses(SUBMIT, "root.open"))),
        ("everyone in group:ml may submit root.a", Everyone(ML, Uses(SUBMIT, "root.a"))),
        (
            "nobody may admin both root.a and root.b",
            NotBoth(Use(ADMIN, "root.a"), Use(ADMIN, "root.b")),
        ),
        (
            "submit root.a within admin root.b",
            Within(Use(SUBMIT, "root.a"), Use(ADMIN, "root.b")),
        ),
        ("no new access compared with old file.yaml", NoNewAccess(OLD)),
    ],
)
def test_claims(text: str, claim: Claim) -> None:
    found, faults = load(f"claims:\n- '{text}'\n")
    assert not faults
    (stated,) = found.claims
    assert (stated.text, stated.line, stated.column) == (text, 2, 3)
    names = []

    def old(name: str) -> object:
        names.append(name)
        return OLD

    assert bind(stated, PARTITION, old) == claim  # type: ignore[arg-type]
    assert names == (["old file.yaml"] if isinstance(claim, NoNewAccess) else [])


def test_facts() -> None:
    found, faults = load(
        "partition: gpu\n"
        "facts: [ml-admins within ml, staff and group:ext disjoint, ml and user:sue disjoint,"
        " user:sue within staff]\n"
        "claims: [nobody may submit root]\n"
    )
    assert not faults
    assert found.partition == "gpu"
    assert found.world.inclusions == (
        Inclusion(Subject(SubjectKind.GROUP, "ml-admins"), "ml"),
        Inclusion(SUE, "staff"),
    )
    assert found.world.exclusions == (
        Exclusion(Subject(SubjectKind.GROUP, "staff"), "ext"),
        Exclusion(SUE, "ml"),
    )


@rows
def test_faults_have_their_place(text: str, fault: str) -> None:
    _, faults = load(text)
    assert faults
    assert faults[0].startswith(fault)


def test_broken_yaml_without_the_key_is_reported_once() -> None:
    for data in ("a: 1\na: 2\nb: 1\nb: 2", "# claims:\na: 1\na: 2", "- the claims:\na: [x"):
        _, faults = load(data)
        assert sum("has no key `claims`" in each for each in faults) == 1
        assert len(faults) > 1


@pytest.mark.parametrize(
    "data",
    [
        b"claims:\n- a\nclaims:\n- b",
        b"partition: x\r'claims' : [a",
        b"\xef\xbb\xbfclaims: [a",
        b"{claims: [a",
        b"  Claims:\n- a\n b",
        "claims: [nobody may submit root]".encode("utf-16"),
        "facts: [a within b]".encode("utf-16-le"),
        b"\xff: 1",
    ],
)
def test_broken_yaml_that_may_have_the_key(data: bytes) -> None:
    diagnostics = Diagnostics("claims.yaml")
    load_claims(data, diagnostics, "claims.yaml")
    faults = [str(each) for each in diagnostics.sorted()]
    assert faults
    assert not any("has no key" in each for each in faults)


@rows
def test_queues_that_do_not_fit(text: str) -> None:
    found, faults = load(f"claims: [{text}]")
    assert not faults
    with pytest.raises(BadClaim, match=r"full path|single queues"):
        bind(found.claims[0], PARTITION, lambda _: OLD)


@rows
def test_the_claim_that_was_meant(text: str, remedy: str) -> None:
    _, [found] = load(f"claims: ['{text}']")
    assert "is not a claim" in found
    assert remedy in found
    assert (f"(write {text}" in found) is False


def test_a_fact_about_a_name_with_a_space() -> None:
    _, [found] = load("facts: [group:Data Platform within staff]\nclaims: [nobody may submit root]")
    assert 'a name with a space needs double quotes: group:"Data Platform" within staff' in found
