"""Texts of ACLs in all grammars, read as the slow evaluators read them.

The first byte of an input selects the grammar. The fields after it are, for Spark, the action, the
user, the application's user, the user of its process, the user's groups with commas between
them, and names and values of properties; otherwise the text of the ACL, the user, the service
that acts for her, and her groups.
"""

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final

from queuegate.policy.acl import EMPTY, Acl, AclError, AclNames, has_only_valid_names, parse
from queuegate.policy.applications import Action
from queuegate.policy.decide import decide
from queuegate.policy.decision import Access
from queuegate.policy.queue import QueueAcls
from queuegate.policy.spark import SparkError, spark_acls
from queuegate.policy.tree import build_partition
from queuegate.policy.yarn_acl import Semantics, describe_difference, parse_yarn
from tests.fuzz.targets.inputs import joined, texts
from tests.support.oracles.applications import spark_allowed
from tests.support.oracles.queue_access import AclOracle
from tests.support.oracles.yarn import YarnAclOracle
from tests.support.yarn_vectors import VECTORS

TOKENS: Final = (
    *(b" ", b",", b"*", b"~", b"$", b"\xff", b"\xff*", b"\t", b"\n", b"\x00", b" *", b"* "),
    *("\u00a0".encode(), "\u0085".encode(), "\u3000".encode(), b"\x1c", "é".encode()),
    *(b"spark.acls.enable\xfftrue", b"spark.admin.acls", b"spark.ui.view.acls", b".groups"),
    *(b"spark.modify.acls", b"spark.user.groups.mapping", b"view", b"modify", b"admin"),
    *(b"bob", b"_x-1", b"system:serviceaccount:ns:name", b"a.b@c"),
)
_MAX_NAMES: Final = 12
_SPARK_FIELDS: Final = 5
_SPARK_ACTIONS: Final = {
    action.value: action for action in (Action.VIEW, Action.VIEW_LOGS, Action.MODIFY, Action.ADMIN)
}


def target(data: bytes) -> None:
    """Compare one ACL, or the properties of one application."""
    _GRAMMARS[data[0] % len(_GRAMMARS) if data else 0](texts(data[1:]))


def seeds() -> Iterable[bytes]:
    """The vectors, and the properties of applications among them."""
    vectors = json.loads(Path("tests/vectors/acl_vectors.json").read_text())
    for vector in (*vectors["parse"], *vectors["access"]):
        who = (vector.get("user", "bob"), "", *vector.get("groups", ()))
        for grammar in (b"\0", b"\1"):
            yield grammar + joined(vector["acl"], *who)
    for vector in VECTORS:
        asked = vector["input"]
        if vector["dialect"] == "yarn":
            who = (asked.get("user", "bob"), asked.get("real_user") or "", *asked.get("groups", ()))
            for grammar in (b"\2", b"\3"):
                yield grammar + joined(asked["acl"], *who)
        elif vector["dialect"] == "spark":
            fields = (
                *(asked.get("action", "view"), asked.get("user") or ""),
                *(asked["spark_user"], asked["process_os_user"]),
                ",".join(asked.get("groups", ())),
            )
            properties = (text for pair in asked["conf"].items() for text in pair)
            yield b"\4" + joined(*fields, *properties)


def _yunikorn(fields: Sequence[str], names: AclNames) -> None:
    text, user, _, groups = _fields(fields)
    oracle = AclOracle(text, names=names.value)
    try:
        acl = parse(text, names)
    except AclError:
        assert oracle.is_error
        return
    assert not oracle.is_error
    assert acl.is_empty is not (oracle.everyone or bool(oracle.users or oracle.groups))
    if has_only_valid_names(text, names):
        assert (acl.dropped_users, acl.dropped_groups, acl.allows_all) == ((), (), False)
    _compare(acl, text, user, "", groups, oracle.admits)


def _of_yarn(fields: Sequence[str], semantics: Semantics) -> None:
    text, user, real_user, groups = _fields(fields)
    acl = parse_yarn(text, semantics)
    oracle = YarnAclOracle(text, semantics)
    _compare(
        acl,
        text,
        user,
        real_user,
        groups,
        lambda who, of_whom: oracle.admits(who, of_whom, real_user),
    )
    describe_difference(text)


def _fields(fields: Sequence[str]) -> tuple[str, str, str, Sequence[str]]:
    text, user, real_user, *groups = (*fields, "", "", "")[: max(3, len(fields))]
    return text, user, real_user, groups


def _compare(
    acl: Acl,
    text: str,
    user: str,
    real_user: str,
    groups: Sequence[str],
    admits: Callable[[str, Sequence[str]], bool],
) -> None:
    """Ask for the user and the groups, and for each name in the text as a user and as a group."""
    assert acl.text == text
    partition = build_partition("default", "", [QueueAcls("root", acl, EMPTY)])
    names = [user, "*", text, text.strip(), *re.split(r"[\s,]", text)][:_MAX_NAMES]
    for who, of_whom in (*((name, groups) for name in names), *((user, [name]) for name in names)):
        found = decide(partition, "root", Access.SUBMIT, who, of_whom, real_user=real_user)
        assert found is not None
        assert found.allowed is admits(who, of_whom), (text, who, of_whom)
        early = decide(partition, "root", Access.SUBMIT, who, None, real_user=real_user)
        assert early is None or early.allowed is found.allowed


def _spark(fields: Sequence[str]) -> None:
    stated = (*fields, *("" for _ in range(_SPARK_FIELDS)))
    kind, user, spark_user, process_user, listed = stated[:_SPARK_FIELDS]
    action = _SPARK_ACTIONS.get(kind, Action.VIEW)
    groups = [group for group in listed.split(",") if group]
    properties = _pairs(fields[_SPARK_FIELDS:])
    expected = spark_allowed(
        properties, action, user, groups, spark_user=spark_user, process_user=process_user
    )
    try:
        acls = spark_acls(properties, spark_user, process_user)
    except SparkError:
        assert expected is None
        return
    found = acls.decide(action, user, groups).decision
    assert found is not None
    assert found.allowed is expected
    early = acls.decide(action, user, None).decision
    assert early is None or early.allowed is found.allowed
    acls.yarn_acls()


def _pairs(fields: Sequence[str]) -> Mapping[str, str]:
    return dict(zip(fields[::2], fields[1::2], strict=False))


_GRAMMARS: Final[Sequence[Callable[[Sequence[str]], None]]] = (
    lambda fields: _yunikorn(fields, AclNames.YUNIKORN),
    lambda fields: _yunikorn(fields, AclNames.EXTENDED),
    lambda fields: _of_yarn(fields, Semantics.DOCUMENTED),
    lambda fields: _of_yarn(fields, Semantics.HADOOP),
    _spark,
    lambda fields: _yunikorn(fields, AclNames.ANY),
)
