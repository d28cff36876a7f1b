"""How an ACL may be written in YAML, and the names it then lists."""

import pytest

from queuegate_server.formats.registry import load_policy
from tests.support.rows import rows

ROOT = "partitions:\n  - name: default\n    queues:\n      - name: root\n"


@rows
@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_spelling(line: str, users: set[str] | None, groups: set[str] | None, end: str) -> None:
    text = f"{ROOT}        {line}\n".replace("\n", end)
    loaded = load_policy("yunikorn", text.encode(), "queues.yaml")
    acl = loaded.partitions["default"].queues["root"].submit_acl
    assert (set(acl.users), set(acl.groups)) == (users or set(), groups or set())
    assert acl.allows_all is (users is None)


@pytest.mark.parametrize(
    ("queues", "users"),
    [
        ("- &q {name: a, submitacl: sue}\n      - {<<: *q, name: b}", {"sue"}),
        ("- &q {name: a, submitacl: sue}\n      - {name: b, submitacl: bob, <<: *q}", {"bob"}),
        ("- &q {name: a, submitacl: sue}\n      - {<<: [{submitacl: ann}, *q], name: b}", {"ann"}),
    ],
)
def test_merged_queues(queues: str, users: set[str]) -> None:
    text = f"partitions:\n  - name: default\n    queues:\n      {queues}\n"
    loaded = load_policy("yunikorn", text.encode(), "queues.yaml")
    assert loaded.partitions["default"].queues["root.a"].submit_acl.users == {"sue"}
    assert loaded.partitions["default"].queues["root.b"].submit_acl.users == users
