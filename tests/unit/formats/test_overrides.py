"""What decides instead of a policy's file, as the settings around it say."""

import pytest

from queuegate_server.formats.detection import detect_file_format
from queuegate_server.formats.registry import FormatOptions, check_file
from queuegate_server.formats.yarn.load import YarnOptions
from tests.support.generators.yarn_files import CAPACITY, FAIR, prop

ON = prop("yarn.acl.enable", "true") + prop("yarn.admin.acl", "yarn")
SCHEDULER = "yarn.resourcemanager.scheduler.class"
PACKAGE = "org.apache.hadoop.yarn.server.resourcemanager.scheduler"
IS_FAIR = prop(SCHEDULER, f"{PACKAGE}.fair.FairScheduler")
AUTHORIZER = "yarn.authorization-provider"
RANGER = prop(AUTHORIZER, "org.apache.ranger.authorization.yarn.authorizer.RangerYarnAuthorizer")
ALLOCATIONS = "yarn.scheduler.fair.allocation.file"
KEY = "yarn.scheduler.capacity.root"
CLOSED = "".join(
    prop(f"{KEY}.acl_{each}", " ") for each in ("submit_applications", "administer_queue")
)
FILES = {
    CAPACITY: f"<configuration>{prop(f'{KEY}.queues', 'a')}{CLOSED}</configuration>".encode(),
    FAIR: b'<allocations><queue name="root"><aclSubmitApps> </aclSubmitApps>'
    b"<aclAdministerApps> </aclAdministerApps></queue></allocations>",
}


def site(text: str) -> bytes:
    return f"<configuration>\n{ON}\n{text}\n</configuration>".encode()


def test_a_text_without_the_name_of_a_file_is_not_compared_with_one() -> None:
    text = IS_FAIR + prop(ALLOCATIONS, "/etc/hadoop/conf/fair-scheduler.xml")
    options = FormatOptions(yarn=YarnOptions(site=(site(text), "yarn-site.xml")))
    for name in ("<stdin>", "pasted text", "conf/fair-scheduler.xml"):
        assert not check_file(FAIR, FILES[FAIR], name, options, with_lint=True)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (ON, "yarn-site"),
        (RANGER, "yarn-site"),
        (IS_FAIR + prop(f"{KEY}.acl_submit_applications", " "), "yarn-site"),
        (ON + prop(f"{KEY}.queues", "a"), CAPACITY),
        (prop(f"{KEY}.acl_submit_applications", " "), CAPACITY),
        ("", CAPACITY),
    ],
)
def test_which_file_of_hadoop_it_seems_to_be(text: str, expected: str) -> None:
    assert detect_file_format(f"<configuration>{text}</configuration>".encode()) == expected
