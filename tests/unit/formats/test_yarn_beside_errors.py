"""What lint says about a YARN scheduler's file beside its errors."""

import pytest

from queuegate_server.formats.diagnostics import Severity
from queuegate_server.formats.registry import FormatOptions, check_file
from queuegate_server.formats.yarn.load import YarnOptions
from tests.support.generators.yarn_files import prop, site

FAIR = "fair-scheduler"
KEY = "yarn.scheduler.capacity."
CAPACITY = "".join(
    prop(f"{KEY}{name}", value)
    for name, value in {
        "root.queues": "a,b,auto",
        "root.acl_submit_applications": "*",
        "root.a.acl_submit_applications": "data",
        "root.auto.auto-queue-creation-v2.enabled": "true",
        "root.auto.acl_submit_applications": " ",
        "queue-mappings": "g:data:a,u:joe:nowhere,nonsense",
    }.items()
)
OPEN = "everyone may submit to every queue"
NO_ADMIN = "root has no acl_administer_queue"
USER = '"data" is a user in this ACL'
FORM = '"nonsense" is not a mapping of the form'
MISSING = '"u:joe:nowhere" maps to a queue that does not exist'
CLOSED_FILE = CAPACITY.replace(">*<", "> <") + prop(f"{KEY}root.acl_administer_queue", " ")
CLOSED = 'nobody may submit to the queues that YARN will create below "root.auto"'


def warnings(data: str, *, format_name: str = "capacity-scheduler", errors: int) -> list[str]:
    options = FormatOptions(yarn=YarnOptions(site=None if format_name == FAIR else site()))
    found = check_file(format_name, data.encode(), "f.xml", options, with_lint=True)
    assert sum(each.severity is Severity.ERROR for each in found) == errors, found
    return [each.message for each in found if each.severity is Severity.WARNING]


def agree(found: list[str], expected: set[str]) -> bool:
    return all(any(text.startswith(each) for text in found) for each in expected) and all(
        any(text.startswith(each) for each in expected) for text in found
    )


@pytest.mark.parametrize(
    ("error", "hidden"),
    [
        (prop(f"{KEY}root.a.acl_administer_queue", "${admins}"), set()),
        (prop(f"{KEY}root.a.acl_administer_queue", "a<![CDATA[n]]>n"), set()),
        (prop(f"{KEY}root.auto.auto-queue-creation-v2.maximum-queue-depth", "deep"), set()),
        (prop(f"{KEY}root.b.queues", "b.c"), {MISSING}),
        (prop(f"{KEY}root.b.queues", "${more}"), {MISSING}),
        ("<include href='more.xml'/>", {NO_ADMIN, MISSING, CLOSED}),
        ("<fallback/>", {NO_ADMIN, MISSING, CLOSED}),
    ],
)
def test_a_capacity_scheduler(error: str, hidden: set[str]) -> None:
    for text, expected in (
        (CAPACITY, {OPEN, NO_ADMIN, USER, FORM, MISSING}),
        (CLOSED_FILE, {USER, FORM, MISSING, CLOSED}),
    ):
        without_error = warnings(f"<configuration>{text}</configuration>", errors=0)
        assert agree(without_error, expected), without_error
        found = warnings(f"<configuration>{text}{error}</configuration>", errors=1)
        assert agree(found, expected - hidden), found


@pytest.mark.parametrize(
    ("root", "expected"),
    [
        ("<aclSubmitApps>*</aclSubmitApps>", {OPEN, "root has no aclAdministerApps"}),
        ("<aclSubmitApps> </aclSubmitApps>", {"root has no aclAdministerApps"}),
        ("", {"root has no aclAdministerApps", "root has no aclSubmitApps"}),
    ],
)
def test_a_fair_scheduler(root: str, expected: set[str]) -> None:
    error = "<queue name='b'><aclSubmitApps/></queue>"
    text = "<allocations><queue name='root'>%s<queue name='a'/>%s</queue></allocations>"
    assert agree(warnings(text % (root, ""), format_name=FAIR, errors=0), expected)
    assert agree(warnings(text % (root, error), format_name=FAIR, errors=1), expected)


@pytest.mark.parametrize("acl", ["", "<b>ann</b>", "*<![CDATA[*]]>"])
def test_an_acl_of_root_that_cannot_be_read_is_not_missing(acl: str) -> None:
    acls = f"<aclSubmitApps>{acl}</aclSubmitApps><aclAdministerApps> </aclAdministerApps>"
    text = f"<allocations><queue name='root'>{acls}<queue name='a'/></queue></allocations>"
    assert warnings(text, format_name=FAIR, errors=1) == []


def test_a_file_of_another_kind_has_no_open_root() -> None:
    text = f"<configuration>{prop('yarn.nodemanager.x', 'y')}</configuration>"
    assert warnings(text, errors=1) == []
