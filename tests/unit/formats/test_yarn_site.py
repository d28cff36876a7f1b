"""A yarn_site file that is another file of Hadoop's configuration folder is refused.

Hadoop's default for an unset yarn.acl.enable is false, so such a file would open every queue.
"""

from pathlib import Path

import pytest
from click.testing import CliRunner

from queuegate.cli import main
from queuegate.policy.yarn_acl import Semantics
from queuegate_server.cli.convert import convert
from queuegate_server.cli.diff import diff
from queuegate_server.cli.policy_files import lint, validate
from queuegate_server.formats.diagnostics import Severity
from queuegate_server.formats.registry import FormatOptions, check_file, load_policy
from queuegate_server.formats.yarn.load import YarnOptions
from queuegate_server.formats.yarn.site import read_site
from tests.support.generators.yarn_files import prop, site

ROOT = "yarn.scheduler.capacity.root"
QUEUES = prop(f"{ROOT}.queues", "a") + prop(f"{ROOT}.acl_submit_applications", " ")
CORE = prop("fs.defaultFS", "hdfs://nn") + prop("hadoop.security.group.mapping", "x.Y")
MAPRED = prop("yarn.app.mapreduce.am.staging-dir", "/user") + prop("mapreduce.job.acl", "x")
NOT_A_SITE = "this is not a yarn-site.xml: it sets "


def text(properties: str) -> str:
    return f"<configuration>{properties}</configuration>"


@pytest.mark.parametrize(
    ("properties", "words"),
    [
        ("", "no property of one (yarn.…)"),
        (CORE, "no property of one"),
        (MAPRED, "no property of one"),
        (prop("yarn.acl.enable", ""), "no property of one"),
        (prop("Yarn.acl.enable", "true"), "no property of one"),
        (QUEUES, "only properties of a capacity-scheduler.xml (yarn.scheduler.capacity.…)"),
        (QUEUES + CORE, "only properties of a capacity-scheduler.xml"),
    ],
)
@pytest.mark.parametrize("semantics", Semantics)
def test_another_file_is_an_error(properties: str, words: str, semantics: Semantics) -> None:
    data = text(properties).encode()
    found, diagnostics = read_site((data, "conf/x.xml"), semantics)
    assert found.acls_enabled
    [error] = [each for each in diagnostics if each.severity is Severity.ERROR]
    assert (error.file, error.line) == ("conf/x.xml", 1)
    assert error.message.startswith(NOT_A_SITE + words)
    assert "yarn-site.xml, which sets yarn.acl.enable" in error.remedy
    checked = check_file("yarn-site", data, "x.xml", with_lint=True)
    assert [each.message for each in checked if each.severity is Severity.ERROR] == [error.message]


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


def test_every_command_refuses_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    policy, site_file = tmp_path / "capacity-scheduler.xml", tmp_path / "core-site.xml"
    policy.write_text(text(QUEUES))
    site_file.write_text(text(CORE))
    reading = ["--yarn-site", str(site_file)]
    place = f"{site_file}:1:1: error: {NOT_A_SITE}"
    for command, files, status in (
        (validate, 1, 1),
        (lint, 1, 1),
        (convert, 1, 2),
        (diff, 2, 2),
    ):
        done = CliRunner().invoke(command, [*[str(policy)] * files, *reading])
        assert done.exit_code == status
        assert place in done.output
    assert main(["check", "eve", "root.a", "--policy", str(policy), *reading]) == 2
    assert NOT_A_SITE in capsys.readouterr().err


def test_a_decision_names_the_switch_and_its_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    policy, site_file = tmp_path / "capacity-scheduler.xml", tmp_path / "yarn-site.xml"
    policy.write_text(text(QUEUES))
    site_file.write_text(text(prop("yarn.acl.enable", "false")))
    files = ["--policy", str(policy), "--yarn-site", str(site_file)]
    for command in ("check", "explain"):
        assert main([command, "eve", "root.a", *files]) == 0
        words = f"yarn.acl.enable is not true in {site_file}: YARN enforces no ACLs"
        assert words in capsys.readouterr().out
    assert main(["queues", "eve", "--why", *files]) == 0
    assert "yarn.acl.enable is not true: YARN enforces no ACLs" in capsys.readouterr().out


@pytest.mark.parametrize(("format_name", "mentions"), [("capacity", False), ("fair", True)])
def test_the_fair_scheduler_is_mentioned_with_its_own_file(
    format_name: str, mentions: bool
) -> None:
    options = FormatOptions(yarn=YarnOptions(semantics=Semantics.HADOOP, site=site(enabled="no")))
    data = text(QUEUES) if format_name == "capacity" else "<allocations/>"
    diagnostics = load_policy(f"{format_name}-scheduler", data.encode(), "f", options).diagnostics
    [warning] = [each for each in diagnostics if "yarn.acl.enable" in each.message]
    assert ("fair scheduler" in warning.message) is mentions


@pytest.mark.parametrize("format_name", ["capacity-scheduler", "fair-scheduler"])
def test_another_file_causes_no_further_messages(format_name: str) -> None:
    other = QUEUES.replace(">a<", ">b<") + prop("yarn.scheduler.capacity.root.b.acl_x", "y")
    options = FormatOptions(yarn=YarnOptions(site=(text(other).encode(), "x.xml")))
    data = text(QUEUES) if format_name == "capacity-scheduler" else "<allocations/>"
    [error] = load_policy(format_name, data.encode(), "f", options).diagnostics
    assert error.message.startswith(NOT_A_SITE)


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("yarn.acl.enabled", "yarn.acl.enable"),
        ("yarn.acls.enable", "yarn.acl.enable"),
        ("yarn.enable.acl", "yarn.acl.enable"),
        ("yarn.acl-enable", "yarn.acl.enable"),
        ("Yarn.Acl.Enable", "yarn.acl.enable"),
        ("yarn.admin.acls", "yarn.admin.acl"),
        ("yarn.acl.admin", "yarn.admin.acl"),
        ("yarn.admin.acl.users", "yarn.admin.acl"),
        # Properties of Hadoop:
        ("yarn.acl.reservation-enable", ""),
        ("yarn.apps.cache.enable", ""),
        ("yarn.resourcemanager.zk-acl", ""),
        ("yarn.sharedcache.enabled", ""),
        ("mapreduce.cluster.acls.enabled", ""),
    ],
)
@pytest.mark.parametrize("is_policy", [False, True])
def test_a_misspelled_key(name: str, meant: str, is_policy: bool) -> None:
    lines = prop("yarn.resourcemanager.hostname", "rm") + "\n" + prop(name, "true")
    site_file = text(lines).encode(), "conf/yarn-site.xml"
    if is_policy:
        options = FormatOptions(yarn=YarnOptions(site=site_file))
        found = check_file("fair-scheduler", b"<allocations/>", "f", options, with_lint=True)
    else:
        found = check_file("", *site_file, with_lint=True)
    warnings = [each for each in found if "is not a property of YARN" in each.message]
    assert [each.remedy for each in warnings] == [f"did you mean {meant}?"] * bool(meant)
    for each in warnings:
        assert each.message == f'"{name}" is not a property of YARN: it is ignored'
        assert (each.file, each.line, each.severity) == (site_file[1], 2, Severity.WARNING)


@pytest.mark.parametrize("start", ["\ufeff", "\ufeff\n", " \n" * 600])
@pytest.mark.parametrize("words", ["yarn-site.xml: ours", "kind: ConfigMap"])
def test_a_comment_makes_no_manifest(start: str, words: str) -> None:
    properties = prop("yarn.acl.enable", "true") + prop("yarn.admin.acl", "carol")
    data = f"{start}{text(f'<!-- {words} -->{properties}')}".encode()
    found, diagnostics = read_site((data, "yarn-site.xml"), Semantics.HADOOP)
    assert diagnostics == ()
    assert found.admins == "carol"
