"""How an ACL may be written in YAML, and the names it then lists."""

import pytest

from queuegate_server.formats.registry import load_policy

ROOT = "partitions:\n  - name: default\n    queues:\n      - name: root\n"


@pytest.mark.parametrize(
    ("line", "users", "groups"),
    [
        ("submitacl: sue dev   # on call", {"sue"}, {"dev"}),
        ("submitacl :  sue dev", {"sue"}, {"dev"}),
        ('"submit\\u0061cl": " dev"', set(), {"dev"}),
        ("? submitacl\n        : sue", {"sue"}, set()),
        ("submitacl:  dev", {"dev"}, set()),
        ("submitacl: sue\n          dev", {"sue"}, {"dev"}),
        ("submitacl: 'sue\n          dev'", {"sue"}, {"dev"}),
        ('submitacl: "sue\\\n          \\ dev"', {"sue"}, {"dev"}),
        # An empty line within quotes is a line break, which separates nothing.
        ('submitacl: "sue\n\n          dev"', set(), set()),
        ("submitacl: >-\n          sue\n          dev", {"sue"}, {"dev"}),
        # The line break at the end of a block is part of the last name.
        ("submitacl: |\n          sue,bob dev", {"sue", "bob"}, set()),
        ("submitacl: |1-\n          dev", set(), {"dev"}),
        ("submitacl: |+\n          *\n\n", None, None),
        ("submitacl: &everyone '*'", None, None),
        ('submitacl: "\\u2028*"', None, None),
        ("submitacl: !!str yes", {"yes"}, set()),
        ("submitacl: true null", {"true"}, {"null"}),
        ("submitacl: 0x10,_x", {"_x"}, set()),
        ("submitacl: a#b,c", {"c"}, set()),
        ("submitacl: a,'b'", {"a"}, set()),
        ("submitacl: a,b:c", {"a"}, set()),
        ("submitacl: null", set(), set()),
        ("submitacl: # nobody", set(), set()),
    ],
)
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
