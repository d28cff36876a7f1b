"""Settings from variables and options: names, values, and their place in the tree."""

import json
from pathlib import Path
from typing import Any

import pytest

from queuegate_server.formats.diagnostics import Diagnostic
from queuegate_server.settings.load import from_environment, from_options
from queuegate_server.settings.source_map import Override, SourceMap
from tests.support.rows import rows
from tests.support.settings_faults import faults

TOP_LEVEL = ("listen", "policy", "log", "partitions", "two_words")


def environment(
    name: str, value: str = "x", tree: dict[str, Any] | None = None
) -> list[Override | Diagnostic]:
    return list(from_environment({name: value}, TOP_LEVEL, tree or {}))


@rows
def test_variable_names_a_setting(name: str, path: tuple[str, ...]) -> None:
    assert environment(name) == [Override(name, path, "x")]


def test_names_are_spelled_as_in_the_file() -> None:
    name = "QUEUEGATE_PARTITIONS__GPU__RESOLVER"
    found = environment(name, "corp", {"partitions": {"GPU": {}}})
    assert found == [Override(name, ("partitions", "GPU", "resolver"), "corp")]


@rows
def test_variables_of_others_are_ignored(name: str) -> None:
    assert environment(name, "tcp://10.0.0.1:443") == []


@rows
def test_option_sets_a_key(option: str, origin: str, path: tuple[str, ...], value: object) -> None:
    assert list(from_options([option])) == [Override(origin, path, value)]


@rows
def test_malformed_value_is_an_error(value: str) -> None:
    """The error shows what was read from the command line."""
    [of_option] = from_options([f"listen={value}"])
    assert isinstance(of_option, Diagnostic)
    assert of_option.file == "--set listen"
    assert of_option.message.endswith(
        f"; got {json.dumps(value, ensure_ascii=not value.isprintable())}"
    )
    [of_variable] = environment("QUEUEGATE_LISTEN", value)
    assert isinstance(of_variable, Diagnostic)
    assert of_variable.message == "begins with a bracket or a quote, but is not a single YAML value"
    assert of_option.remedy == of_variable.remedy


SECRET = "s3cret-K9x"


@pytest.mark.parametrize(
    "value",
    [
        f"['{SECRET}'",
        f"[{SECRET}]]",
        f"'{SECRET}' {SECRET}",
        f"[a]\n---\n{SECRET}",
        f"'a'\n- {SECRET}",
        f"{{{SECRET}: a, {SECRET}: b}}",
        f"[*{SECRET}]",
        f"&{SECRET} [*{SECRET}]",
        f"[&{SECRET} [*{SECRET}]]",
        f"[!{SECRET} a]",
        f"[!{SECRET}!a b]",
        f"[%{SECRET}]",
        f"[`{SECRET}`]",
        f'"\\{SECRET}"',
        f"{{[{SECRET}]: a}}",
        f"{{<<: {SECRET}}}",
        f"[{SECRET}\x07]",
        f"[{SECRET}\udcff]",
        "[" * 300 + SECRET,
    ],
)
def test_no_error_shows_the_value_of_a_variable_or_of_the_file(value: str, tmp_path: Path) -> None:
    file = tmp_path / "queuegate.yaml"
    for key, message in (
        ("LOG__LEVEL", "QUEUEGATE_LOG__LEVEL: error: "),
        ("LISTEN", "QUEUEGATE_LISTEN: error: "),
    ):
        lines = faults(file, "", {f"QUEUEGATE_{key}": value})
        assert any(line.startswith(message) for line in lines)
        assert SECRET not in "\n".join(lines)
    repeats_a_key = value.startswith(f"{{{SECRET}:")
    if not repeats_a_key and value.isprintable():  # keys are named
        assert SECRET not in "\n".join(faults(file, f"reflection: {value}\nworkers: none"))


def test_overrides_create_sections_and_replace_values() -> None:
    tree: dict[str, Any] = {"policy": {"path": "a", "format": "yunikorn"}, "log": None}
    source_map = SourceMap("", None)
    assert source_map.apply(tree, Override("X", ("policy", "path"), "b")) is None
    assert source_map.apply(tree, Override("Y", ("log", "level"), "debug")) is None
    assert source_map.apply(tree, Override("Z", ("drain", "grace"), "1s")) is None
    assert tree == {
        "policy": {"path": "b", "format": "yunikorn"},
        "log": {"level": "debug"},
        "drain": {"grace": "1s"},
    }


def test_a_single_value_cannot_be_a_section() -> None:
    source_map = SourceMap("", None)
    problem = source_map.apply({"log": "x"}, Override("Q", ("log", "level"), "debug"))
    assert str(problem) == "Q: error: log is a single value, not a section"


def test_the_last_override_is_the_origin_of_a_value() -> None:
    tree: dict[str, Any] = {}
    source_map = SourceMap("", None)
    source_map.apply(tree, Override("first", ("a", "b"), "1"))
    assert source_map.nearest(("a", "b")) == ("first", True)
    assert source_map.nearest(("a", "b", "c")) == ("first", True)
    assert source_map.nearest(("a",)) == ("first", False)
    assert source_map.nearest(("a", "z")) == ("first", False)
    assert source_map.nearest(("z",)) == (None, False)
    source_map.apply(tree, Override("second", ("a",), {"b": "2"}))
    assert source_map.nearest(("a", "b")) == ("second", True)
    source_map.apply(tree, Override("third", ("a", "b"), "3"))
    assert source_map.nearest(("a", "b")) == ("third", True)
    assert source_map.nearest(("a",)) == ("second", True)
    source_map.apply(tree, Override("fourth", ("a", "c", "d"), "4"))
    assert source_map.nearest(("a", "c")) == ("second", True)
