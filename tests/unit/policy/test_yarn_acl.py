"""YARN's ACL grammar: the vectors of both readings, and the oracle."""

from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from queuegate.policy.yarn_acl import Semantics, describe_difference, parse_yarn
from tests.support.oracles.yarn import YarnAclOracle
from tests.support.rows import rows
from tests.support.yarn_vectors import VECTORS, readings
from tests.unit.policy.granted import is_granted

NAMES = ["a", "u1", "g1", "g1 g2", "*", "~a", "A", "x y"]
TEXTS = st.one_of(
    st.lists(
        st.sampled_from([*NAMES, " ", " ", ",", ",", "*", "\t", "\n", "\u00a0", "\x1c"]), max_size=9
    ).map("".join),
    st.text(max_size=10),
)


CASES = [
    pytest.param(vector["input"], semantics, expect, id=f"{vector['id']}-{semantics}")
    for vector in VECTORS
    if vector["dialect"] == "yarn"
    for semantics, expect in readings(vector)
]


@pytest.mark.parametrize(("asked", "semantics", "expect"), CASES)
def test_vectors(asked: dict[str, Any], semantics: Semantics, expect: dict[str, Any]) -> None:
    acl = parse_yarn(asked["acl"], semantics)
    if asked["op"] == "parse":
        assert acl.allows_all is expect["all_allowed"]
        assert acl.users == set(expect["users"])
        assert acl.groups == set(expect["groups"])
    else:
        answer = is_granted(acl, asked["user"], asked["groups"], asked.get("real_user") or "")
        assert answer is expect["allowed"]


@given(TEXTS, st.sampled_from(Semantics), st.lists(st.sampled_from(NAMES), max_size=2))
@example("alice *", Semantics.HADOOP, [])
@example("alice *", Semantics.DOCUMENTED, ["*"])
@example("\n  a g1\n", Semantics.HADOOP, ["a g1"])
def test_agrees_with_the_oracle(text: str, semantics: Semantics, groups: list[str]) -> None:
    acl = parse_yarn(text, semantics)
    oracle = YarnAclOracle(text, semantics)
    assert acl.text == text
    for user in (*NAMES, text, text.strip(), ""):
        assert is_granted(acl, user, groups) is oracle.admits(user, groups), user


@given(TEXTS)
def test_a_difference_is_reported_if_and_only_if_there_is_one(text: str) -> None:
    documented, hadoop = (parse_yarn(text, semantics) for semantics in Semantics)
    same = (documented.allows_all, documented.users, documented.groups, documented.proxies) == (
        hadoop.allows_all,
        hadoop.users,
        hadoop.groups,
        hadoop.proxies,
    )
    assert (describe_difference(text) == "") is same


@rows
def test_differences_in_words(text: str, message: str) -> None:
    assert describe_difference(text).startswith(message)
    assert bool(describe_difference(text)) is bool(message)
