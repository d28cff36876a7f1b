"""The lint rules for names and texts that cannot be meant, in all formats."""

import time
from html import escape
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from queuegate.policy.acl import AclNames
from queuegate.policy.yarn_acl import Semantics
from queuegate_server.formats.diagnostics import Diagnostic
from queuegate_server.formats.registry import FormatOptions, check_file
from queuegate_server.formats.source_text import split_lines
from queuegate_server.formats.yarn.load import YarnOptions
from tests.support.rows import rows

REPOSITORY = Path(__file__).parents[3]
FAIR = "fair-scheduler"
CAPACITY = "capacity-scheduler"
YUNIKORN = "yunikorn"
PREFIX = "yarn.scheduler.capacity.root"


def properties(**values: str) -> str:
    """Return a capacity-scheduler.xml; `__` in a name stands for a dot."""
    texts = {"queues": "a", "acl_submit_applications": " ", "acl_administer_queue": " ", **values}
    return "<configuration>{}</configuration>".format(
        "".join(
            f"<property><name>{PREFIX}.{name.replace('__', '.')}</name>\n"
            f"<value>{escape(text)}</value></property>"
            for name, text in texts.items()
        )
    )


def document(format_name: str, acl: str) -> str:
    """Return a policy with an ACL of queue `root.a`, on the fourth line or below."""
    if format_name == YUNIKORN:
        queue = {"name": "a", "submitacl": acl}
        root = {"name": "root", "queues": [queue]}
        return yaml.safe_dump(
            {"partitions": [{"name": "default", "queues": [root]}]}, allow_unicode=True
        )
    if format_name == CAPACITY:
        return properties(a__acl_submit_applications=acl)
    closed = "<aclSubmitApps> </aclSubmitApps><aclAdministerApps> </aclAdministerApps>"
    return (
        f"<allocations>\n<queue name='root'>{closed}\n<queue name='a'>\n"
        f"<aclSubmitApps>{escape(acl)}</aclSubmitApps></queue></queue></allocations>"
    )


def lint(
    format_name: str,
    acl: str,
    names: AclNames = AclNames.YUNIKORN,
    semantics: Semantics = Semantics.DOCUMENTED,
    known: frozenset[str] = frozenset(),
) -> list[Diagnostic]:
    data = document(format_name, acl).encode()
    yarn = YarnOptions(semantics=semantics, known_names=known)
    options = FormatOptions(acl_names=names, yarn=yarn)
    found = check_file(format_name, data, "f", options, with_lint=True)
    for each in found:
        assert each.remedy, each
        assert str(each).isprintable()
    return found


@pytest.mark.parametrize("format_name", [FAIR, CAPACITY])
@rows
def test_known_names_are_not_suspicious(format_name: str, acl: str, message: str) -> None:
    known = frozenset({"alice", "Alice", "etl", "g", "h", "none", "data engineers", "R&D team"})
    known |= {"Hadoop Admins", "HR/Payroll", "C# devs", "data platform team"}
    found = lint(format_name, acl, semantics=Semantics.HADOOP, known=known)
    assert [message in each.message for each in found] == [True] * bool(message)


@pytest.mark.parametrize(
    ("acl", "count"),
    [
        *(("insert-team", 0), ("bob insert-team", 0), ("none", 0), ("Alice,alice", 0)),
        *(("insert-team,replace-me", 1), ("alice,insert-user", 1), ("ALICE,alice", 1)),
    ],
)
def test_known_names_are_not_suspicious_in_yunikorn(acl: str, count: int) -> None:
    known = frozenset({"alice", "Alice", "none", "insert-team"})
    assert len(lint(YUNIKORN, acl, known=known)) == count


EXAMPLES = [
    *((file, YUNIKORN) for file in (REPOSITORY / "examples").rglob("queues*.yaml")),
    *((file, FAIR) for file in (REPOSITORY / "examples").rglob("fair-scheduler.xml")),
    *((file, CAPACITY) for file in (REPOSITORY / "examples").rglob("capacity-scheduler.xml")),
]


@pytest.mark.parametrize(("file", "format_name"), EXAMPLES, ids=lambda each: str(each)[-40:])
def test_examples_have_no_mistakes(file: Path, format_name: str) -> None:
    found = check_file(format_name, file.read_bytes(), file.name, with_lint=True)
    assert [str(each) for each in found if "one name" in each.message] == []
    assert [str(each) for each in found if "part of the name" in each.message] == []


ODD = st.text(
    alphabet=st.sampled_from([*" ,;|*\\\"'`@%${}<>_=-/.()\t\n\u200b\u3000\uff0caA1"]), max_size=30
)


@given(ODD, st.sampled_from([FAIR, CAPACITY, YUNIKORN]), st.sampled_from([*AclNames]))
def test_any_text(acl: str, format_name: str, names: AclNames) -> None:
    """Lint never raises, and each position is one of the file."""
    found = lint(format_name, acl, names)
    lines = split_lines(document(format_name, acl))
    for each in found:
        assert 0 <= each.line <= len(lines)
        assert each.line == 0 or 1 <= each.column <= len(lines[each.line - 1]) + 1


@pytest.mark.parametrize("format_name", [FAIR, YUNIKORN])
@pytest.mark.parametrize("shape", ["{}", "x a{} y", "x y {}"])
@pytest.mark.parametrize(
    "part",
    [
        *("{", "$", "${", "<", "%a", "@a", "__A", "[", "cn=", ",", "a@", "a\\"),
        *("&", "&a", "#", "]", "-here", "x", "your-", "\u0430", "a\u0430", "a/"),
        *("\uff20", "\xd7", "\u0301", "e\u0301", " &", "your-user-", "user-", "a&b"),
    ],
)
def test_time_is_linear(format_name: str, part: str, shape: str) -> None:
    """A factor of 16 in size may not become one of 256 in time, by the processor's clock."""

    def seconds(size: int) -> float:
        data = document(format_name, shape.format(part * size)).encode()
        options = FormatOptions(yarn=YarnOptions(semantics=Semantics.HADOOP))
        start = time.process_time()
        check_file(format_name, data, "f", options, with_lint=True)
        return time.process_time() - start

    seconds(100)
    assert seconds(160_000) < 100 * max(seconds(10_000), 0.02)
