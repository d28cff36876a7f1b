"""spark-defaults.conf: lines, errors and their positions."""

import pytest

from queuegate_server.formats.diagnostics import has_errors
from queuegate_server.formats.registry import check_file
from queuegate_server.formats.spark_defaults import read_spark_defaults


def test_lines() -> None:
    text = "# c\n\n! c\na.b  x y \nc=d\ne: f\n  g\th\nempty\ni = a=b\n"
    properties, diagnostics = read_spark_defaults(text.encode(), "f")
    assert properties == {
        "a.b": "x y",
        "c": "d",
        "e": "f",
        "g": "h",
        "empty": "",
        "i": "a=b",
    }
    assert not diagnostics


@pytest.mark.parametrize(
    ("data", "position", "words"),
    [
        (b"a b\nspark.acls.enable maybe", (2, 1), "must be true or false, not 'maybe'"),
        (b"a b\na c", (2, 1), "is already set above"),
        (b"spark.ui.view.acls a,\\\nb", (1, 1), "is not a valid property"),
        (b"= b", (1, 1), "is not a valid property"),
        (b"a \xff", (1, 3), "not UTF-8"),
    ],
)
def test_errors(data: bytes, position: tuple[int, int], words: str) -> None:
    _, diagnostics = read_spark_defaults(data, "f")
    assert (diagnostics[0].line, diagnostics[0].column) == position
    assert words in diagnostics[0].message
    assert diagnostics[0].remedy
    assert has_errors(diagnostics) is ("above" not in words)


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("spark.ui.view.acls a b,c", '"a b" is one name'),
        ("spark.ui.acls.enable true", "has no effect since Spark 3"),
        ("spark.ui.view.acl a", '"spark.ui.view.acl" is not a Spark property'),
        ("spark.Admin.ACLs a", '"spark.Admin.ACLs" is not a Spark property'),
        ("spark.admin.acls a,*", "everyone may modify every application"),
        ("spark.modify.acls.groups *", "everyone may modify every application"),
        ("spark.ui.view.acls *,a", "everyone has access"),
        ("spark.admin.acls ${ops}", "is not expanded"),
        ("spark.ui.view.acls *", ""),
        ("spark.admin.acls.groups a, b", ""),
        ("spark.acls.enable true", ""),
        ("spark.history.ui.acls.enable true", ""),
        ("oracle.jdbc a b", ""),
    ],
)
def test_misleading_lines_are_reported_by_the_linter(line: str, words: str) -> None:
    data = f"# Spark\n{line}\n".encode()
    assert check_file("spark-defaults", data, "f", with_lint=False) == []
    found = check_file("spark-defaults", data, "f", with_lint=True)
    assert len(found) == bool(words)
    for diagnostic in found:
        assert words in diagnostic.message
        assert diagnostic.line == 2
        assert diagnostic.remedy
        assert not has_errors(found)
