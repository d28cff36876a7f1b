"""What decides instead of a policy's file, as the settings around it say."""

import pytest

from queuegate_server.formats.registry import (
    FormatOptions,
    check_file,
    detect_file_format,
    load_policy,
)
from queuegate_server.formats.yarn.load import YarnOptions
from tests.support.generators.yarn_files import CAPACITY, FAIR, prop

ON = prop("yarn.acl.enable", "true") + prop("yarn.admin.acl", "yarn")
SCHEDULER = "yarn.resourcemanager.scheduler.class"
PACKAGE = "org.apache.hadoop.yarn.server.resourcemanager.scheduler"
IS_CAPACITY = prop(SCHEDULER, f"{PACKAGE}.capacity.CapacityScheduler")
IS_FAIR = prop(SCHEDULER, f"{PACKAGE}.fair.FairScheduler")
IS_FIFO = prop(SCHEDULER, f"{PACKAGE}.fifo.FifoScheduler")
STORE = "yarn.scheduler.configuration.store.class"
AUTHORIZER = "yarn.authorization-provider"
RANGER = prop(AUTHORIZER, "org.apache.ranger.authorization.yarn.authorizer.RangerYarnAuthorizer")
PROVIDER = "yarn.resourcemanager.configuration.provider-class"
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


@pytest.mark.parametrize(
    ("format_name", "text", "expected"),
    [
        (CAPACITY, "", ""),
        (CAPACITY, IS_CAPACITY, ""),
        (CAPACITY, IS_FAIR, "FairScheduler"),
        (CAPACITY, IS_FIFO, "FifoScheduler"),
        (CAPACITY, prop(SCHEDULER, "com.example.Own"), "com.example.Own"),
        (CAPACITY, prop(STORE, "file"), ""),
        (CAPACITY, prop(STORE, "memory"), "changes to queues through its API are not in this file"),
        *(
            (CAPACITY, prop(STORE, name), "reads the queues from that store, not from capacity-s")
            for name in ("leveldb", "zk", "fs")
        ),
        *(
            (CAPACITY, prop(STORE, name), "starts only with file, memory, leveldb, zk, fs, in low")
            for name in ("File", "MEMORY", "other", "file ", "zookeeper")
        ),
        (CAPACITY, RANGER, "RangerYarnAuthorizer"),
        (
            CAPACITY,
            prop(AUTHORIZER, "\n org.apache.hadoop.yarn.security.ConfiguredYarnAuthorizer "),
            "",
        ),
        (CAPACITY, prop(PROVIDER, "org.apache.hadoop.yarn.LocalConfigurationProvider"), ""),
        (
            CAPACITY,
            prop(PROVIDER, "org.apache.hadoop.yarn.FileSystemBasedConfigurationProvider"),
            "the ResourceManager reads files from elsewhere",
        ),
        (CAPACITY, prop(ALLOCATIONS, "/etc/hadoop/conf/allocations.xml"), ""),
        (CAPACITY, prop(AUTHORIZER, "${authorizer}"), '"authorizer" is not set'),
        (CAPACITY, prop(AUTHORIZER, "${x}") + prop("x", "com.example.Own"), "com.example.Own"),
        (CAPACITY, prop(SCHEDULER, "${scheduler}"), '"scheduler" is not set'),
        (FAIR, "", "is not set and defaults to the capacity scheduler"),
        (FAIR, IS_FAIR, ""),
        (FAIR, IS_CAPACITY, "CapacityScheduler"),
        (FAIR, IS_FAIR + RANGER, "RangerYarnAuthorizer"),
        (FAIR, IS_FAIR + prop(STORE, "zk"), ""),
        (FAIR, IS_FAIR + prop(ALLOCATIONS, "/etc/hadoop/conf/allocations.xml"), "allocations.xml"),
        (FAIR, IS_FAIR + prop(ALLOCATIONS, "file:///conf/fair.xml"), ""),
        ("yarn-site", "", ""),
        ("yarn-site", IS_FAIR, ""),
        ("yarn-site", IS_FIFO, "FifoScheduler"),
        ("yarn-site", RANGER, "RangerYarnAuthorizer"),
        ("yarn-site", prop(STORE, "zk"), "from that store"),
    ],
)
def test_what_decides_beside_the_file_of_a_scheduler(
    format_name: str, text: str, expected: str
) -> None:
    """Loading, which the server logs, and both commands say it, once."""
    data = FILES.get(format_name, site(text))
    options = FormatOptions(yarn=YarnOptions(site=(site(text), "yarn-site.xml")))
    name = "yarn-site.xml" if format_name == "yarn-site" else "conf/fair.xml"
    reports = [
        check_file(format_name, data, name, options, with_lint=each) for each in (False, True)
    ]
    if format_name in FILES:
        loaded = load_policy(format_name, data, name, options)
        assert loaded.partitions
        reports.append([*loaded.diagnostics])
    for found in reports:
        assert len(found) == bool(expected), found
        for one in found:
            assert expected in one.message
            assert one.severity == "warning"
            assert one.file == "yarn-site.xml"
            assert one.line == (0 if "not set and" in expected else 3)
            assert one.remedy


def test_a_text_without_the_name_of_a_file_is_not_compared_with_one() -> None:
    text = IS_FAIR + prop(ALLOCATIONS, "/etc/hadoop/conf/fair-scheduler.xml")
    options = FormatOptions(yarn=YarnOptions(site=(site(text), "yarn-site.xml")))
    for name in ("<stdin>", "pasted text", "conf/fair-scheduler.xml"):
        assert not check_file(FAIR, FILES[FAIR], name, options, with_lint=True)


@pytest.mark.parametrize("key", [SCHEDULER, STORE, AUTHORIZER])
def test_a_key_of_the_resource_manager_has_no_effect_in_the_file_of_the_scheduler(key: str) -> None:
    data = FILES[CAPACITY].replace(
        b"</configuration>", f"{prop(key, 'x')}</configuration>".encode()
    )
    [one] = check_file(CAPACITY, data, "cs.xml", with_lint=True)
    assert one.message.startswith(f"{key} has no effect in this file")


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


@pytest.mark.parametrize(
    ("names", "is_reported"),
    [(["default"], False), (["gpu"], True), (["gpu", "default"], False), (["gpu", "a"], True)],
)
def test_a_partition_that_nobody_asks_about(names: list[str], is_reported: bool) -> None:
    queues = "".join(f"- name: {name}\n  queues: [{{name: root}}]\n" for name in names)
    for with_lint in (False, True):
        data = f"partitions:\n{queues}".encode()
        found = check_file("yunikorn", data, "queues.yaml", with_lint=with_lint)
        said = [one for one in found if 'no partition is named "default"' in one.message]
        assert len(said) == is_reported
        assert all('"gpu"' in one.message for one in said)
