"""`queuegate-server lint` with `--users-from`, and with the settings of a server."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from queuegate_server.cli.policy_files import lint
from queuegate_server.engine import Snapshot
from queuegate_server.server.offline import OfflineServices
from tests.unit.cli.test_validate_and_lint import ACL, BAD, CLOSED, ERROR, LINTED, MISLEADING, run

YUNIKORN_ACLS = """\
partitions:
  - name: default
    queues:
      - name: root
        adminacl: " sue"
        queues:
          - {name: a, submitacl: etl}
          - {name: b, submitacl: "ann,etl,both unknown,ops"}
"""
FAIR_ACLS = """<allocations><queue name="root">
<aclSubmitApps> </aclSubmitApps>
<aclAdministerApps> sue</aclAdministerApps>
<queue name="a">
<aclSubmitApps>etl</aclSubmitApps></queue></queue></allocations>
"""


@pytest.mark.parametrize(
    ("text", "name", "places"),
    [
        (YUNIKORN_ACLS, "queues.yaml", ["5:19", "7:34", "8:34"]),
        (FAIR_ACLS, "fair-scheduler.xml", ["3:1", "5:1"]),
    ],
)
def test_lint_with_people(tmp_path: Path, text: str, name: str, places: list[str]) -> None:
    """A group as a user, and a user as a group; a name that both have, or nobody, is right."""
    policy, people = tmp_path / name, tmp_path / "people.csv"
    policy.write_text(text)
    people.write_text("sue,etl\nann,ops,both\nboth\n")
    assert CliRunner().invoke(lint, [str(policy)]).stdout == ""
    done = CliRunner().invoke(lint, ["--users-from", str(people), str(policy)])
    assert done.exit_code == 1
    lines = [line.removeprefix(f"{policy}:") for line in done.stdout.splitlines()]
    assert [line.partition(": ")[0] for line in lines] == places
    assert '"sue" is listed as a group, but only a user has that name' in lines[0]
    assert '"etl" is listed as a user, but only a group has that name' in lines[1]
    assert "(for groups write a space before the list" in lines[1]


@pytest.mark.parametrize(
    ("acl", "semantics", "remedy"),
    [
        ("domain users", "hadoop", "write a space before it"),
        ("domain users,eng", "hadoop", "write a space before it"),
        ("alice,domain users", "hadoop", "write a space before it"),
        ("data eng team", "hadoop", "write a space before it"),
        ("domain users", "documented", "write a space before it, and use semantics hadoop"),
        ("domain users", "", "list another group: YuniKorn's ACLs have no names with spaces"),
        (" domain users", "hadoop", ""),
        ("alice domain users", "hadoop", ""),
        ("alice eng", "hadoop", ""),
        ("data eng", "hadoop", ""),
    ],
)
def test_lint_with_a_group_whose_name_has_a_space(
    tmp_path: Path, acl: str, semantics: str, remedy: str
) -> None:
    policy, people = tmp_path / "policy", tmp_path / "people.csv"
    policy.write_text(
        FAIR_ACLS.replace(">etl<", f">{acl}<")
        if semantics
        else f"partitions: [{{name: default, queues: [{{name: root, submitacl: {acl}}}]}}]"
    )
    people.write_text("alice,domain users,eng\nsue,data eng,data eng team\n")
    options = ["--semantics", semantics] if semantics else []
    done = run(lint, *options, "--users-from", str(people), str(policy))
    found = [line for line in done.stdout.splitlines() if "is the name of a group, but" in line]
    assert len(found) == bool(remedy)
    assert all(f"({remedy})" in line for line in found)


@pytest.mark.parametrize(
    ("acl", "semantics", "count"),
    [
        ("alice data engineers", "hadoop", 0),
        (" R&D,HR/Payroll", "hadoop", 0),
        ("replace_me insert-team", "documented", 0),
        ("replace_me insert-team", "", 0),
        ("data platform team", "hadoop", 1),
        ("data platform team", "documented", 1),
        ("alice, bob", "hadoop", 1),
        ("alice bob etl", "documented", 1),
        ("alice, bob", "", 1),
        (" bob", "hadoop", 1),
    ],
)
def test_one_line_for_one_mistake_with_people(
    tmp_path: Path, acl: str, semantics: str, count: int
) -> None:
    policy, people = tmp_path / "policy", tmp_path / "people.csv"
    policy.write_text(
        FAIR_ACLS.replace("> sue<", "> <").replace(">etl<", f">{acl.replace('&', '&amp;')}<")
        if semantics
        else f'partitions: [{{name: default, queues: [{{name: root, submitacl: "{acl}"}}]}}]'
    )
    people.write_text("alice,data engineers,R&D,HR/Payroll\nbob,insert-team\nreplace_me,etl\n")
    with people.open("a") as file:
        file.write("sue,data platform team\n")
    options = ["--semantics", semantics] if semantics else []
    done = run(lint, *options, "--users-from", str(people), str(policy))
    assert len(done.stdout.splitlines()) == count
    assert done.exit_code == bool(count)


def test_lint_with_people_and_settings(tmp_path: Path) -> None:
    """The settings say how the file is read, and their resolver knows the groups."""
    policy, people = tmp_path / "queues.yaml", tmp_path / "names"
    policy.write_text(YUNIKORN_ACLS.replace("etl", "group1000"))
    people.write_text("testuser1\n")
    done = CliRunner().invoke(lint, ["--users-from", str(people), str(policy)])
    assert done.exit_code == 2
    assert "pass the settings with --config" in done.stderr
    config = tmp_path / "queuegate.yaml"
    config.write_text(
        "{resolvers: {t: {type: test}}, partitions: {default: {resolver: t}}}", encoding="utf-8"
    )
    options = ["--users-from", str(people), "--config", str(config)]
    done = CliRunner().invoke(lint, [*options, str(policy)])
    assert done.exit_code == 1
    assert done.stdout.count('"group1000" is listed as a user') == 2
    refused = CliRunner().invoke(lint, [*options, "--acl-names", "any", str(policy)])
    assert "--acl-names: not allowed with --config" in refused.stderr


@pytest.mark.parametrize("name", ["queues.yaml", "cs.xml", "fs.xml"])
def test_names_that_an_error_keeps_from_being_compared(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("people").write_text("ann,etl\n")
    Path("good.yaml").write_text(YUNIKORN_ACLS)
    Path(name).write_text(
        {
            "queues.yaml": YUNIKORN_ACLS.replace("name: root", "nam: root"),
            "cs.xml": "<configuration><include href='more.xml'/></configuration>",
            "fs.xml": "<allocations><queue/></allocations>",
        }[name]
    )
    Path("queuegate.yaml").write_text(f"policies: [{{path: {name}}}]\n")
    line = "its names were not compared with the users: correct its errors first"
    for arguments in ([name, "good.yaml"], ["--config", "queuegate.yaml"]):
        done = run(lint, "--users-from", "people", *arguments)
        assert done.exit_code == 1
        assert f"incomplete: {name}: {line}\n" in done.stderr
        assert "good.yaml: its names" not in done.stderr
    assert "incomplete" not in run(lint, "--users-from", "people", "good.yaml").stderr
    assert "incomplete" not in run(lint, name).stderr


def test_policies_without_errors_beside_one_with_errors(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server looks up groups for all of its policies, or not at all."""
    monkeypatch.chdir(tmp_path)
    Path("good.yaml").write_text(YUNIKORN_ACLS)
    Path("fs.xml").write_text("<allocations><queue/></allocations>")
    Path("people").write_text("ann\n")
    Path("queuegate.yaml").write_text(
        "policies: [{path: fs.xml, partition: yarn}, {path: good.yaml}]\n"
        "resolvers: {t: {type: test}}\n"
        "partitions: {yarn: {resolver: t}, default: {resolver: t}}\n"
    )
    done = run(lint, "--config", "queuegate.yaml", "--users-from", "people")
    assert done.exit_code == 1
    line = "its names were not compared with the users: correct"
    assert f"incomplete: fs.xml: {line} its errors first\n" in done.stderr
    assert f"incomplete: good.yaml: {line} the errors in the server's other policies" in done.stderr


def test_misplaced_names_in_the_policies_of_a_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a FILE, as with one: in each policy, with the resolver of each partition."""
    monkeypatch.chdir(tmp_path)
    Path("fs.xml").write_text(ACL.format("<aclAdministerApps>group1000</aclAdministerApps>"))
    folder = Path("maps")
    folder.mkdir()
    acls = "{name: root, submitacl: 'testuser1 testuser2'}"
    (folder / "queues.yaml").write_text(f"partitions: [{{name: default, queues: [{acls}]}}]\n")
    Path("people").write_text("testuser1\ntestuser2\n")
    Path("queuegate.yaml").write_text(
        "policies: [{path: fs.xml, partition: yarn}, {configs: maps}]\n"
        "resolvers: {t: {type: test}}\n"
        "partitions: {yarn: {resolver: t}, default: {resolver: t}}\n"
    )
    options = ("--config", "queuegate.yaml", "--users-from", "people")
    done = run(lint, *options)
    assert done.exit_code == 1
    assert '"group1000" is listed as a user, but only a group has that name' in done.stdout
    assert '"testuser2" is listed as a group, but only a user has that name' in done.stdout
    (line,) = [each for each in done.stdout.splitlines() if '"group1000" is listed' in each]

    # Standard input is read once.
    piped = CliRunner().invoke(
        lint, ["--config", "queuegate.yaml", "--users-from", "-"], input="testuser1\ntestuser2\n"
    )
    assert (piped.stdout, piped.exit_code) == (done.stdout, 1)

    # A broken policy does not hide other findings. Without it, groups cannot be looked up.
    (folder / "queues.yaml").write_text(BAD)
    broken = run(lint, *options)
    assert "error: " in broken.stdout
    assert "is listed as" not in broken.stdout
    assert broken.exit_code == 1
    Path("people").write_text("testuser1,group1000\n")
    assert line in run(lint, *options).stdout.splitlines()


def test_a_lookup_that_fails_hides_no_finding(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("queues.yaml").write_text(YUNIKORN_ACLS.replace("etl", "a+b"))
    Path("queuegate.yaml").write_text("policy: {path: queues.yaml}\npartitions: {gpu: {}}\n")
    own = run(lint, "--config", "queuegate.yaml")
    assert own.stdout
    for files in ([], ["queues.yaml"]):
        options = ("--config", "queuegate.yaml", "--users-from", "directory", *files)
        done = run(lint, *options)
        assert done.stdout == own.stdout
        assert "queuegate.yaml: cannot be used" in done.stderr
        assert done.exit_code == 2
        document = json.loads(run(lint, *options, "-o", "json").stdout)
        (error,) = [each for each in document["diagnostics"] if each["severity"] == "error"]
        assert "the settings name the partition 'gpu'" in error["message"]
        assert len(document["diagnostics"]) == len(own.stdout.splitlines()) + 1
        assert "queuegate.yaml: cannot be used" in document["error"]["message"]


def test_a_missing_yarn_site_hides_no_finding(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("fs.xml").write_text(CLOSED)
    Path("queues.yaml").write_text(MISLEADING)
    Path("queuegate.yaml").write_text(
        "policies: [{path: fs.xml, partition: y, yarn_site: nosuch.xml}, {path: queues.yaml}]\n"
    )
    done = run(lint, "--config", "queuegate.yaml")
    assert f"queues.yaml:{LINTED}" in done.stdout
    assert "nosuch.xml: " in done.stderr
    assert done.exit_code == 2


def test_each_policy_is_loaded_once_for_lookups(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    loads = []
    load = OfflineServices.load

    async def counted(services: OfflineServices) -> Snapshot:
        loads.append(services)
        return await load(services)

    monkeypatch.setattr(OfflineServices, "load", counted)
    names = [f"p{number}.xml" for number in range(4)]
    for name in names:
        Path(name).write_text(CLOSED)
    sources = ", ".join(f"{{path: {name}, partition: {name[:2]}}}" for name in names)
    Path("queuegate.yaml").write_text(f"policies: [{sources}]\n")
    Path("people").write_text("sue\n")
    run(lint, "--config", "queuegate.yaml", "--users-from", "people")
    assert len(loads) == 1


def test_people_from_standard_input_for_several_files(tmp_path: Path) -> None:
    files = [tmp_path / "a.yaml", tmp_path / "b.yaml"]
    for file in files:
        file.write_text(YUNIKORN_ACLS)
    arguments = ["--users-from", "-", *map(str, files)]
    done = CliRunner().invoke(lint, arguments, input="sue,etl\n")
    assert done.exit_code == 1
    for file in files:
        assert f"{file}:" in done.stdout
    refused = CliRunner().invoke(lint, ["--users-from", "-", "-"], input="sue,etl\n")
    assert "only one of FILE and --users-from can be standard input" in refused.stderr
    assert refused.exit_code == 2


def test_lint_of_the_policies_of_a_server(tmp_path: Path) -> None:
    """Without a FILE, each policy of the settings, read as they say; with one, that file."""
    yarn, yunikorn = tmp_path / "fs.xml", tmp_path / "queues.yaml"
    yarn.write_text(CLOSED)
    yunikorn.write_text(YUNIKORN_ACLS.replace("etl", "a+b"))
    config = tmp_path / "queuegate.yaml"
    config.write_text(
        f"policies: [{{path: {yarn}, partition: yarn}}, {{path: {yunikorn}}}]\n"
        "partitions: {yarn: {semantics: hadoop}, default: {acl_names: any}}\n"
    )
    done = CliRunner().invoke(lint, ["--config", str(config)])
    assert done.exit_code == 1
    assert done.stderr.startswith("2 files, 0 errors")
    assert "this file is read with semantics hadoop" in done.stdout
    assert f"{yarn}:" in done.stdout
    own = CliRunner().invoke(lint, [str(yunikorn)]).stdout
    any_names = CliRunner().invoke(lint, ["--acl-names", "any", str(yunikorn)]).stdout
    assert own != any_names
    assert any_names in done.stdout

    config.write_text(f"policy: {{path: {yarn}}}\npartitions: {{default: {{semantics: hadoop}}}}\n")
    assert "semantics hadoop" in CliRunner().invoke(lint, ["--config", str(config)]).stdout
    done = CliRunner().invoke(lint, ["--config", str(config), str(yarn)])
    assert "this file is read with semantics hadoop" in done.stdout

    yarn.unlink()
    done = CliRunner().invoke(lint, ["--config", str(config)])
    assert done.exit_code == 2
    assert f"{yarn}: " in done.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "name a FILE, or pass a server's configuration with --config"),
        (["--config", "queuegate.yaml", "-"], "-: not allowed with --config"),
        (["--config", "queuegate.yaml", "--semantics", "hadoop"], "--semantics: not allowed with"),
        (["--config", "nosuch.yaml"], "nosuch.yaml"),
    ],
)
def test_wrong_usage_of_lint(arguments: list[str], message: str) -> None:
    done = run(lint, *arguments)
    assert done.exit_code == 2
    assert message in done.stderr


def test_lint_with_people_of_a_file_that_is_not_valid(tmp_path: Path) -> None:
    policy, people = tmp_path / "queues.yaml", tmp_path / "people.csv"
    policy.write_text(BAD)
    people.write_text("sue,etl\n")
    done = CliRunner().invoke(lint, ["--users-from", str(people), str(policy)])
    assert done.stdout == f"{policy}:{ERROR}"
    assert done.exit_code == 1


def test_lint_of_templates_with_people(tmp_path: Path) -> None:
    """The ACLs of queues that will be created, and the administrators of the cluster."""
    prefix = "yarn.scheduler.capacity.root"
    values = {
        f"{prefix}.queues": "a",
        f"{prefix}.acl_submit_applications": " ",
        f"{prefix}.acl_administer_queue": " ",
        f"{prefix}.a.auto-create-child-queue.enabled": "true",
        f"{prefix}.a.leaf-queue-template.acl_submit_applications": "etl",
    }
    file, site = tmp_path / "capacity-scheduler.xml", tmp_path / "yarn-site.xml"
    for path, each in (
        (file, values),
        (site, {"yarn.acl.enable": "true", "yarn.admin.acl": "ops"}),
    ):
        lines = (
            f"<property><name>{name}</name><value>{value}</value></property>\n"
            for name, value in each.items()
        )
        path.write_text(f"<configuration>\n{''.join(lines)}</configuration>")
    people = tmp_path / "people.csv"
    people.write_text("ann,etl,ops\n")
    options = ["--yarn-site", str(site), "--users-from", str(people)]
    done = CliRunner().invoke(lint, [*options, str(file)])
    listed = [line for line in done.stdout.splitlines() if "is listed as a user" in line]
    assert len(listed) == 2
    assert listed[0].startswith(f"{file}:6:")
    assert '"ops"' in listed[1]
