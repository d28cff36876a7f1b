"""Messages about YARN's files name the queue, the line and the remedy."""

import pytest

from queuegate.policy.created_queues import TemplateKind
from queuegate_server.formats.diagnostics import Severity
from queuegate_server.formats.registry import check_file, load_policy
from queuegate_server.formats.yarn.convert import convert
from queuegate_server.formats.yarn.load import YarnOptions
from tests.support.generators.yarn_files import CAPACITY, FAIR, prop

KEY = "yarn.scheduler.capacity.root"
CLOSED = prop(f"{KEY}.acl_submit_applications", " ") + prop(f"{KEY}.acl_administer_queue", " ")


def capacity(*properties: tuple[str, str]) -> bytes:
    lines = "\n".join(prop(f"yarn.scheduler.capacity.{name}", value) for name, value in properties)
    return f"<configuration>{CLOSED}\n{lines}\n</configuration>".encode()


def fair(*queues: str) -> bytes:
    closed = "<aclSubmitApps> </aclSubmitApps><aclAdministerApps> </aclAdministerApps>"
    return (
        f"<allocations><queue name='root'>{closed}{''.join(queues)}</queue></allocations>".encode()
    )


@pytest.mark.parametrize(
    ("format_name", "data"),
    [
        (
            CAPACITY,
            capacity(
                ("root.queues", "b,a"),
                ("root.b.queues", "y,x"),
                ("root.a.queues", "z"),
                ("root.b.y.queues", "deep"),
            ),
        ),
        (
            FAIR,
            fair(
                "<queue name='b'><queue name='y' type='parent'/></queue>",
                "<queue name='a'><queue name='z'/></queue>",
                "<queue name='b'><queue name='x'/><queue name='y'><queue name='deep'/></queue>"
                "</queue>",
            ),
        ),
    ],
)
def test_queues_are_loaded_depth_first(format_name: str, data: bytes) -> None:
    """GetPolicy promises this order."""
    partition = load_policy(format_name, data, "f").partitions["default"]
    assert [*partition.queues] == [
        *("root", "root.b", "root.b.y", "root.b.y.deep", "root.b.x", "root.a", "root.a.z"),
    ]


@pytest.mark.parametrize(
    ("root", "format_name", "words"),
    [
        ("config", "", "<config>, neither <configuration> (capacity scheduler) nor <allocations>"),
        ("queues", "", "neither <configuration> (capacity scheduler) nor <allocations>"),
        ("config", CAPACITY, "<config>, not <configuration>"),
        ("configuration", FAIR, "<configuration>, not <allocations>"),
        ("allocations", CAPACITY, "<allocations>, not <configuration>"),
    ],
)
def test_another_root_element(root: str, format_name: str, words: str) -> None:
    [error] = check_file(format_name, f"<{root}/>".encode(), "f.xml", with_lint=True)
    assert words in error.message
    assert error.severity is Severity.ERROR


@pytest.mark.parametrize(
    ("path", "remedy"),
    [
        ("root.prod.etl", f"add etl to {KEY}.prod.queues"),
        ("root.prod.etl.nightly", f"add etl to {KEY}.prod.queues"),
        ("root.dev", f"add dev to {KEY}.queues"),
        ("dev", "write the full path of a listed queue, starting with root"),
    ],
)
def test_an_acl_of_an_unlisted_queue(path: str, remedy: str) -> None:
    data = capacity(("root.queues", "prod"), (f"{path}.acl_submit_applications", "ann"))
    [warning] = check_file(CAPACITY, data, "f.xml", with_lint=False)
    assert f'the queue "{path}" does not exist' in warning.message
    assert warning.remedy.startswith(remedy)


def test_an_acl_of_a_queue_without_a_name() -> None:
    data = capacity(("root.queues", "a"), ("root..acl_submit_applications", "ann"))
    [warning] = check_file(CAPACITY, data, "f.xml", with_lint=True)
    assert warning.message == "the key names no queue: this ACL is ignored"


def test_queues_of_an_unknown_list() -> None:
    names = ("root.queues", "a,${q}")
    acls = ((f"root.{each}.acl_submit_applications", "ann") for each in "bcd")
    [error, warning] = check_file(CAPACITY, capacity(names, *acls), "f.xml", with_lint=True)
    assert 'a variable in "yarn.scheduler.capacity.root.queues" cannot be' in error.message
    assert warning.message.startswith("3 properties are ignored because")
    assert warning.remedy == 'correct the list of the queues below "root" first'


@pytest.mark.parametrize("kind", ["", *(f"{each}." for each in TemplateKind)])
@pytest.mark.parametrize("acl", ["acl_submit_applications", "acl_administer_queue"])
def test_an_acl_without_a_queue(kind: str, acl: str) -> None:
    data = capacity(("root.queues", "a"), (f"{kind}{acl}", "ann"))
    [warning] = check_file(CAPACITY, data, "f.xml", with_lint=True)
    assert warning.message == "the key names no queue: this ACL is ignored"
    assert warning.remedy == f"for root write {KEY}.{kind}{acl}"


@pytest.mark.parametrize(
    ("name", "value", "count"),
    [
        ("root.a.acl_submit_applications", "${acl}", 1),
        ("root.a.acl_submit_applications", "${env.FOO:-bob}", 1),
        ("root.a.acl_submit_applications", "${no variable}", 1),
        ("root.a.auto-create-child-queue.enabled", "${on}", 1),
        ("root.a.auto-queue-creation-v2.maximum-queue-depth", "${depth}", 1),
    ],
)
def test_a_variable_is_reported_once(name: str, value: str, count: int) -> None:
    found = check_file(
        CAPACITY, capacity(("root.queues", "a"), (name, value)), "f.xml", with_lint=True
    )
    assert len(found) == count
    is_variable = " variable" not in value
    assert ("cannot be expanded" in found[0].message) is is_variable
    assert ("unrendered template" in found[0].message) is not is_variable


@pytest.mark.parametrize("key", ["yarn.acl.enable", "yarn.admin.acl"])
def test_a_variable_in_yarn_site_is_reported_once(key: str) -> None:
    values = {"yarn.acl.enable": "true", "yarn.admin.acl": "yarn", key: "${x}"}
    text = "".join(prop(*each) for each in values.items())
    data = f"<configuration>{text}</configuration>".encode()
    [error] = check_file("yarn-site", data, "yarn-site.xml", with_lint=True)
    assert "cannot be expanded" in error.message


@pytest.mark.parametrize(
    ("attributes", "words"),
    [
        ("type='parent'", ""),
        ("type='leaf'", ""),
        ("type='Parent'", 'type is "Parent": Hadoop accepts only type="parent"'),
        ("type=' parent'", 'type is " parent"'),
        ("type='parents'", 'type is "parents"'),
        ("Type='parent'", 'Type is "parent"'),
    ],
)
def test_types_of_queues(attributes: str, words: str) -> None:
    found = check_file(FAIR, fair(f"<queue name='a' {attributes}/>"), "f.xml", with_lint=True)
    assert [words in each.message for each in found] == [True] * bool(words)
    assert all(each.queue == "root.a" for each in found)


@pytest.mark.parametrize("second", ["<queue name='a'/>", "<pool name=' a '/>"])
def test_a_queue_declared_twice(second: str) -> None:
    [warning] = check_file(
        FAIR, fair("\n<queue name='a'/>\n", second, "<queue name='b'/>"), "f.xml", with_lint=True
    )
    assert warning.message == 'the queue "root.a" is already declared on line 2; the two are merged'
    assert (warning.line, warning.queue) == (3, "root.a")


def test_lint_reports_acls_of_a_file_with_errors() -> None:
    acl = "<aclSubmitApps>bob, amy; joe</aclSubmitApps>"
    closed = "<aclSubmitApps> </aclSubmitApps><aclAdministerApps> </aclAdministerApps>"
    queues = f"<queue name='root'>{closed}</queue><queue name='c'>{acl}</queue>"
    data = f"<allocations>{queues}</allocations>".encode()
    found = check_file(FAIR, data, "f.xml", with_lint=True)
    assert [each.severity for each in found] == [Severity.ERROR, Severity.WARNING]
    assert "only top-level queue" in found[0].message
    assert found[1].queue == "root.c"
    assert check_file(FAIR, data, "f.xml", with_lint=False) == found


def test_a_conversion_reports_the_line_of_the_acl() -> None:
    data = capacity(
        ("root.queues", "a"),
        ("root.a.acl_submit_applications", "x.y!"),
        ("root.a.acl_administer_queue", "~hue"),
        ("root.a.auto-create-child-queue.enabled", "true"),
        ("root.a.leaf-queue-template.acl_submit_applications", "ann"),
    )
    lost = convert(CAPACITY, data, "f.xml", YarnOptions()).lost
    assert [(each.line, each.message.partition(":")[0]) for each in lost] == [
        (3, "YuniKorn drops these names from the submit ACL of root.a"),
        (6, "the ACLs of leaf-queue-template at root.a are left out"),
    ]
