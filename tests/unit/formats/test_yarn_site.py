"""A yarn_site file that is another file of Hadoop's configuration folder is refused.

Hadoop's default for an unset yarn.acl.enable is false, so such a file would open every queue.
"""

import pytest

from queuegate.policy.yarn_acl import Semantics
from queuegate_server.formats.findings.finding import Severity
from queuegate_server.formats.yarn.site import read_site
from tests.support.generators.yarn_files import prop

ROOT = "yarn.scheduler.capacity.root"
QUEUES = prop(f"{ROOT}.queues", "a") + prop(f"{ROOT}.acl_submit_applications", " ")
CORE = prop("fs.defaultFS", "hdfs://nn") + prop("hadoop.security.group.mapping", "x.Y")


def text(properties: str) -> str:
    return f"<configuration>{properties}</configuration>"


@pytest.mark.parametrize(
    "name",
    ["yarn.resourcemanager.hostname", "yarn.scheduler.fair.preemption", "yarn.scheduler.x"],
)
def test_a_yarn_site_without_the_switch_is_valid(name: str) -> None:
    data = text(prop(name, "x") + QUEUES + CORE).encode()
    found, diagnostics = read_site((data, "yarn-site.xml"), Semantics.HADOOP)
    assert not found.acls_enabled
    assert [each.severity for each in diagnostics] == [Severity.WARNING]
    assert "yarn.acl.enable is not set and defaults to false" in diagnostics[0].message


@pytest.mark.parametrize("start", ["\ufeff", "\ufeff\n", " \n" * 600])
@pytest.mark.parametrize("words", ["yarn-site.xml: ours", "kind: ConfigMap"])
def test_a_comment_makes_no_manifest(start: str, words: str) -> None:
    properties = prop("yarn.acl.enable", "true") + prop("yarn.admin.acl", "carol")
    data = f"{start}{text(f'<!-- {words} -->{properties}')}".encode()
    found, diagnostics = read_site((data, "yarn-site.xml"), Semantics.HADOOP)
    assert diagnostics == ()
    assert found.admins == "carol"
