"""The lint rules, and that a normal file has no diagnostics."""

from pathlib import Path

import pytest

from queuegate.policy.acl import AclNames
from queuegate_server.formats.registry import FORMATS, FormatOptions, lint_policy, load_policy
from queuegate_server.formats.yunikorn.lint import ACL_RULES, DOCUMENT_RULES

REPOSITORY = Path(__file__).parents[3]
HEAD = "partitions:\n  - name: default\n    queues:\n      - name: root\n"


def diagnostics(below_root: str, names: AclNames = AclNames.YUNIKORN) -> list[str]:
    """Lint a document that continues below a root queue; lines count from there."""
    found = lint_policy(
        "yunikorn", (HEAD + below_root).encode(), "f", FormatOptions(acl_names=names)
    )
    assert all(diagnostic.remedy and str(diagnostic).isprintable() for diagnostic in found)
    return [
        f"{diagnostic.line - 4}:{diagnostic.column}: {diagnostic.message}" for diagnostic in found
    ]


def queue(*lines: str) -> str:
    """Return a queue below the root, with these lines in it."""
    return "        queues:\n          - name: a\n" + "".join(
        f"            {line}\n" for line in lines
    )


SWALLOWED = '{}: YAML drops the spaces before "{}": it lists users, not groups'


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            queue("submitacl:  dev,test"),
            ['3:25: YAML drops the spaces before "dev,test": it lists users, not groups'],
        ),
        (
            queue("adminacl :   ops"),
            ['3:26: YAML drops the spaces before "ops": it lists users, not groups'],
        ),
        (
            "        queues: [{name: a, submitacl:  dev}]\n",
            ['1:40: YAML drops the spaces before "dev": it lists users, not groups'],
        ),
        # Two ACLs in one column are no table: the other one may be the reason for the space.
        (
            queue('submitacl: "*"', "adminacl:  ops"),
            ['4:24: YAML drops the spaces before "ops": it lists users, not groups'],
        ),
        (queue("submitacl: dev,test"), []),
        (queue('submitacl:   " dev"'), []),
        (queue("submitacl:  sue dev"), []),
        (queue('submitacl:  "sue"'), []),
        (queue("submitacl:", "  sue"), []),
        (queue("submitacl: &a sue", "adminacl:  *a"), []),
        # The spaces stand behind a tag, an anchor or a tab; the key is in quotes.
        (queue("submitacl: !!str  dev"), [SWALLOWED.format("3:24", "dev")]),
        (queue("submitacl: &x  dev"), [SWALLOWED.format("3:24", "dev")]),
        (queue("submitacl: !!str &x   dev"), [SWALLOWED.format("3:24", "dev")]),
        (queue("submitacl:\t dev"), [SWALLOWED.format("3:25", "dev")]),
        (queue("submitacl: \tdev"), [SWALLOWED.format("3:25", "dev")]),
        (queue('"submitacl":  dev'), [SWALLOWED.format("3:27", "dev")]),
        (queue("submitacl: !!str dev"), []),
        (queue("submitacl: &x dev"), []),
        (queue("submitacl:\tdev"), []),
        (queue("submitacl: !!str  'dev'"), []),
        (queue("submitacl:  !!str"), []),
        (queue("submitacl: dev  # who  else"), []),
        # On a line of its own the space is the odd one.
        (queue("submitacl:", "   dev"), [SWALLOWED.format("4:16", "dev")]),
        (queue("submitacl:  # theirs", "", "   dev"), [SWALLOWED.format("5:16", "dev")]),
        (queue("submitacl: !!str", "   dev"), [SWALLOWED.format("3:24", "dev")]),
        (queue("submitacl: >-", "   dev,ops"), [SWALLOWED.format("3:24", "dev,ops")]),
        (queue("submitacl: &x |-", "   dev"), [SWALLOWED.format("3:24", "dev")]),
        (
            queue("submitacl: |-", "   dev", "   ops"),
            [
                SWALLOWED.format("3:24", "dev\\nops"),
                "3:24: a line break in an ACL is not a separator and becomes part of a name",
                "3:24: this ACL grants access to nobody: none of its entries is a valid name",
            ],
        ),
        (queue("submitacl: >-", "  dev,ops"), []),
        (queue("submitacl: >-", "    dev,ops"), []),
        (queue("submitacl: >2-", "   dev"), []),
        (queue("submitacl: >-", "   *"), []),
        (queue("submitacl:", "   'dev'"), []),
        # Values in one column.
        (queue("parent:     false", "submitacl:  sue", "adminacl:   bob"), []),
        (queue("maxapplications:  1", "submitacl:        sue"), []),
    ],
)
def test_swallowed_blank(text: str, expected: list[str]) -> None:
    assert diagnostics(text) == expected


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        (
            ['submitacl: "dev,x\\ny"', 'adminacl: " dev"'],
            [
                '3:24: "dev" is a user here, but a group on line 8',
                "3:24: a line break in an ACL is not a separator and becomes part of a name",
            ],
        ),
        (
            ["submitacl: dev,x", 'adminacl: " dev"'],
            ['3:24: "dev" is a user here, but a group on line 8'],
        ),
        (
            ["submitacl: dev", "limits: [{limit: l, groups: [dev], maxapplications: 1}]"],
            ['3:24: "dev" is a user here, but a group on line 8'],
        ),
        # The missing space is visible; once is enough.
        (
            ["submitacl:  dev", 'adminacl: " dev"'],
            ['3:25: YAML drops the spaces before "dev": it lists users, not groups'],
        ),
        # Known users, or names that are both.
        (["submitacl: sue", 'adminacl: " dev"'], []),
        (["submitacl: dev", "adminacl: dev dev"], []),
        (["submitacl: dev,x", "adminacl: x dev"], []),
        (
            ["submitacl: dev", "limits: [{limit: l, users: [dev], groups: [dev]}]"],
            [],
        ),
        (["submitacl: dev ops", 'adminacl: " dev"'], []),
    ],
)
def test_group_as_user(lines: list[str], expected: list[str]) -> None:
    assert diagnostics(queue(*lines)) == expected


def test_groups_of_placement_filters_are_known_groups() -> None:
    rules = "    placementrules: [{name: user, filter: {groups: [dev]}}]\n"
    assert diagnostics("        submitacl: dev\n" + rules) == [
        '1:20: "dev" is a user here, but a group on line 6'
    ]
    expression = rules.replace("[dev]", "['dev.*']")
    assert diagnostics("        submitacl: dev\n" + expression) == []


@pytest.mark.parametrize(
    ("acl", "expected"),
    [
        ("sue, bob", ['the space after the comma turns "bob" into groups']),
        ("sue, bob,john", ['the space after the comma turns "bob,john" into groups']),
        ("sue,bob dev", []),
        ('"sue, "', ["a comma has no name before or after it"]),
        ('"*,sue"', ['"*" is not a valid user name in an ACL, so it grants nothing']),
        ('"sue dev,*"', ['"*" is not a valid group name in an ACL, so it grants nothing']),
        ('"* dev"', ['the list "*" lets everyone in, so the other list has no effect']),
        ('"sue *"', ['the list "*" lets everyone in, so the other list has no effect']),
        ('"*"', []),
        ('" *"', ['" *" lets everyone in, not only the members of some group']),
        ('"* "', []),
        ('"*\\n"', []),
        (
            '"sue,a\\tb"',
            ["a tab in an ACL is not a separator and becomes part of a name"],
        ),
        (
            "|\n              sue,bob dev,ops",
            ["a line break in an ACL is not a separator and becomes part of a name"],
        ),
        (
            '"sue,b\\u00a0 dev"',
            ["U+00A0 in an ACL is not a separator and becomes part of a name"],
        ),
        ('"9a b.c"', ["this ACL grants access to nobody: none of its entries is a valid name"]),
        ("9a", ["this ACL grants access to nobody: none of its entries is a valid name"]),
        ('""', []),
        ('" "', []),
        ("sue,9a", []),
        # Not an ACL at all: that is an error, and the loader's.
        ("a b c", []),
    ],
)
def test_single_acls(acl: str, expected: list[str]) -> None:
    found = diagnostics(queue(f"submitacl: {acl}"))
    assert [message.partition(": ")[2] for message in found] == expected


def test_extended_names_are_names() -> None:
    acl = queue("submitacl: system:serviceaccount:ns:sa dev.team")
    assert diagnostics(acl) == [
        "3:24: this ACL grants access to nobody: none of its entries is a valid name"
    ]
    assert diagnostics(acl, AclNames.EXTENDED) == [
        (
            '3:24: YuniKorn drops "dev.team", "system:serviceaccount:ns:sa" from this ACL: only'
            " queuegate accepts them (acl_names: extended)"
        )
    ]


def test_names_that_yunikorn_drops() -> None:
    """Also of an ACL that has others, and each only once."""
    acl = queue('submitacl: "sue,1x,1x,y/z ops,/org/team"')
    assert diagnostics(acl, AclNames.ANY) == [
        (
            '3:24: YuniKorn drops "/org/team", "1x", "y/z" from this ACL: only queuegate'
            " accepts them (acl_names: any)"
        )
    ]
    assert diagnostics(queue("submitacl: 1x"), AclNames.ANY) == [
        '3:24: YuniKorn drops "1x" from this ACL: only queuegate accepts it (acl_names: any)'
    ]
    many = queue("submitacl: " + ",".join(f"{number}" for number in range(7)))
    [found] = diagnostics(many, AclNames.ANY)
    assert '"0", "1", "2", "3", "4" and 2 more' in found
    for plain in ('submitacl: "sue ops"', 'submitacl: "*"', 'submitacl: "* a!b"'):
        assert not any("YuniKorn drops" in text for text in diagnostics(queue(plain), AclNames.ANY))


@pytest.mark.parametrize(
    ("name", "number"),
    [
        ("bob\u200b", "U+200B"),
        ("\ufeffbob", "U+FEFF"),
        ("b\u202eob", "U+202E"),
        ("b\xadob", "U+00AD"),
        ("bob\ufe0f", "U+FE0F"),
        ("bob\U000e0041", "U+E0041"),
        ("\u3164", "U+3164"),
    ],
)
def test_invisible_characters(name: str, number: str) -> None:
    expected = f"contains an invisible character, {number}"
    escaped = name.encode("ascii", "backslashreplace").decode().replace("\\xad", "\\u00ad")
    for acl in (escaped, f"sue,{escaped} ops", f" {escaped}"):
        found = diagnostics(queue(f'submitacl: "{acl}"'), AclNames.ANY)
        assert sum(expected in text for text in found) == 1, found


def test_a_name_is_no_pattern() -> None:
    found = diagnostics(queue('submitacl: " team-*"'), AclNames.ANY)
    assert any('the "*" in "team-*" stands for itself' in text for text in found)
    # As one of several names it is invalid, whatever names are accepted.
    found = diagnostics(queue('submitacl: "*,sue"'), AclNames.ANY)
    assert any('"*" is not a valid user name' in text for text in found)


SUBMIT = 'this ACL has no effect: queue "{}" lets everyone submit'
ADMINISTER = 'this ACL has no effect: queue "{}" lets everyone administer'
OPEN = 'this ACL does not close the queue: what "{}" grants also applies here'


@pytest.mark.parametrize(
    ("root", "lines", "expected"),
    [
        ('submitacl: "*"', ["submitacl: sue"], [SUBMIT.format("root")]),
        ('submitacl: "*"', ["adminacl: sue"], []),
        ('submitacl: "*"', ['submitacl: "*"'], []),
        ('submitacl: "*"', ['submitacl: ""'], []),
        ('submitacl: "*"', ['submitacl: " "'], [OPEN.format("root")]),
        ('submitacl: "*"', ['adminacl: " "'], []),
        ('adminacl: "*"', ["submitacl: sue"], [SUBMIT.format("root")]),
        ('adminacl: "*"', ["adminacl: sue"], [ADMINISTER.format("root")]),
        ('adminacl: "*"', ['adminacl: " "'], [OPEN.format("root")]),
        ("submitacl: sue", ["submitacl: bob"], []),
        ("submitacl: sue", ['submitacl: " "'], [OPEN.format("root")]),
        ("adminacl: sue", ['submitacl: " "'], [OPEN.format("root")]),
        ("submitacl: 9", ['submitacl: " "'], []),
        ('submitacl: " "', ['submitacl: " "'], []),
        (
            "parent: true",
            ['submitacl: "*"', "queues: [{name: b, queues: [{name: c, submitacl: sue}]}]"],
            [SUBMIT.format("root.a")],
        ),
        (
            "parent: true",
            ["queues: [{name: b, submitacl: '*'}, {name: c, submitacl: sue}]"],
            [],
        ),
    ],
)
def test_queues_and_those_above(root: str, lines: list[str], expected: list[str]) -> None:
    found = [line.partition(": ")[2] for line in diagnostics(f"        {root}\n" + queue(*lines))]
    assert [message for message in found if "grants access to nobody" not in message] == expected


def test_recovery_queue() -> None:
    text = "        queues: [{name: '@Recovery@', queues: [{name: '@recovery@'}]}]\n"
    assert diagnostics(text) == [
        "1:25: root.@recovery@ is reserved by YuniKorn: nobody can submit to it"
    ]


def test_names_in_two_cases() -> None:
    text = queue(
        "submitacl: Sue,bob,SUE Dev",
        "adminacl: sue bob,dev",
        'limits: [{limit: l, users: [BOB, "*"], groups: [ops]}]',
    )
    assert diagnostics(text) == [
        '3:24: user "Sue" is spelled "SUE" on line 7',
        '4:23: group "dev" is spelled "Dev" on line 7',
        '4:23: user "sue" is spelled "SUE" on line 7',
        '5:41: user "BOB" is spelled "bob" on line 7',
    ]


@pytest.mark.parametrize(
    "path", ["examples/queues.yaml", "server/queuegate_server/policystore/default_queues.yaml"]
)
def test_our_own_files_have_no_diagnostics(path: str) -> None:
    data = (REPOSITORY / path).read_bytes()
    assert load_policy("yunikorn", data, path).diagnostics == ()
    assert lint_policy("yunikorn", data, path) == []


def test_an_unreadable_text_has_no_warnings() -> None:
    assert lint_policy("yunikorn", b"a: *", "f") == []
    assert lint_policy("yunikorn", b"\xff", "f") == []
    assert lint_policy("yunikorn", b"", "f") == []


def test_every_format_has_a_linter_and_others_are_refused() -> None:
    for format_name in FORMATS:
        assert lint_policy(format_name, b"", "f") == []
    with pytest.raises(ValueError, match="unknown policy format 'xml'; use one of capacity"):
        lint_policy("xml", b"", "f")


def test_every_rule_is_listed_once() -> None:
    rules = (*ACL_RULES, *DOCUMENT_RULES)
    assert len(rules) == len(set(rules)) == 12
