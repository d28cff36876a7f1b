"""Every command that reads a capacity scheduler's file reads it over yarn-site.xml."""

import base64
import gzip
import json
import shlex
import subprocess
import sys
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result

from queuegate.cli import main
from queuegate_server.cli.convert import convert
from queuegate_server.cli.diff import diff
from queuegate_server.cli.policy_files import lint, validate
from queuegate_server.cli.prove import prove
from tests.support.generators.yarn_files import prop

KEY = "yarn.scheduler.capacity.root"
ETL = f"{KEY}.etl.acl_submit_applications"
BASE = "".join(
    prop(f"{KEY}.{name}", value)
    for name, value in (
        ("queues", "default,etl"),
        ("acl_submit_applications", " "),
        ("acl_administer_queue", " "),
        ("etl.acl_submit_applications", "alice"),
    )
)
SITE = prop("yarn.acl.enable", "true") + prop("yarn.admin.acl", "yarn")
SITE += prop(ETL, "bob", "<final>true</final>")
HADOOP = ("--semantics", "hadoop")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, text in (
        ("cs.xml", BASE),
        ("other.xml", BASE.replace("alice", "carol")),
        ("fewer.xml", BASE.replace("default,etl", "default")),
        ("yarn-site.xml", SITE),
    ):
        (tmp_path / name).write_text(f"<configuration>\n{text}\n</configuration>")
    return tmp_path


def run(command: object, folder: Path, *names: str) -> Result:
    site = ("--yarn-site", str(folder / "yarn-site.xml"))
    files = [str(folder / name) for name in names]
    return CliRunner().invoke(command, [*files, *site, *HADOOP])  # type: ignore[arg-type]


@pytest.mark.parametrize(("command", "status"), [(validate, 0), (lint, 1)])
def test_a_value_that_does_not_count_is_reported(
    command: object, status: int, folder: Path
) -> None:
    result = run(command, folder, "cs.xml")
    assert result.exit_code == status
    assert result.stdout.startswith(f"{folder / 'cs.xml'}:2:")
    assert f"is final in {folder / 'yarn-site.xml'}:2:" in result.stdout
    assert '"bob" applies' in result.stdout
    assert len(result.stdout.splitlines()) == 1


def test_convert(folder: Path) -> None:
    result = run(convert, folder, "cs.xml")
    assert "submitacl: 'bob'" in result.stdout
    assert "alice" not in result.stdout


def test_diff(folder: Path) -> None:
    """Only what counts is compared."""
    assert run(diff, folder, "cs.xml", "other.xml").exit_code == 0
    result = run(diff, folder, "cs.xml", "fewer.xml")
    assert result.exit_code == 1
    assert '- user "bob"' in result.stdout
    assert "alice" not in result.stdout


@pytest.mark.parametrize(("user", "status"), [("alice", 1), ("bob", 0)])
def test_without_a_server(
    user: str, status: int, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ("--policy", str(folder / "cs.xml"), "--yarn-site", str(folder / "yarn-site.xml"))
    asked = (user, "root.etl", "--group", "g", *options, *HADOOP)
    assert main(["check", *asked]) == status
    assert main(["explain", *asked]) == status
    assert "submit ACL 'bob'" in capsys.readouterr().out


@pytest.mark.parametrize("command", ["validate", "lint"])
@pytest.mark.parametrize(("group", "count"), [("queues", 0), ("prod", 1)])
def test_a_key_that_yunikorn_does_not_read(
    command: str, group: str, count: int, tmp_path: Path
) -> None:
    file = tmp_path / "queues.yaml"
    file.write_text("partitions: [{name: default, queues: [{name: root, submitacl: bob}]}]\n")
    (tmp_path / "service.policyGroup").write_text(group)
    ended = subprocess.run(
        (sys.executable, "-m", "queuegate_server", command, str(file)),
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert ended.stdout.count('makes YuniKorn read "prod.yaml"') == count
    assert ended.returncode == (count if command == "lint" else 0)


@pytest.fixture
def old_site(folder: Path) -> Path:
    site = folder / "old-site.xml"
    text = prop("yarn.acl.enable", "true") + prop("yarn.admin.acl", "yarn eve")
    site.write_text(f"<configuration>{text}{prop(ETL, 'bob')}</configuration>")
    return site


def compare(folder: Path, old: Path, *options: str) -> Result:
    scheduler, site = str(folder / "cs.xml"), str(folder / "yarn-site.xml")
    sites = ["--yarn-site", site, "--old-yarn-site", str(old)]
    return CliRunner().invoke(diff, [scheduler, scheduler, *sites, *options])


def test_diff_of_the_administrators(folder: Path, old_site: Path) -> None:
    result = compare(folder, old_site)
    assert result.exit_code == 1
    assert result.stdout.splitlines() == [
        'partition "default": yarn.admin.acl: - group "eve"',
        'partition "default", queue "root.etl": submit ACL: + user "bob", - user "alice"',
    ]
    result = compare(folder, old_site, "--people")
    assert 'note: partition "default": yarn.admin.acl: - group "eve"' in result.stderr
    assert 'queue "root": admin: - group "eve"; 2 queues below inherit it' in result.stdout
    github = compare(folder, old_site, "-o", "github").stdout
    assert f"file={folder / 'yarn-site.xml'},line=2" in github


@pytest.mark.parametrize("semantics", ["documented", "hadoop"])
def test_diff_of_the_switch(folder: Path, old_site: Path, semantics: str) -> None:
    old_site.write_text(f"<configuration>{prop('yarn.acl.enable', 'false')}</configuration>")
    result = compare(folder, old_site, "--semantics", semantics)
    assert 'partition "default": yarn.acl.enable: false becomes true' in result.stdout
    result = compare(folder, old_site, "--people", "--fail-on", "loss", "--semantics", semantics)
    assert result.exit_code == 1
    assert 'queue "root": submit: - everyone' in result.stdout.replace('+ user "yarn", ', "")


def test_prove_with_another_old_site(folder: Path, old_site: Path) -> None:
    """Only the old policy is read with the old yarn-site.xml."""
    claims = folder / "claims.yaml"
    claims.write_text("claims: [no new access compared with cs.xml]")
    site = str(folder / "yarn-site.xml")
    text = f"<configuration>{prop('yarn.acl.enable', 'true')}{prop('yarn.admin.acl', ' ')}"
    old_site.write_text(f"{text}{prop(ETL, 'bob')}</configuration>")
    options = [str(folder / "cs.xml"), str(claims), "--yarn-site", site]
    assert CliRunner().invoke(prove, options).exit_code == 0
    result = CliRunner().invoke(prove, [*options, "--old-yarn-site", str(old_site)])
    assert result.exit_code == 1
    shown = [line for line in result.stdout.splitlines() if line.startswith("  $ ")]
    assert any(f"--yarn-site {old_site}" in line for line in shown)
    for line in shown:
        expected = 1 if str(old_site) in line else 0
        assert main(shlex.split(line.removeprefix("  $ queuegate"))) == expected


def test_the_settings_name_a_yarn_site(folder: Path, old_site: Path) -> None:
    options = ["cs.xml", "claims.yaml", "--config", "q.yaml", "--old-yarn-site", str(old_site)]
    result = CliRunner().invoke(prove, options)
    assert result.exit_code == 2
    assert "--old-yarn-site: not allowed with --config" in result.output


@pytest.mark.parametrize("command", [validate, lint])
@pytest.mark.parametrize("admins", ["yarn", "*"])
def test_the_summary_counts_no_yarn_site_read_with_a_policy(
    command: object, admins: str, folder: Path
) -> None:
    site = prop("yarn.acl.enable", "true") + prop("yarn.admin.acl", admins)
    (folder / "yarn-site.xml").write_text(f"<configuration>{site}</configuration>")
    assert run(command, folder, "cs.xml").stderr.startswith("1 file, ")


@pytest.mark.parametrize("command", [validate, lint])
def test_a_yarn_site_is_counted_once_and_its_findings_are_printed_once(
    command: click.Command, folder: Path
) -> None:
    site = prop("yarn.acl.enable", "true") + prop("yarn.admin.acl", "*")
    (folder / "yarn-site.xml").write_text(f"<configuration>{site}</configuration>")
    for names, number in (
        (("cs.xml", "yarn-site.xml"), 2),
        (("yarn-site.xml", "cs.xml", "cs.xml"), 2),
        (("cs.xml", "other.xml", "yarn-site.xml"), 3),
    ):
        result = run(command, folder, *names)
        assert result.stderr.startswith(f"{number} files, ")
        lines = result.stdout.splitlines()
        assert sum(line.startswith(f"{folder / 'yarn-site.xml'}:1:") for line in lines) == 1
        assert len(lines) == len({*lines})
        shown = f"{len(lines)} warning"
        assert shown in result.stderr


@pytest.mark.parametrize("command", [validate, lint])
def test_settings_with_a_yarn_site_that_has_findings(
    command: click.Command, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    site = prop("yarn.acl.enable", "true") + prop("yarn.admin.acl", "*")
    (folder / "yarn-site.xml").write_text(f"<configuration>{site}</configuration>")
    (folder / "q.yaml").write_text("policy: {path: cs.xml, yarn_site: yarn-site.xml}\n")
    result = CliRunner().invoke(command, ["--config", "q.yaml", "cs.xml"])
    assert "yarn-site.xml:1:" in result.stdout
    assert result.stderr.startswith("1 file, ")


@pytest.mark.parametrize("command", [validate, lint])
@pytest.mark.parametrize("site", ["cs.xml", "second-site.xml"])
@pytest.mark.parametrize("given", [(), ("--format", "yarn-site")])
def test_a_yarn_site_is_not_read_with_another(
    command: click.Command, site: str, given: tuple[str, ...], folder: Path
) -> None:
    (folder / "second-site.xml").write_text(
        f"<configuration>{prop('yarn.acl.enable', 'true')}</configuration>"
    )
    file, beside = str(folder / "yarn-site.xml"), str(folder / site)
    result = CliRunner().invoke(command, [file, "--yarn-site", beside, *given])
    assert result.exit_code == 2
    assert f"{file}: is itself a yarn-site.xml" in result.stderr
    assert f"--yarn-site {beside}" in result.stderr
    result = CliRunner().invoke(command, [file, "--yarn-site", file, *given])
    assert "is itself" not in result.stderr


@pytest.mark.parametrize(
    ("command", "arguments"),
    [(diff, ["--people", "cs.xml", "other.xml"]), (prove, ["cs.xml", "claims.yaml"])],
)
@pytest.mark.parametrize("option", ["--yarn-site yarn-site.xml", "--semantics hadoop"])
def test_reading_options_are_refused_beside_settings(
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    command: click.Command,
    arguments: list[str],
    option: str,
) -> None:
    """The settings would win, and the result would be about another cluster."""
    monkeypatch.chdir(folder)
    (folder / "q.yaml").write_text("policy: {path: cs.xml, yarn_site: yarn-site.xml}\n")
    (folder / "claims.yaml").write_text("claims: [user:alice may submit root.etl]\n")
    result = CliRunner().invoke(command, [*arguments, "--config", "q.yaml", *option.split()])
    assert f"{option.split(maxsplit=1)[0]}: not allowed with --config" in result.stderr
    assert result.exit_code == 2


def envelopes(text: str) -> dict[str, bytes]:
    """Return a yarn-site.xml in each kind of envelope, by file name."""
    lines = "".join(f"    {line}\n" for line in text.splitlines())
    manifest = f"apiVersion: v1\nkind: ConfigMap\ndata:\n  yarn-site.xml: |\n{lines}"
    packed = {"yarn-site.xml.gz": base64.b64encode(gzip.compress(text.encode())).decode()}
    return {
        "yarn-site.xml": text.encode(),
        "yarn-site.xml.gz": gzip.compress(text.encode()),
        "site.yaml": manifest.encode(),
        "site.json": json.dumps(
            {"apiVersion": "v1", "kind": "ConfigMap", "data": {"yarn-site.xml": text}}
        ).encode(),
        "packed.json": json.dumps(
            {"apiVersion": "v1", "kind": "ConfigMap", "binaryData": packed}
        ).encode(),
        "values.yaml": f"hadoop:\n  yarn-site.xml: |\n{lines}".encode(),
    }


NAMES = [*envelopes("")]


@pytest.mark.parametrize("name", NAMES)
def test_every_command_opens_the_site(
    name: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    packed = folder / f"packed-{name}"
    packed.write_bytes(envelopes((folder / "yarn-site.xml").read_text())[name])
    policy, site = str(folder / "cs.xml"), ("--yarn-site", str(packed))
    claims = folder / "claims.yaml"
    claims.write_text("claims: [only user:bob may submit root.etl]")
    for command, files, status in (
        (validate, [policy], 0),
        (lint, [policy], 1),
        (convert, [policy], 0),
        (diff, [policy, policy, "--old-yarn-site", str(packed)], 0),
        (prove, [policy, str(claims)], 0),
    ):
        result = CliRunner().invoke(command, [*files, *site, *HADOOP])
        assert (result.exit_code, " error: " in result.output) == (status, False), result.output
    for decision in ("check", "explain"):
        asked = ("bob", "root.etl", "--group", "g", "--policy", policy, *site, *HADOOP)
        assert main([decision, *asked]) == 0
    assert "submit ACL 'bob'" in capsys.readouterr().out


POSITIONS = {"yarn-site.xml": "{}:2:39", "yarn-site.xml.gz": "{}:2:39"}
POSITIONS |= {"site.yaml": "{} (yarn-site.xml):6:43", "values.yaml": "{} (yarn-site.xml):4:43"}


@pytest.mark.parametrize("name", POSITIONS)
def test_positions_in_an_envelope(name: str, folder: Path) -> None:
    packed = folder / f"packed-{name}"
    switch = prop("yarn.acl.enable", "yes")
    packed.write_bytes(envelopes(f"<configuration>\n{switch}\n</configuration>\n")[name])
    place = POSITIONS[name].format(packed)
    site = ("--yarn-site", str(packed))
    for command in (validate, lint):
        result = CliRunner().invoke(command, [str(folder / "cs.xml"), *site, *HADOOP])
        assert f'{place}: warning: yarn.acl.enable is "yes"' in result.stdout


def test_one_manifest_with_both_files(folder: Path) -> None:
    site = f"<configuration>\n{SITE.replace('yarn<', 'yarn;x<')}</configuration>"
    scheduler = (folder / "cs.xml").read_text()
    lines = ["apiVersion: v1", "kind: ConfigMap", "data:"]
    for key, text in (("yarn-site.xml", site), ("capacity-scheduler.xml", scheduler)):
        lines += [f"  {key}: |-", *(f"      {line}" for line in text.splitlines())]
    manifest = folder / "both.yaml"
    manifest.write_text("\n".join(lines))
    result = CliRunner().invoke(lint, [str(manifest), "--yarn-site", str(manifest), *HADOOP])
    shown = result.stdout.splitlines()
    final, separator = next(line for line in shown if "is final" in line), shown[-1]
    column = SITE.index("<value>", SITE.index("admin")) + 7
    assert separator.startswith(f"{manifest} (yarn-site.xml):6:{column}: warning: ")
    assert 'a ";" does not separate names' in separator
    column = BASE.rindex("<property>") + 7
    assert final.startswith(f"{manifest}:9:{column}: warning: ")
    assert f"is final in {manifest} (yarn-site.xml):6:" in final
    assert len(shown) == 2


def test_an_envelope_without_a_site(folder: Path) -> None:
    small = gzip.compress(b"<configuration/>")
    bomb = gzip.compress(bytes(65 * 1024 * 1024))
    manifest = b"apiVersion: v1\nkind: ConfigMap\ndata: {capacity-scheduler.xml: x}"
    for content, message in (
        (small, ":1:1: error: this is not a yarn-site.xml"),
        (small[:-9], ": error: the compressed file is truncated (copy it again)"),
        (b"\x1f\x8bx", ": error: the compressed file is truncated (copy it again)"),
        (bomb, ": error: the compressed file holds more than 67108864 bytes"),
        (manifest, ": error: no ConfigMap or chart value here has the key yarn-site.xml"),
    ):
        file = folder / "broken"
        file.write_bytes(content)
        result = CliRunner().invoke(validate, [str(folder / "cs.xml"), "--yarn-site", str(file)])
        assert result.exit_code == 1
        assert f"{file}{message}" in result.stdout


@pytest.mark.parametrize(
    ("switch", "where"),
    [(prop("yarn.acl.enable", "false"), ":2:39"), (prop("yarn.resourcemanager.hostname", "x"), "")],
)
@pytest.mark.parametrize("semantics", ["documented", "hadoop"])
def test_the_position_of_the_switch(switch: str, where: str, semantics: str, folder: Path) -> None:
    scheduler, off = str(folder / "cs.xml"), folder / "off.xml"
    off.write_text(f"<configuration>\n{switch}\n{prop('yarn.admin.acl', 'x')}</configuration>")
    options = ["--yarn-site", str(off), "--semantics", semantics]
    (folder / "claims.yaml").write_text("claims: [nobody may submit root.etl]")
    result = CliRunner().invoke(prove, [scheduler, str(folder / "claims.yaml"), *options])
    assert f"\n  {off}{where}: somebody may submit root.etl: yarn.acl.enable is" in result.stdout
    options += ["--old-yarn-site", str(folder / "yarn-site.xml")]
    place = f"file={off}{',line=2,col=39' if where else ''},title=queuegate diff::"
    for people in ([], ["--people"]):
        result = CliRunner().invoke(diff, [scheduler, scheduler, *options, *people, "-o", "github"])
        lines = [each for each in result.stdout.splitlines() if "root.etl" not in each]
        assert lines
        assert all(place in each for each in lines if "yarn.admin.acl" not in each)
