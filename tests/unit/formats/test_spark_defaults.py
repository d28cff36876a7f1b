"""spark-defaults.conf: lines, faults and their places."""

import pytest

from queuegate_server.formats.problems import has_errors
from queuegate_server.formats.spark_defaults import read_spark_defaults


def test_lines() -> None:
    text = "# c\n\n! c\na.b  x y \nc=d\ne: f\n  g\th\nempty\ni = a=b\n"
    properties, problems = read_spark_defaults(text.encode(), "f")
    assert properties == {
        "a.b": "x y",
        "c": "d",
        "e": "f",
        "g": "h",
        "empty": "",
        "i": "a=b",
    }
    assert not problems


@pytest.mark.parametrize(
    ("data", "place", "words"),
    [
        (b"a b\nspark.acls.enable maybe", (2, 1), "should be true or false, not 'maybe'"),
        (b"a b\na c", (2, 1), "is set above"),
        (b"spark.ui.view.acls a,\\\nb", (1, 1), "no property that is understood"),
        (b"= b", (1, 1), "no property that is understood"),
        (b"a \xff", (1, 3), "not UTF-8"),
    ],
)
def test_faults(data: bytes, place: tuple[int, int], words: str) -> None:
    _, problems = read_spark_defaults(data, "f")
    assert (problems[0].line, problems[0].column) == place
    assert words in problems[0].message
    assert problems[0].remedy
    assert has_errors(problems) is ("above" not in words)
