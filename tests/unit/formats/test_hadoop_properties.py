"""Hadoop's properties: yarn-site.xml, variables, queue names without a path."""

import pytest

from queuegate.policy.decide import decide
from queuegate.policy.decision import Access, Reason
from queuegate.policy.explain import explain
from queuegate.policy.yarn_acl import Semantics
from queuegate_server.formats.diagnostics import has_errors
from queuegate_server.formats.findings.finding import Severity
from queuegate_server.formats.registry import FormatOptions, load_policy
from queuegate_server.formats.yarn.load import YarnOptions
from queuegate_server.formats.yarn.site import read_site
from tests.support.generators.yarn_files import CAPACITY, prop, site
from tests.support.rows import rows


@pytest.mark.parametrize(
    ("properties", "expected"),
    [
        (prop("yarn.acl.enable", "true") + prop("yarn.admin.acl", "bob"), []),
        (
            prop("yarn.resourcemanager.hostname", "rm"),
            ["yarn.acl.enable is not set and defaults to false"],
        ),
        (
            prop("yarn.acl.enable", "yes"),
            ['"yes", which is neither true nor false, so it is read as false'],
        ),
        (prop("yarn.acl.enable", " TRUE\n"), ["yarn.admin.acl is not set and defaults to *"]),
        (
            prop("yarn.acl.enable", "true") + prop("yarn.admin.acl", " * "),
            ["yarn.admin.acl is *: everyone administers the cluster"],
        ),
        (
            prop("yarn.acl.enable", "true") + prop("yarn.admin.acl", ""),
            ["an empty value, which sets nothing", "yarn.admin.acl is not set"],
        ),
    ],
)
def test_warnings_about_yarn_site(properties: str, expected: list[str]) -> None:
    data = f"<configuration>{properties}</configuration>".encode()
    _, found = read_site((data, "s"), Semantics.DOCUMENTED)
    assert len(found) == len(expected)
    for words in expected:
        assert any(words in diagnostic.message and diagnostic.remedy for diagnostic in found)


@pytest.mark.parametrize("admins", ["", prop("yarn.admin.acl", "*")])
@pytest.mark.parametrize(
    ("semantics", "words"),
    [
        (Semantics.DOCUMENTED, "everyone administers the cluster, and no queue is protected"),
        (Semantics.HADOOP, "everyone may view and change every application"),
    ],
)
def test_open_administrators(admins: str, semantics: Semantics, words: str) -> None:
    data = f"<configuration>{prop('yarn.acl.enable', 'true')}{admins}</configuration>".encode()
    _, [warning] = read_site((data, "s"), semantics)
    assert warning.message.endswith(f": {words}")


@pytest.mark.parametrize(
    ("value", "others", "expected"),
    [
        ("${team},bob ${ops}", {"team": "ann", "ops": "g"}, "ann,bob g"),
        ("${a}", {"a": "${b}", "b": "x"}, "x"),
        ("${${which}}", {"which": "b", "b": "x"}, "x"),
        ("${a} ${a}", {"a": "x"}, "x x"),
        ("$ {x} ${} ${a b}", {}, "$ {x} ${} ${a b}"),
        ("${a}", {}, '"a" is not set in this file'),
        ("${user.name}", {"user.name": "x"}, "environment of Hadoop's process"),
        ("${env.USER:-x}", {}, "environment of Hadoop's process"),
        ("${a}", {"a": "${b}", "b": "${a}"}, '"a" contains itself'),
        ("${a0}", {f"a{n}": f"${{a{n + 1}}}" for n in range(30)}, "20 or more variables"),
        ("${a}", {"a": "${b}${c}", "b": "x" * 600_000, "c": "y" * 600_000}, "too long"),
    ],
)
def test_variables(value: str, others: dict[str, str], expected: str) -> None:
    key = "yarn.scheduler.capacity.root.acl_submit_applications"
    unused = prop("yarn.nodemanager.local-dirs", "${nosuch}/nm")
    unused += prop("yarn.scheduler.capacity.root.acl_application_max_priority", "${nosuch}")
    text = "".join(prop(name, other) for name, other in others.items())
    text += prop("yarn.scheduler.capacity.root.queues", "a")
    data = f"<configuration>{prop(key, value)}{text}{unused}</configuration>".encode()
    loaded = load_policy(CAPACITY, data, "f")
    errors = [
        diagnostic for diagnostic in loaded.diagnostics if diagnostic.severity is Severity.ERROR
    ]
    if errors:
        assert expected in errors[0].message
        assert errors[0].line
        assert not loaded.partitions
    else:
        assert loaded.partitions["default"].queues["root"].submit_acl.text == expected


@pytest.mark.parametrize(
    ("lines", "line", "words"),
    [
        (["x ${a}", "a ${b}", "b ${c}", "c ${b}"], 3, '"b" contains itself'),
        (["x ${a}", "a ${nosuch}"], 2, '"nosuch" is not set'),
        (["x ${a} ${nosuch}", "a b"], 1, '"nosuch" is not set'),
    ],
)
def test_an_error_in_a_variable_has_its_position(lines: list[str], line: int, words: str) -> None:
    acl = "yarn.scheduler.capacity.root.acl_submit_applications"
    stated = [one.partition(" ") for one in lines]
    text = "\n".join(prop(acl if name == "x" else name, value) for name, _, value in stated)
    data = f"<configuration>{text}</configuration>".encode()
    fault = load_policy(CAPACITY, data, "f").diagnostics[0]
    assert words in fault.message
    assert fault.line == line


def test_variables_do_not_fill_the_memory() -> None:
    key = "yarn.scheduler.capacity.root"
    many = "".join(prop(f"{key}.q{n}.acl_submit_applications", "${a}") for n in range(1_000))
    for long, words in (("x" * 900_000, "too long in total"), ("x" * 900_000 + "${a}", "contains")):
        data = f"<configuration>{prop('a', long)}{many}</configuration>".encode()
        found = load_policy(CAPACITY, data, "f").diagnostics
        assert any(words in diagnostic.message for diagnostic in found)
        assert any("too long in total" in diagnostic.message for diagnostic in found)
        assert sum(diagnostic.severity is Severity.ERROR for diagnostic in found) < 100


def test_a_switch_that_depends_on_another_file_is_refused() -> None:
    text = prop("yarn.acl.enable", "${acls}")
    for more, is_enabled in (("", None), (prop("acls", "true"), True), (prop("acls", "no"), False)):
        data = f"<configuration>{text}{more}{prop('yarn.admin.acl', ' ')}</configuration>".encode()
        found, diagnostics = read_site((data, "s"), Semantics.DOCUMENTED)
        assert has_errors(diagnostics) is (is_enabled is None)
        assert is_enabled is None or found.acls_enabled is is_enabled


@rows
def test_what_hadoop_reads_anywhere_is_not_ignored(text: str, is_refused: bool) -> None:
    """Hadoop enforces ACLs with such a file, so it must not turn them off here."""
    data = f"<configuration>{text.format(prop('yarn.acl.enable', 'true'))}</configuration>".encode()
    found, diagnostics = read_site((data, "s"), Semantics.DOCUMENTED)
    errors = [one for one in diagnostics if one.severity is Severity.ERROR]
    assert bool(errors) is is_refused, errors
    assert is_refused or found.acls_enabled
    assert all(
        "where Hadoop reads it but queuegate does not" in one.message and one.line for one in errors
    )


def test_short_names_of_the_capacity_scheduler() -> None:
    key = "yarn.scheduler.capacity.root"
    text = "".join(
        [
            "<configuration>",
            prop(f"{key}.queues", "eng,ops"),
            prop(f"{key}.eng.queues", "dev,qa"),
            prop(f"{key}.ops.queues", "qa"),
            prop(f"{key}.acl_submit_applications", "boss"),
            prop(f"{key}.acl_administer_queue", " "),
            prop(f"{key}.eng.acl_submit_applications", "ann"),
            "</configuration>",
        ]
    ).encode()
    partition = load_policy(CAPACITY, text, "f").partitions["default"]
    assert partition.canonical_path("dev") == "root.eng.dev"
    assert partition.canonical_path("eng") == "root.eng"
    assert partition.canonical_path("root") == "root"
    assert partition.canonical_path("new") == "root.new"
    for queue, user, allowed in (
        ("dev", "ann", True),
        ("dev", "boss", True),
        ("eng.qa", "ann", True),
        ("qa", "ann", False),
        ("qa", "boss", False),  # Hadoop knows no queue of a name that is there twice
        ("new", "boss", True),
        ("new", "ann", False),
    ):
        path = partition.canonical_path(queue)
        assert path is not None
        for access in Access:
            decision = decide(partition, path, access, user, ())
            assert decision is not None
            assert decision.allowed is (allowed and access is Access.SUBMIT)
            assert explain(partition, path, access, user, ()).decision == decision
    off = YarnOptions(site=site(enabled="false"))
    partition = load_policy(CAPACITY, text, "f", FormatOptions(yarn=off)).partitions["default"]
    decision = decide(partition, partition.canonical_path("qa") or "", Access.SUBMIT, "ann", ())
    assert decision is not None
    assert decision.reason is Reason.ACLS_DISABLED
