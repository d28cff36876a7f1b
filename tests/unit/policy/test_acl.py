"""The ACL grammar: YuniKorn's vectors, and the oracle on random texts."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from queuegate.policy.acl import AclError, AclNames, has_only_valid_names, parse
from tests.support.oracles.queue_access import AclOracle
from tests.support.rows import rows
from tests.unit.policy.granted import is_granted

VECTORS = json.loads((Path("tests/vectors/acl_vectors.json")).read_text())
WORDS = "a b user g1 _x u$ a.b x@y * , , - 9 é $ : # / ' \"".split()  # noqa: SIM905 - readable
PIECES = st.sampled_from(
    [*WORDS, " ", " ", "\t", "\n", "\u00a0", "\u0085", "\x1c", "\ufeff", "\u3000"]
)
TEXTS = st.one_of(st.lists(PIECES, max_size=8).map("".join), st.text(max_size=12))


@pytest.mark.parametrize("vector", VECTORS["parse"], ids=lambda vector: vector["id"])
def test_parses_as_yunikorn_does(vector: dict[str, Any]) -> None:
    if "error" in vector:
        with pytest.raises(AclError):
            parse(vector["acl"])
        return
    acl = parse(vector["acl"])
    assert acl.users == set(vector["users"])
    assert acl.groups == set(vector["groups"])
    assert acl.allows_all is vector["all_allowed"]
    assert acl.text == vector["acl"]


@pytest.mark.parametrize("vector", VECTORS["access"], ids=lambda vector: vector["id"])
def test_lets_in_whom_yunikorn_lets_in(vector: dict[str, Any]) -> None:
    assert is_granted(parse(vector["acl"]), vector["user"], vector["groups"]) is vector["allowed"]


@given(
    TEXTS,
    st.text(max_size=5),
    st.lists(st.sampled_from(["a", "g1", "user", "*", "", "a!", "é"]), max_size=3),
    st.sampled_from(AclNames),
)
@example("* *", "", [], AclNames.YUNIKORN)
@example("\t *", "x", [], AclNames.YUNIKORN)
@example("a,* g", "a", [], AclNames.YUNIKORN)
@example("a,* g", "*", ["*"], AclNames.ANY)
@example("\u00a0*", "x", [], AclNames.ANY)
@example("\u2028a,a\x85 \x1cg", "\u2028a", ["\x1cg"], AclNames.ANY)
def test_agrees_with_the_oracle(text: str, user: str, groups: list[str], names: AclNames) -> None:
    oracle = AclOracle(text, names=names.value)
    if oracle.is_error:
        with pytest.raises(AclError):
            parse(text, names)
        return
    acl = parse(text, names)
    for name in (user, "a", "b", "user", "u$", "a.b", "x@y", "*", ""):
        assert is_granted(acl, name, groups) is oracle.admits(name, groups)
    assert acl.is_empty is not (oracle.everyone or bool(oracle.users) or bool(oracle.groups))


@given(TEXTS)
def test_every_entry_is_either_listed_or_reported(text: str) -> None:
    try:
        acl = parse(text)
    except AclError:
        return
    if acl.allows_all:
        return
    fields = [*text.split(" "), ""]
    assert set(filter(None, fields[0].split(","))) == acl.users | set(acl.dropped_users)
    assert set(filter(None, fields[1].split(","))) == acl.groups | set(acl.dropped_groups)


@rows
def test_names_accepted_by_setting(
    text: str, names: AclNames, users: set[str], groups: set[str]
) -> None:
    acl = parse(text, names)
    assert acl.users == users
    assert acl.groups == groups


@given(TEXTS, st.sampled_from(AclNames))
@example("", AclNames.YUNIKORN)
@example(" ", AclNames.YUNIKORN)
@example("a,b g1,_x", AclNames.YUNIKORN)
@example("a:b g.h", AclNames.EXTENDED)
@example("a:b g.h", AclNames.YUNIKORN)
@example("a, g", AclNames.YUNIKORN)
@example("*", AclNames.EXTENDED)
@example("\u00a0*", AclNames.ANY)
@example(" *", AclNames.ANY)
@example("1:/é,** *x", AclNames.ANY)
@example("a\u2028 b", AclNames.ANY)
def test_a_text_of_names_only_is_parsed_whole(text: str, names: AclNames) -> None:
    if has_only_valid_names(text, names):
        acl = parse(text, names)
        assert not acl.dropped_users
        assert not acl.dropped_groups
        assert not acl.allows_all


@given(st.lists(st.sampled_from(["a", "b9", "_x-y"]), max_size=4))
def test_lists_of_names_are_seen_as_such(names: list[str]) -> None:
    text = ",".join(names)
    assert all(
        has_only_valid_names(each, AclNames.YUNIKORN) for each in (text, f" {text}", f"a {text}")
    )
