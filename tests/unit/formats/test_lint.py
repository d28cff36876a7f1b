"""The lint rules, and that a normal file has no diagnostics."""

from pathlib import Path

import pytest

from queuegate.policy.acl import AclNames
from queuegate_server.formats.format_names import FORMATS
from queuegate_server.formats.registry import FormatOptions, lint_policy, load_policy
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
