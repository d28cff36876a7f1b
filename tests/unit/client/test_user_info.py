import json
import logging
import warnings
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from queuegate import user_info
from queuegate.user_info import InvalidUserInfo, UserInfo
from tests.support.rows import rows

VECTORS: dict[str, Any] = json.loads(
    Path("tests/vectors/annotation_vectors.json").read_text(encoding="utf-8")
)
LABEL = "yunikorn.apache.org/username"


def cases(kind: str) -> list[Any]:
    return [pytest.param(case, id=case["id"]) for case in VECTORS[kind]]


def metadata(case: dict[str, Any]) -> dict[str, Any]:
    return {"annotations": case["annotations"], "labels": case["labels"]}


@pytest.mark.parametrize("case", cases("annotations"))
def test_annotation_vectors(case: dict[str, Any]) -> None:
    if case["valid"]:
        assert user_info.parse(case["annotation"]) == UserInfo(case["user"], tuple(case["groups"]))
    else:
        with pytest.raises(InvalidUserInfo):
            user_info.parse(case["annotation"])


@pytest.mark.parametrize("case", cases("pod_user"))
def test_pod_vectors(case: dict[str, Any]) -> None:
    assert user_info.from_pod(metadata(case)) == UserInfo(case["user"], tuple(case["groups"]))


@pytest.mark.parametrize("case", cases("legacy_pod_user"))
def test_label_vectors(case: dict[str, Any]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        owner = user_info.from_pod(metadata(case), legacy_label=case["user_label_key"] or True)
    assert owner == UserInfo(case["user"], tuple(case["groups"]))


@pytest.mark.parametrize("case", cases("encode"))
def test_build_vectors(case: dict[str, Any]) -> None:
    assert user_info.build(case["user"], case["groups"] or ()) == case["annotation"]


@rows
def test_name_of_the_user(text: str, user: str) -> None:
    assert user_info.parse(text).user == user


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"user":null,"Username":1}', "'Username' must be a string"),
        ("xyz", "invalid character 'x' at position 1"),
        ('{"user":"a"', "the text ends too early"),
        ('{"user":1}', "'user' must be a string"),
        ('{"user":1,"user":"a"}', "'user' must be a string"),
        ('{"groups":{"a":1}}', "'groups' must be a list of strings"),
        ('{"user":"a","n":NaN}', "NaN is not a JSON number"),
        ("[]", "must be a JSON object"),
        ("7", "must be a JSON object"),
        ("[" * 100_000, "nested too deeply"),
        ('{"user":"' + "é" * user_info.MAX_BYTES + '"}', "longer than 262144 bytes"),
        ('{"user":"' + "é" * (user_info.MAX_BYTES // 2) + '"}', "longer than 262144 bytes"),
    ],
)
def test_messages(text: str, message: str) -> None:
    with pytest.raises(InvalidUserInfo, match=message):
        user_info.parse(text)


def test_too_long_to_build() -> None:
    with pytest.raises(InvalidUserInfo, match="longer than 262144 bytes"):
        user_info.build("a", ["g" * 1000] * 300)


@pytest.mark.parametrize("variable", [None, LABEL, "team/user", ""])
@pytest.mark.parametrize("annotations", [None, {}, {user_info.ANNOTATION: ""}])
def test_no_label_names_the_user_unless_it_is_asked_for(
    variable: str | None, annotations: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The variable says which label, and does not ask for it."""
    if variable is not None:
        monkeypatch.setenv("USER_LABEL_KEY", variable)
    pod = {"annotations": annotations, "labels": {LABEL: "root", "team/user": "root"}}
    assert user_info.from_pod(pod) == UserInfo("nobody")
    assert user_info.from_pod(pod, legacy_label=False) == UserInfo("nobody")
    assert user_info.from_pod(pod, legacy_label="") == UserInfo("nobody")


def test_the_label_is_deprecated(caplog: pytest.LogCaptureFixture) -> None:
    with pytest.warns(DeprecationWarning, match="yunikorn.apache.org/username is deprecated"):
        owner = user_info.from_pod({"labels": {LABEL: "bob"}}, legacy_label=True)
    assert owner == UserInfo("bob")
    assert [record.levelno for record in caplog.records] == [logging.WARNING]


def test_the_key_of_the_label(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("USER_LABEL_KEY", "team/user")
    pod = {"labels": {"team/user": "carol", "mine": "dora", LABEL: "bob"}}
    with pytest.warns(DeprecationWarning, match="team/user is deprecated"):
        assert user_info.from_pod(pod, legacy_label=True).user == "carol"
    with pytest.warns(DeprecationWarning, match="mine is deprecated"):
        assert user_info.from_pod(pod, legacy_label="mine").user == "dora"


@pytest.mark.parametrize("pod", [None, {}, {"annotations": None, "labels": None}])
def test_no_user_is_nobody(pod: dict[str, Any] | None) -> None:
    assert user_info.from_pod(pod) == UserInfo("nobody")


@rows
def test_metadata_of_a_wrong_type(metadata: Any, message: str) -> None:
    with pytest.raises(TypeError, match=message):
        user_info.from_pod(metadata, legacy_label=True)


def test_one_string_is_no_list_of_groups() -> None:
    with pytest.raises(TypeError, match="groups must be a list"):
        user_info.build("alice", "dev")


@rows
def test_null_in_a_repeated_list_as_in_go(lists: Any, groups: tuple[str, ...]) -> None:
    text = ",".join(f'"groups":{json.dumps(each)}' for each in lists)
    assert user_info.parse(f"{{{text}}}").groups == groups


@given(st.text(), st.lists(st.text()))
def test_a_built_annotation_is_read_back(user: str, groups: list[str]) -> None:
    text = user_info.build(user, groups)
    assert user_info.parse(text) == UserInfo(user, tuple(groups))
    assert json.loads(text) == {
        name: value for name, value in (("user", user), ("groups", groups)) if value
    }


@given(st.text() | st.text(alphabet='{}[]":,user groups\\01ntl \ud800'))
def test_parse_answers_or_refuses(text: str) -> None:
    try:
        info = user_info.parse(text)
    except InvalidUserInfo:
        return
    assert user_info.parse(user_info.build(info.user, info.groups)) == info
