"""Several policies, and the files beside them, read as one."""

import gzip
import os
import threading
from collections.abc import Mapping
from pathlib import Path
from textwrap import indent
from typing import Any

import pytest
from pydantic import ValidationError

from queuegate.policy.acl import Acl
from queuegate_server.files.watcher import READ_SECONDS, FileSource, FileWatcher, OneFile
from queuegate_server.formats.findings.finding import Severity
from queuegate_server.policystore import loader
from queuegate_server.policystore.loader import CannotLoad, PolicyLoader
from queuegate_server.policystore.parsing import ParsedPolicies
from queuegate_server.settings.model import Settings
from tests.support.rows import rows

QUEUES = "partitions:\n  - name: {}\n    queues:\n      - name: root\n        submitacl: alice\n"
FAIR = '<allocations><queue name="root"><aclSubmitApps>bob</aclSubmitApps></queue></allocations>'
SITE = """<configuration>
<property><name>yarn.acl.enable</name><value>true</value></property>
<property><name>yarn.admin.acl</name><value>carol</value></property>
</configuration>"""

CAPACITY = """<configuration>
<property><name>yarn.scheduler.capacity.root.queues</name><value>a</value></property>
</configuration>"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a file of each kind."""
    (tmp_path / "queues.yaml").write_text(QUEUES.format("default"))
    (tmp_path / "fair.xml").write_text(FAIR)
    (tmp_path / "capacity.xml").write_text(CAPACITY)
    (tmp_path / "site.xml").write_text(SITE)
    (tmp_path / "spark.conf").write_text("spark.acls.enable true\n")
    return tmp_path


def sources(folder: Path, *stated: Mapping[str, str]) -> PolicyLoader:
    """Return what the settings name; paths are in the folder."""
    files = {"path", "yarn_site", "spark_defaults", "configs"}
    policies: list[dict[str, Any]] = [
        {key: folder / value if key in files else value for key, value in one.items()}
        for one in stated
    ]
    settings = Settings.model_validate({"policies": policies})
    return PolicyLoader(settings)


YUNIKORN = {"path": "queues.yaml"}
YARN = {
    "path": "fair.xml",
    "partition": "hadoop",
    "yarn_site": "site.xml",
    "spark_defaults": "spark.conf",
}


async def read(folder: Path, *stated: Mapping[str, str]) -> ParsedPolicies:
    return await sources(folder, *stated).load(in_child=False)


async def test_all_are_read_together(folder: Path) -> None:
    found = await read(folder, YUNIKORN, YARN)
    assert set(found.partitions) == {"default", "hadoop"}
    assert found.spark_defaults == {"hadoop": {"spark.acls.enable": "true"}}
    assert len(found.formats) == 2
    cluster = found.partitions["hadoop"].cluster
    assert cluster is not None
    assert cluster.admins.users == {"carol"}


@pytest.mark.parametrize("in_child", [False, True])
async def test_long_acls_are_parsed_when_they_are_loaded(folder: Path, in_child: bool) -> None:
    names = ",".join(f"user{number}" for number in range(10_000))
    text = QUEUES.format("default").replace("alice", f'"{names}"')
    (folder / "queues.yaml").write_text(text)
    found = await sources(folder, YUNIKORN).load(in_child=in_child)
    acl = found.partitions["default"].queues["root"]._submit_acl
    assert isinstance(acl, Acl)
    assert len(acl.users) == 10_000


async def test_the_checksum_is_that_of_all_files(folder: Path) -> None:
    several = sources(folder, YUNIKORN, YARN)
    before = (await several.load(in_child=False)).checksum
    assert (await several.load(in_child=False)).checksum == before
    for name in ("queues.yaml", "fair.xml", "site.xml", "spark.conf"):
        text = (folder / name).read_text()
        (folder / name).write_text(text + "\n")
        assert (await several.load(in_child=False)).checksum != before
        (folder / name).write_text(text)
    assert (await several.load(in_child=False)).checksum == before


async def test_a_mounted_config_map_is_one_of_them(folder: Path) -> None:
    (folder / "mounted").mkdir()
    (folder / "mounted" / "queues.yaml").write_text(QUEUES.format("gpu"))
    found = await read(folder, {"configs": "mounted"}, YARN)
    assert set(found.partitions) == {"gpu", "hadoop"}


async def test_a_key_of_a_mounted_config_map_is_no_envelope(folder: Path) -> None:
    # YuniKorn opens none, so it does not decide from the policy inside.
    manifest = "kind: ConfigMap\ndata:\n  queues.yaml: |\n" + indent(
        QUEUES.format("default"), "    "
    )
    (folder / "queues.yaml").write_text(manifest)
    assert set((await read(folder, YUNIKORN)).partitions) == {"default"}
    (folder / "mounted").mkdir()
    (folder / "mounted" / "queues.yaml").write_text(manifest)
    found = await read(folder, {"configs": "mounted"})
    assert not found.partitions
    assert any(each.severity is Severity.ERROR for each in found.diagnostics)


async def test_a_policy_file_that_is_such_a_key_is_no_envelope(folder: Path) -> None:
    version = folder / "..2026_11_26"
    version.mkdir()
    (folder / "..data").symlink_to(version.name)
    manifest = "kind: ConfigMap\ndata:\n  queues.yaml: |\n"
    (version / "queues.yaml").write_text(manifest + indent(QUEUES.format("default"), "    "))
    (version / "queues.yaml.gz").write_bytes(gzip.compress(QUEUES.format("gpu").encode()))
    for key in ("queues.yaml", "queues.yaml.gz"):
        (folder / key).unlink(missing_ok=True)
        (folder / key).symlink_to(f"..data/{key}")
    found = await read(folder, YUNIKORN)
    assert not found.partitions
    assert any(each.severity is Severity.ERROR for each in found.diagnostics)
    # YuniKorn decompresses keys with this suffix.
    assert set((await read(folder, {"path": "queues.yaml.gz"})).partitions) == {"gpu"}
    (version / "queues.yaml.gz").write_bytes(b"partitions: []")
    with pytest.raises(CannotLoad, match="is not in gzip format"):
        await read(folder, {"path": "queues.yaml.gz"})


NOT_ASKED = 'no partition is named "default"'


async def test_what_yunikorn_decides_by_instead(folder: Path) -> None:
    (folder / "gpu.yaml").write_text(QUEUES.format("gpu"))
    gpu = {"path": "gpu.yaml"}
    found = await read(folder, gpu, {**YARN, "partition": "default"})
    assert [one.file for one in found.diagnostics if NOT_ASKED in one.message] == [
        str(folder / "gpu.yaml")
    ]
    for stated in ([gpu, YUNIKORN], [YUNIKORN], [YARN]):
        found = await read(folder, *stated)
        assert not [one for one in found.diagnostics if NOT_ASKED in one.message]


@rows
async def test_a_key_of_a_config_map_that_yunikorn_does_not_read(
    folder: Path, name: str, group: str | None, expected: str
) -> None:
    (folder / name).write_text(QUEUES.format("default"))
    if group is not None:
        (folder / "service.policyGroup").write_text(group)
    found = await read(folder, {"path": name}, YARN)
    said = [one for one in found.diagnostics if "service.policyGroup" in one.message]
    assert len(said) == bool(expected)
    for one in said:
        assert expected in one.message
        assert one.file == str(folder / name)
        assert one.severity is Severity.WARNING


async def test_a_stated_group_that_is_not_that_of_the_config_map(folder: Path) -> None:
    mounted = folder / "mounted"
    mounted.mkdir()
    for group in ("prod", "test"):
        (mounted / f"{group}.yaml").write_text(QUEUES.format("default"))
    (mounted / "service.policyGroup").write_text("prod")
    for group, expected in (("prod", 0), ("test", 1)):
        found = await read(folder, {"configs": "mounted", "group": group})
        said = [one.message for one in found.diagnostics if '"prod.yaml"' in one.message]
        assert len(said) == expected


async def test_a_file_without_partitions_has_no_format(folder: Path) -> None:
    (folder / "queues.yaml").write_text("partitions: []\n")
    found = await read(folder, YUNIKORN, YARN)
    assert found.formats == {str(folder / YARN["path"]): "fair-scheduler"}
    assert set(found.partitions) == {"hadoop"}


async def test_an_error_in_one_leaves_nothing_to_serve(folder: Path) -> None:
    (folder / "site.xml").write_text("<broken")
    found = await read(folder, YUNIKORN, YARN)
    assert not found.partitions
    assert {problem.file for problem in found.diagnostics} == {str(folder / "site.xml")}


async def test_settings_for_yarn_are_not_ignored(folder: Path) -> None:
    found = await read(folder, {**YARN, "path": "queues.yaml"})
    (problem,) = found.diagnostics
    expected = "this is a YuniKorn queues.yaml, but the settings contain: yarn_site, partition"
    assert problem.message == expected
    assert problem.remedy
    assert not found.partitions


@pytest.mark.parametrize("text", ["", "\n \n"])
async def test_an_empty_file_is_not_taken_for_a_queues_yaml(folder: Path, text: str) -> None:
    (folder / YARN["path"]).write_text(text)
    found = await read(folder, YARN)
    (problem,) = found.diagnostics
    assert (problem.message, problem.remedy) == (
        "the file is empty",
        "add the missing content, or name another file",
    )
    assert not found.partitions


@pytest.mark.parametrize("name", ["queues.yaml", "fair.xml", "site.xml", "spark.conf"])
async def test_no_file_may_be_a_pipe_or_missing(folder: Path, name: str) -> None:
    (folder / name).unlink()
    several = sources(folder, YUNIKORN, YARN)
    with pytest.raises(CannotLoad, match="No such file") as missing:
        await several.load(in_child=False)
    assert missing.value.diagnostic.file == str(folder / name)
    os.mkfifo(folder / name)
    with pytest.raises(CannotLoad, match="not a regular file"):
        await several.load(in_child=False)


@pytest.mark.parametrize("name", ["queues.yaml", "fair.xml", "site.xml", "spark.conf"])
async def test_each_read_has_a_time_limit(
    folder: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    released = threading.Event()
    read_file = OneFile.read

    def hanging(file: OneFile) -> bytes:
        if file.name.endswith(name):
            released.wait()
        return read_file(file)

    def limited(files: FileSource[bytes]) -> FileWatcher[bytes]:
        return FileWatcher(files, 0.05 if files.name.endswith(name) else READ_SECONDS)

    monkeypatch.setattr(OneFile, "read", hanging)
    monkeypatch.setattr(loader, "FileWatcher", limited)
    try:
        with pytest.raises(CannotLoad, match="longer than") as hung:
            await read(folder, YUNIKORN, YARN)
    finally:
        released.set()
    assert hung.value.diagnostic.file == str(folder / name)


@rows
async def test_a_policy_stays_what_it_was(folder: Path, first: str, text: str, words: str) -> None:
    one = sources(folder, {"path": first})
    before = (folder / first).read_text()
    assert (await one.load(in_child=False)).partitions
    (folder / first).write_text(text)
    found = await one.load(in_child=False)
    assert not found.partitions
    start = "the settings or the previous file call for"
    changed = [each for each in found.diagnostics if start in each.message]
    assert len(changed) == (text.strip() not in {"", "<configuration/>"})
    assert words in "\n".join(each.message for each in found.diagnostics)
    assert all(each.remedy for each in found.diagnostics)
    (folder / first).write_text(before)
    assert (await one.load(in_child=False)).partitions


@pytest.mark.parametrize(
    ("first", "text", "words"),
    [
        ("capacity.xml", FAIR, "the root element is <allocations>, not <configuration>"),
        ("fair.xml", CAPACITY, "the root element is <configuration>, not <allocations>"),
    ],
)
@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le"])
async def test_xml_in_utf_16_is_xml(
    folder: Path, first: str, text: str, words: str, encoding: str
) -> None:
    one = sources(folder, {"path": first})
    assert (await one.load(in_child=False)).partitions
    (folder / first).write_bytes(text.encode(encoding))
    found = await one.load(in_child=False)
    assert not found.partitions
    errors = [each for each in found.diagnostics if each.severity is Severity.ERROR]
    assert [each.message for each in errors] == [words]


@pytest.mark.parametrize(
    ("start", "words"),
    [
        (f"<!-- {'x' * 70_000} -->", "lists no queue"),
        ("\n" * 70_000, "lists no queue"),
        ("<!DOCTYPE configuration [<!ENTITY a 'b'>]>", "DOCTYPE"),
    ],
)
async def test_a_late_root_element_is_no_other_format(folder: Path, start: str, words: str) -> None:
    one = sources(folder, {"path": "capacity.xml"})
    assert (await one.load(in_child=False)).partitions
    (folder / "capacity.xml").write_text(f"{start}<configuration/>")
    found = await one.load(in_child=False)
    [error] = [each for each in found.diagnostics if each.severity is Severity.ERROR]
    assert words in error.message


async def test_a_file_that_was_never_served_may_become_any_format(folder: Path) -> None:
    path = folder / "queues.yaml"
    one = sources(folder, YUNIKORN)
    for text, is_served in (("", False), ("<allocations><queue/>", False), (FAIR, True)):
        path.write_text(text)
        assert bool((await one.load(in_child=False)).partitions) is is_served


async def test_semantics_mean_nothing_to_yunikorn(folder: Path) -> None:
    settings = Settings.model_validate(
        {
            "policy": {"path": folder / "queues.yaml"},
            "partitions": {"default": {"semantics": "hadoop"}},
        }
    )
    found = await PolicyLoader(settings).load(in_child=False)
    (problem,) = found.diagnostics
    assert problem.severity is Severity.WARNING
    assert problem.message.startswith("the settings set the semantics of partition 'default'")
    assert found.partitions


def test_no_policies_at_all_is_a_mistake() -> None:
    with pytest.raises(ValidationError, match="is empty: name a policy, or remove the key"):
        Settings.model_validate({"policies": []})
