"""Messages about YARN's files name the queue, the line and the remedy."""

import pytest

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
                "<queue name='b'><queue name='y'/></queue>",
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
    assert f'there is no queue "{path}"' in warning.message
    assert warning.remedy.startswith(remedy)


def test_lint_reports_acls_of_a_file_with_errors() -> None:
    acl = "<aclSubmitApps>bob, amy; joe</aclSubmitApps>"
    data = f"<allocations><queue name='root'/><queue name='c'>{acl}</queue></allocations>".encode()
    found = check_file(FAIR, data, "f.xml", with_lint=True)
    assert [each.severity for each in found] == [Severity.ERROR, Severity.WARNING]
    assert "only top-level queue" in found[0].message
    assert found[1].queue == "root.c"
    assert len(check_file(FAIR, data, "f.xml", with_lint=False)) == 1


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
