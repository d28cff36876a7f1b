"""Settings from variables and options: names, values, and their place in the tree."""

import json
from pathlib import Path
from typing import Any

import pytest

from queuegate_server.formats.diagnostics import Diagnostic
from queuegate_server.settings.load import from_environment, from_options
from queuegate_server.settings.source_map import Override, SourceMap
from tests.support.settings_faults import faults

TOP_LEVEL = ("listen", "policy", "log", "partitions", "two_words")


def environment(
    name: str, value: str = "x", tree: dict[str, Any] | None = None
) -> list[Override | Diagnostic]:
    return list(from_environment({name: value}, TOP_LEVEL, tree or {}))


@pytest.mark.parametrize(
    ("name", "path"),
    [
        ("QUEUEGATE_LISTEN", ("listen",)),
        ("QUEUEGATE_TWO_WORDS", ("two_words",)),
        ("QUEUEGATE_POLICY__PATH", ("policy", "path")),
        (
            "QUEUEGATE_PARTITIONS__DEFAULT__CACHE__MAX_ENTRIES",
            ("partitions", "default", "cache", "max_entries"),
        ),
    ],
)
def test_variable_names_a_setting(name: str, path: tuple[str, ...]) -> None:
    assert environment(name) == [Override(name, path, "x")]


def test_names_are_spelled_as_in_the_file() -> None:
    name = "QUEUEGATE_PARTITIONS__GPU__RESOLVER"
    found = environment(name, "corp", {"partitions": {"GPU": {}}})
    assert found == [Override(name, ("partitions", "GPU", "resolver"), "corp")]


@pytest.mark.parametrize(
    "name",
    [
        "QUEUEGATE_ADDRESS",
        "QUEUEGATE_CONFIG",
        "QUEUEGATE",
        "MY_QUEUEGATE_LISTEN",
        # Kubernetes sets these for services named queuegate and queuegate-admission.
        "QUEUEGATE_SERVICE_HOST",
        "QUEUEGATE_SERVICE_PORT",
        "QUEUEGATE_SERVICE_PORT_GRPC",
        "QUEUEGATE_PORT",
        "QUEUEGATE_PORT_50051_TCP",
        "QUEUEGATE_PORT_50051_TCP_ADDR",
        "QUEUEGATE_PORT_50051_TCP_PORT",
        "QUEUEGATE_PORT_50051_TCP_PROTO",
        "QUEUEGATE_ADMISSION_SERVICE_HOST",
        "QUEUEGATE_ADMISSION_PORT_443_TCP",
    ],
)
def test_variables_of_others_are_ignored(name: str) -> None:
    assert environment(name, "tcp://10.0.0.1:443") == []


@pytest.mark.parametrize(
    ("option", "origin", "path", "value"),
    [
        ("drain.grace=30s", "--set drain.grace", ("drain", "grace"), "30s"),
        ("log.level=", "--set log.level", ("log", "level"), ""),
        ("a.b=c=d", "--set a.b", ("a", "b"), "c=d"),
        ('listen=["a:1", "b:2"]', "--set listen", ("listen",), ["a:1", "b:2"]),
        ("listen=[::1]:50051", "--set listen", ("listen",), "[::1]:50051"),
        ('policy.path="/a b"', "--set policy.path", ("policy", "path"), "/a b"),
        ("policy.path=007", "--set policy.path", ("policy", "path"), "007"),
        ('log={"level": "debug"}', "--set log", ("log",), {"level": "debug"}),
        (
            "listen=[127.0.0.1:50051, unix:/run/q.sock]",
            "--set listen",
            ("listen",),
            ["127.0.0.1:50051", "unix:/run/q.sock"],
        ),
        (
            "callers={loopback: {roles: [check]}}",
            "--set callers",
            ("callers",),
            {"loopback": {"roles": ["check"]}},
        ),
        ("listen=[a:1, '[::1]:1']", "--set listen", ("listen",), ["a:1", "[::1]:1"]),
        ("listen=[::1]:1,[::1]:2", "--set listen", ("listen",), "[::1]:1,[::1]:2"),
        ("log.level='x y'", "--set log.level", ("log", "level"), "x y"),
        ("policy.path=~", "--set policy.path", ("policy", "path"), "~"),
    ],
)
def test_option_sets_a_key(option: str, origin: str, path: tuple[str, ...], value: object) -> None:
    assert list(from_options([option])) == [Override(origin, path, value)]


@pytest.mark.parametrize(
    "value",
    [
        "[a, b",
        "[a, b]]",
        "[a] b",
        "[a], [b]",
        "[a]\n- b",
        "{a: 1",
        "{a: 1, a: 2}",
        "[*]",
        "[!!python/name:os.system x]",
        "'a",
        "[[::1]:50051]",
        "[\udcff]",
    ],
)
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
