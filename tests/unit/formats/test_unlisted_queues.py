"""Misspelled lists of queues, and the properties of the queues that they leave unlisted."""

from collections.abc import Mapping

import pytest

from queuegate_server.formats.diagnostics import Diagnostic
from queuegate_server.formats.registry import check_file, detect_file_format, load_policy

PREFIX = "yarn.scheduler.capacity."
PROPERTIES = {
    "root.acl_submit_applications": " ",
    "root.acl_administer_queue": " ",
    "root.etl.acl_submit_applications": "ann",
    "root.etl.acl_administer_queue": "bob",
    "root.etl.auto-queue-creation-v2.enabled": "true",
    "root.etl.auto-queue-creation-v2.leaf-template.acl_submit_applications": "ann",
    "root.prod.auto-create-child-queue.enabled": "true",
    "root.prod.leaf-queue-template.acl_submit_applications": "ann",
    "root.prod.acl_submit_applications": "ann",
    "root.prod.daily.acl_submit_applications": "ann",
}


def configuration(properties: Mapping[str, str]) -> bytes:
    lines = (
        f"<property><name>{name}</name><value>{value}</value></property>"
        for name, value in properties.items()
    )
    return "\n".join(["<configuration>", *lines, "</configuration>"]).encode()


def check(properties: Mapping[str, str]) -> list[Diagnostic]:
    data = configuration(properties)
    assert detect_file_format(data) == "capacity-scheduler"
    return check_file("", data, "cs.xml", with_lint=True)


def prefixed(properties: Mapping[str, str]) -> dict[str, str]:
    return {f"{PREFIX}{name}": value for name, value in properties.items()}


@pytest.mark.parametrize(
    "name",
    [
        *(f"{PREFIX}root.{last}" for last in ("queue", "Queues", "queus", "QUEUES")),
        *(f"{PREFIX}{above}queues" for above in ("Root.", "roots.", "")),
        "yarn.scheduler.capcity.root.queues",
        "yarn.schedulers.capacity.root.queues",
    ],
)
def test_a_misspelled_list_is_one_error(name: str) -> None:
    error, ignored = check({name: "etl,prod", **prefixed(PROPERTIES)})
    assert str(error) == (
        f'cs.xml:2:{error.column}: error: "{name}" is not a property of the scheduler:'
        f" it is ignored, and root has no queues (did you mean {PREFIX}root.queues?)"
    )
    assert "warning: 8 properties are ignored because their queues are not listed" in str(ignored)
    assert ignored.line == 2


@pytest.mark.parametrize(
    "properties",
    [
        {},
        {"root.queues": " "},
        {"root.children": "etl"},
        {"root.capacity": "100", "root.state": "RUNNING", "maximum-applications": "10"},
    ],
)
def test_a_missing_list_is_one_error(properties: Mapping[str, str]) -> None:
    error, ignored = check(prefixed({**properties, **PROPERTIES}))
    assert "root.queues lists no queue" in error.message
    assert "8 properties are ignored" in ignored.message


@pytest.mark.parametrize(
    ("properties", "is_site"),
    [
        ({"yarn.acl.enable": "true", "yarn.admin.acl": "yarn"}, True),
        ({"yarn.resourcemanager.hostname": "rm", f"{PREFIX}maximum-applications": "1"}, True),
        ({"yarn.acl.enable": "true", f"{PREFIX}root.capacity": "100"}, False),
        ({"yarn.app.mapreduce.am.staging-dir": "/a"}, False),
        ({"fs.defaultFS": "hdfs://a"}, False),
    ],
)
def test_a_yarn_site_as_the_policy(properties: Mapping[str, str], is_site: bool) -> None:
    data = configuration(properties)
    messages = [str(each) for each in load_policy("capacity-scheduler", data, "a.xml").diagnostics]
    assert "root.queues lists no queue: this is not a capacity-scheduler.xml" in messages[0]
    assert (
        "but a yarn-site.xml (use the scheduler's file here, and this file as --yarn-site"
        in messages[0]
    ) is is_site
    assert len(messages) == 1 or not is_site


def test_names_with_dots_are_one_error() -> None:
    ignored, error = check(prefixed({"root.queues": "etl.a", **PROPERTIES}))
    assert "it contains a dot" in error.message
    assert "8 properties are ignored" in ignored.message


def test_a_misspelled_list_below_root_is_a_warning() -> None:
    properties = {"root.queues": "etl,prod", "root.prod.queue": "daily", **PROPERTIES}
    warnings = [str(each) for each in check(prefixed(properties))]
    assert warnings[0].startswith(
        f'cs.xml:3:63: warning: "{PREFIX}root.prod.queue" is not a property'
    )
    assert warnings[0].endswith(f"(did you mean {PREFIX}root.prod.queues?)")
    assert ": warning: 1 property is ignored because its queue is not listed" in warnings[1]
    assert not [each for each in warnings if "does not exist" in each]


def test_other_unlisted_queues_are_reported_one_by_one() -> None:
    properties = {"root.queues": "etl,prod", **PROPERTIES}
    (warning,) = check(prefixed(properties))
    assert 'YARN will create the queue "root.prod.daily"' in warning.message
