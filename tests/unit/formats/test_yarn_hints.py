"""Messages about YARN's files name the queue, the line and the remedy."""

import pytest

from queuegate_server.formats.registry import load_policy
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
