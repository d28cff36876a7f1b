"""spark-defaults.conf: lines, errors and their positions."""

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
