"""The files of YARN's schedulers: errors with positions, bounds and warnings."""

from unittest.mock import Mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from queuegate_server.formats.diagnostics import MAX_DIAGNOSTICS, Diagnostic, Severity
from queuegate_server.formats.registry import (
    FormatOptions,
    check_file,
    detect_file_format,
    detect_format,
    lint_policy,
    load_policy,
)
from queuegate_server.formats.source_text import MAX_BYTES
from queuegate_server.formats.xml_reader import MAX_DEPTH
from queuegate_server.formats.yarn import schedulers
from queuegate_server.formats.yarn.load import YarnOptions
from tests.support.generators.yarn_files import CAPACITY, CLOSED, FAIR, prop

END = "</queue></queue>"


@pytest.mark.parametrize(
    ("format_name", "text", "line", "column", "words"),
    [
        (FAIR, "<configuration/>", 1, 1, "not <allocations>"),
        (CAPACITY, "<allocations/>", 1, 1, "not <configuration>"),
        (FAIR, "<allocations>\n <queue>", 2, 9, "invalid XML: no element found"),
        (FAIR, "", 1, 1, "no element found"),
        (FAIR, "<allocations>\n é<queue name='a.b'/></allocations>", 2, 3, "contains a dot"),
        (FAIR, "<allocations><queue/></allocations>", 1, 14, "has no name"),
        (FAIR, "<allocations><queue name='\u00a0'/></allocations>", 1, 14, "has no name"),
        (FAIR, "<allocations><queue name='Root'/></allocations>", 1, 14, 'is spelled "Root"'),
        (
            FAIR,
            "<allocations><queue name='a'><aclSubmitApps/></queue></allocations>",
            1,
            30,
            "is empty",
        ),
        (
            FAIR,
            '<!DOCTYPE a [<!ENTITY x "y">]>\n<allocations>&x;</allocations>',
            1,
            None,
            "DOCTYPE",
        ),
        (
            CAPACITY,
            "<!DOCTYPE c SYSTEM 'file:///etc/passwd'><configuration/>",
            1,
            None,
            "DOCTYPE",
        ),
        (
            CAPACITY,
            "<configuration>\n<xi:include href='/etc/passwd'/></configuration>",
            2,
            1,
            "included files are not read",
        ),
        (CAPACITY, "<configuration/>", 1, 1, "not a capacity-scheduler.xml"),
        (
            CAPACITY,
            f"<configuration>{prop('fs.defaultFS', 'hdfs://h')}</configuration>",
            1,
            1,
            "not a capacity-scheduler.xml",
        ),
        (
            CAPACITY,
            f"<configuration>{prop('yarn.scheduler.capacity.root.queues', ', ,')}</configuration>",
            1,
            74,
            "root.queues lists no queue",
        ),
        (FAIR, '<?xml version="1.0" encoding="klingon"?><allocations/>', 1, None, "encoding"),
    ],
)
def test_errors_have_a_position_and_a_remedy(
    format_name: str, text: str, line: int, column: int | None, words: str
) -> None:
    loaded = load_policy(format_name, text.encode(), "scheduler.xml")
    assert not loaded.partitions
    diagnostic = next(
        diagnostic for diagnostic in loaded.diagnostics if diagnostic.severity is Severity.ERROR
    )
    assert words in diagnostic.message
    assert (diagnostic.file, diagnostic.line) == ("scheduler.xml", line)
    assert diagnostic.column == (column or diagnostic.column) > 0
    assert diagnostic.remedy


def test_deep_and_large_files_are_refused() -> None:
    deep = "<allocations>" + "<queue name='a'>" * 10_000
    assert f"more than {MAX_DEPTH} levels" in str(
        load_policy(FAIR, deep.encode(), "f").diagnostics[0]
    )
    large = b"<allocations>" + b" " * MAX_BYTES
    assert "larger than" in str(load_policy(FAIR, large, "f").diagnostics[0])


@pytest.mark.parametrize(
    ("text", "format_name"),
    [
        ("<allocations/>", FAIR),
        ("\ufeff <?xml version='1.0'?>\n<!-- a > b -->\n<!DOCTYPE c>\n<configuration/>", CAPACITY),
        ("<!-- <allocations> --><configuration>", CAPACITY),
        ("<other/>", FAIR),
        ("<<: {a: b}", "yunikorn"),
        ("partitions: []", "yunikorn"),
        ("<!-->" * 10_000, FAIR),
        ("<!--x>" * 10_000, FAIR),
        ("<?x>" * 10_000, FAIR),
        ("<!x>" * 10_000 + "<", FAIR),
    ],
)
def test_formats_are_detected_in_linear_time(text: str, format_name: str) -> None:
    """Even for texts that are made for backtracking."""
    assert detect_format(text.encode()) == format_name


BOMB = '<!DOCTYPE {} [\n<!ENTITY x "]>">\n]>\n<{}/>'


@pytest.mark.parametrize("top", ["allocations", "configuration"])
def test_a_document_type_with_entities_is_refused_as_xml(top: str) -> None:
    data = f"\ufeff<?xml version='1.0'?>\n<!-- c -->{BOMB.format(top, top)}".encode()
    (fault,) = load_policy(detect_format(data), data, "f").diagnostics
    assert "DOCTYPE" in fault.message
    assert fault.line == 2
    assert detect_file_format(data) == FAIR


@pytest.mark.parametrize("names", ["a,b,", "a,,b", "a, b ,\n"])
def test_empty_names_in_a_list_of_queues_are_none(names: str) -> None:
    text = f"<configuration>{prop('yarn.scheduler.capacity.root.queues', names)}</configuration>"
    loaded = load_policy(CAPACITY, text.encode(), "f")
    assert loaded.diagnostics == ()
    assert set(loaded.partitions["default"].queues) == {"root", "root.a", "root.b"}


def test_names_of_queues_are_trimmed_as_java_does() -> None:
    names = prop("yarn.scheduler.capacity.root.queues", "\t a\n,\u00a0b")
    loaded = load_policy(CAPACITY, f"<configuration>{names}</configuration>".encode(), "f")
    assert set(loaded.partitions["default"].queues) == {"root", "root.a", "root.\u00a0b"}


MIXED = ["u<b>v</b> g", "u<?x y?> g", "z<![CDATA[ gg]]>", "<![CDATA[u]]>", "<?x?>u"]


@pytest.mark.parametrize("text", MIXED)
def test_an_acl_is_one_text(text: str) -> None:
    """Hadoop takes the first piece of the text, or fails; more must not be granted."""
    fair = (
        f"<allocations><queue name='a'><aclSubmitApps>{text}</aclSubmitApps></queue></allocations>"
    )
    key = "yarn.scheduler.capacity.root"
    capacity = "".join([prop(f"{key}.queues", "a"), prop(f"{key}.a.acl_submit_applications", text)])
    for format_name, data in (
        (FAIR, fair),
        (CAPACITY, f"<configuration>{capacity}</configuration>"),
    ):
        loaded = load_policy(format_name, data.encode(), "f")
        assert not loaded.partitions
        (fault,) = (one for one in loaded.diagnostics if one.severity is Severity.ERROR)
        assert "is not plain text" in fault.message
        assert fault.line
        assert fault.remedy


def test_a_comment_is_no_part_of_an_acl() -> None:
    acl = "<aclSubmitApps>u<!-- v --> g</aclSubmitApps>"
    text = f"<allocations><queue name='a'>{acl}</queue></allocations>"
    loaded = load_policy(FAIR, text.encode(), "f")
    assert loaded.partitions["default"].queues["root.a"].submit_acl.text == "u g"


def test_misspelled_acls_are_reported() -> None:
    names = ["aclSubmitApp", "aclsubmitapps", "submitAcl"]
    text = "".join(f"<{name}>bob</{name}>" for name in (*names, "aclListReservations"))
    data = f"<allocations><queue name='a'>{text}</queue></allocations>".encode()
    loaded = load_policy(FAIR, data, "f")
    assert [diagnostic.queue for diagnostic in loaded.diagnostics] == ["root.a"] * 3
    for name, diagnostic in zip(names, loaded.diagnostics, strict=True):
        assert f"<{name}> is unknown" in diagnostic.message
        assert diagnostic.remedy == "did you mean aclSubmitApps?"
    assert not loaded.partitions["default"].queues["root.a"].submit_acl.users


FIELDS = """minResources maxResources maxChildResources maxContainerAllocation
maxRunningApps maxAMShare weight schedulingPolicy schedulingMode
minSharePreemptionTimeout fairSharePreemptionTimeout
fairSharePreemptionThreshold allowPreemptionFrom reservation
aclAdministerReservations aclListReservations aclSubmitReservations"""


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("Queue", "queue"),
        ("queues", "queue"),
        ("QUEUE", "queue"),
        ("que", "queue"),
        ("Pool", "pool"),
        ("pools", "pool"),
        ("maxRunningApp", "maxRunningApps"),
        ("MaxResources", "maxResources"),
        ("aclListReservation", "aclListReservations"),
        ("banana", ""),
        ("x:queue", "queue"),
        *((name, None) for name in FIELDS.split()),
    ],
)
def test_unknown_elements_in_a_queue_are_reported(name: str, meant: str | None) -> None:
    child = f"\n <{name} name='b'><aclSubmitApps>eve</aclSubmitApps></{name}>"
    names = "xmlns:x='urn:x' name='a'"
    data = f"<allocations><queue name='root'>{CLOSED}<queue {names}>{child}{END}</allocations>"
    warnings = [(each.line, each.queue, each.message, each.remedy) for each in lint(data)]
    remedy = f"did you mean {meant}?" if meant else "correct its name or remove it"
    message = f"<{name}> is unknown in a queue and is ignored"
    assert warnings == ([] if meant is None else [(2, "root.a", message, remedy)])


@pytest.mark.parametrize("name", ["acl", "acls", "aclFoo", "aclUser", "ACL", "userAcl"])
def test_unclear_names_of_acls(name: str) -> None:
    queue = f"<queue name='root'>{CLOSED}{{}}</queue>"
    [warning] = lint(f"<allocations>{queue.format(f'<{name}/>')}</allocations>")
    assert warning.remedy == "write aclSubmitApps or aclAdministerApps"
    [warning] = lint(f"<allocations>{queue.format('')}<{name}/></allocations>")
    assert warning.remedy == "write aclSubmitApps or aclAdministerApps inside a queue"


@pytest.mark.parametrize("name", ["queue", "pool", "ue", "e"])
def test_names_that_hadoop_accepts_for_a_queue(name: str) -> None:
    child = f"<{name} name='b'>{CLOSED}</{name}>"
    assert not lint(f"<allocations><queue name='root'>{CLOSED}{child}</queue></allocations>")


@pytest.mark.parametrize(
    ("name", "remedy"),
    [
        ("Queue", "did you mean queue?"),
        ("pools", "did you mean pool?"),
        ("queuePlacementpolicy", "did you mean queuePlacementPolicy?"),
        ("maxRunningApps", "write maxRunningApps inside a queue"),
        ("aclSubmitApp", "write aclSubmitApps inside a queue"),
        ("banana", "correct its name or remove it"),
    ],
)
def test_unknown_elements_outside_queues_are_reported(name: str, remedy: str) -> None:
    warnings = lint(f"<allocations><queue name='root'>{CLOSED}</queue><{name}/></allocations>")
    assert [each.remedy for each in warnings] == [remedy]


@pytest.mark.parametrize("queue", ["<queue name='a'>{}</queue>", "{}"])
def test_only_reported_elements_are_compared(queue: str, monkeypatch: pytest.MonkeyPatch) -> None:
    compare = Mock(return_value="")
    monkeypatch.setattr(schedulers, "similar_name", compare)
    elements = "".join(f"<x{number}/>" for number in range(MAX_DIAGNOSTICS + 5))
    load_policy(FAIR, f"<allocations>{queue.format(elements)}</allocations>".encode(), "f")
    assert compare.call_count == MAX_DIAGNOSTICS


def lint(text: str) -> list[Diagnostic]:
    return check_file(FAIR, text.encode(), "f", with_lint=True)


@pytest.mark.parametrize("acl", ["\n  bob, ann g h\n", "a, b *,c d", "*,b g ~x"])
def test_one_acl_has_one_diagnostic(acl: str) -> None:
    text = f"<allocations><queue name='root'>{CLOSED}<queue name='a'><aclSubmitApps>{acl}"
    data = f"{text}</aclSubmitApps>{END}</allocations>".encode()
    (found,) = check_file(FAIR, data, "f", with_lint=True)
    assert "is ambiguous" in found.message
    assert found.queue == "root.a"


@pytest.mark.parametrize(
    ("format_name", "text"),
    [
        (FAIR, f"<allocations>{'<queue/>' * 10_001}</allocations>"),
        (CAPACITY, f"<configuration>{'<include/>' * 10_001}</configuration>"),
        ("yarn-site", f"<configuration>{'<include/>' * 10_001}</configuration>"),
        ("spark-defaults", "spark.acls.enable maybe\n" * 10_001),
    ],
)
def test_too_many_errors_do_not_raise(format_name: str, text: str) -> None:
    found = check_file(format_name, text.encode(), "f", with_lint=True)
    assert any("more than 10000 errors" in diagnostic.message for diagnostic in found)
    if format_name in {FAIR, CAPACITY}:
        assert lint_policy(format_name, text.encode(), "f") == []


@given(st.one_of(st.binary(max_size=60), st.text(max_size=60).map(str.encode)))
def test_no_input_makes_a_loader_raise(data: bytes) -> None:
    for format_name in (FAIR, CAPACITY):
        for start in (b"", b"<allocations>", b"<configuration><property>"):
            load_policy(
                format_name, start + data, "f", FormatOptions(yarn=YarnOptions(site=(data, "s")))
            )
            lint_policy(format_name, start + data, "f")
    detect_format(data)


@pytest.mark.parametrize("acl", ["prodlead, prod-ops", "prodlead ,prod-ops", "a,b, c"])
def test_a_space_beside_a_comma_has_two_remedies(acl: str) -> None:
    queue = f"<queue name='root'>{CLOSED}<queue name='a'><aclSubmitApps>{acl}</aclSubmitApps>{END}"
    [warning] = lint_policy(FAIR, f"<allocations>{queue}</allocations>".encode(), "f")
    assert "the space beside the comma turns the names after it into groups" in warning.message
    assert warning.remedy == "for users remove the space, for groups remove the comma"


@pytest.mark.parametrize(
    ("queues", "words"),
    [
        ("<queue name='a'/>", ["root has no aclSubmitApps", "root has no aclAdministerApps"]),
        (
            "<queue name='root'><aclSubmitApps> </aclSubmitApps></queue>",
            ["root has no aclAdministerApps"],
        ),
        (
            f"<queue name='root'>{CLOSED}<queue name='a'><aclSubmitApps>\n  bob\n</aclSubmitApps>"
            + END,
            ["a line break or tab", 'in Hadoop group "bob"'],
        ),
        (
            f"<queue name='root'>{CLOSED}<queue name='a'><aclSubmitApps>a, b</aclSubmitApps>" + END,
            ["space beside the comma"],
        ),
        (
            f"<queue name='root'>{CLOSED}<queue name='a'><aclSubmitApps>*,b</aclSubmitApps>" + END,
            ["an ordinary name"],
        ),
        (
            f"<queue name='root'>{CLOSED}<queue name='a'><aclSubmitApps>u g h</aclSubmitApps>"
            + END,
            ['in Hadoop user "u" and group "g h"'],
        ),
        (f"<queue name='root'>{CLOSED}<queue name='a'/></queue>", []),
    ],
)
def test_warnings_about_the_fair_scheduler(queues: str, words: list[str]) -> None:
    text = f"<allocations>{queues}</allocations>".encode()
    found = lint_policy(FAIR, text, "f")
    for expected in words:
        assert any(expected in diagnostic.message for diagnostic in found)
    for diagnostic in found:
        assert diagnostic.line
        assert diagnostic.remedy


def test_warnings_about_the_capacity_scheduler() -> None:
    key = "yarn.scheduler.capacity.root"
    text = "".join(
        [
            "<configuration>",
            prop(f"{key}.queues", "a"),
            prop(f"{key}.acl_submit_applications", ""),
            prop(f"{key}.a.acl_submit_application", "x"),
            prop("yarn.scheduler.capacity.a.acl_administer_queue", "x"),
            prop(f"{key}.a.acl_administer_queue", "x", "<final>true</final>"),
            prop(f"{key}.a.acl_administer_queue", "y"),
            "</configuration>",
        ]
    ).encode()
    loaded = load_policy(CAPACITY, text, "f")
    assert loaded.partitions["default"].queues["root.a"].admin_acl.text == "x"
    messages = "\n".join(map(str, (*loaded.diagnostics, *lint_policy(CAPACITY, text, "f"))))
    for words in (
        "empty value, which sets nothing",
        '"acl_submit_application" is not a property',
        'the queue "a" does not exist',
        "is final above",
        "root has no acl_submit_applications: in Hadoop it defaults to *",
    ):
        assert words in messages
