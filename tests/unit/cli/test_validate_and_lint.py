"""`queuegate-server validate` and `lint`: their output, and their exit status."""

import json
import os
import subprocess
import sys
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result

from queuegate_server.cli.diff import diff
from queuegate_server.cli.policy_files import lint, validate
from queuegate_server.engine import Snapshot
from queuegate_server.server.offline import OfflineServices

GOOD = "partitions: [{queues: [{name: root, submitacl: sue}]}]\n"
WARNING = "partitions: [{queues: [{name: root, submitacl: 'a:b c'}]}]\n"
MISLEADING = "partitions: [{queues: [{name: root, submitacl: 'a, b'}]}]\n"
BAD = "partitions: [{queues: [{name: root, submitacl: a b c}]}]\n"
WARNED = (
    '1:48: warning: "a:b" is not a valid user name in an ACL, so it grants nothing '
    "(the partition setting acl_names: extended accepts it)\n"
)
ERROR = (
    '1:48: error: the ACL "a b c" has 3 lists instead of one list of users and one of groups '
    "(separate names with commas, and users from groups with one space; a list of groups alone "
    "starts with a space)\n"
)
LINTED = (
    '1:48: warning: the space after the comma turns "b" into groups '
    "(for users remove the space, for groups remove the comma)\n"
)


def test_settings_that_no_transport_can_serve(tmp_path: Path) -> None:
    file = tmp_path / "queuegate.yaml"
    file.write_text("transport: native\nlisten: ['unix:/run/q.sock']\n")
    done = CliRunner().invoke(validate, ["--settings", str(file)])
    assert done.exit_code == 1
    assert "transport native does not support Unix sockets" in done.stdout


def test_settings_from_standard_input() -> None:
    assert run(validate, "--settings", "-", stdin="workers: 2\n").exit_code == 0
    done = run(validate, "--settings", "-", stdin="workers: many\n")
    assert done.stdout == "<stdin>:1:10: error: workers: must be a whole number\n"
    assert done.exit_code == 1


def test_a_policy_that_needs_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is valid for a server that has settings for its resolver."""
    monkeypatch.chdir(tmp_path)
    Path("queues.yaml").write_text(
        "partitions:\n- usergroupresolver: {type: ldap}\n  queues: [{name: root}]\n"
    )
    Path("queuegate.yaml").write_text("policy: {path: queues.yaml}\n")
    lacking = (
        "partition 'default' asks for the resolver type 'ldap', which cannot be used: secrets_dir "
        "/run/secrets/ldap cannot be read: No such file or directory"
    )
    alone = run(validate, "queues.yaml")
    assert alone.stdout == (
        f"queues.yaml:2:29: error: {lacking} (if the server has settings for it, check with "
        "--config queuegate.yaml, or without them with --resolver-type ldap)\n"
    )
    assert alone.exit_code == 1
    assert run(validate, "--resolver-type", "ldap", "queues.yaml").exit_code == 0
    assert run(lint, "queues.yaml").exit_code == 0
    for arguments in (["queuegate.yaml"], ["queuegate.yaml", "queues.yaml"]):
        done = run(validate, "--config", *arguments)
        assert done.stdout.startswith(f"queues.yaml:2:29: error: {lacking} (correct that, or")
        assert done.exit_code == 1
    Path("queuegate.yaml").write_text("policy: {path: other.yaml}\ntransport: native\n")
    done = run(validate, "--config", "queuegate.yaml", "--config", "queuegate.yaml")
    assert done.stdout.startswith(
        "queuegate.yaml:1:16: error: policy.path: other.yaml cannot be read: No such file"
    )
    assert done.exit_code == 1
    Path("queuegate.yaml").write_text("resolvers: {corp: {type: os}}\npartitions: {gpu: {}}\n")
    done = run(validate, "--config", "queuegate.yaml", "queues.yaml")
    assert (
        "error: the settings name the partition 'gpu', but the policy has 'default'" in done.stdout
    )
    Path("queuegate.yaml").write_text("wrokers: 2\n")
    done = run(validate, "--config", "queuegate.yaml", "queues.yaml")
    assert done.stdout == (
        "queuegate.yaml:1:1: error: wrokers: unknown key (did you mean workers?)\n"
    )
    assert done.exit_code == 1


def test_faults_of_the_settings_are_reported_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("good.yaml").write_text(GOOD)
    Path("bad.yaml").write_text(BAD)
    Path("queuegate.yaml").write_text("transport: native\nlisten: ['unix:/run/q.sock']\n")
    done = run(validate, "--config", "queuegate.yaml", "good.yaml", "bad.yaml", "nosuch.yaml")
    fault, *others = done.stdout.splitlines(keepends=True)
    assert "transport native does not support Unix sockets" in fault
    assert others == [f"bad.yaml:{ERROR}"]
    assert done.stderr == (
        "nosuch.yaml: error: cannot be read: No such file or directory (check the path)\n"
        "3 files, 3 errors, 0 warnings\n"
    )
    assert done.exit_code == 2
    assert run(validate, "--config", "nosuch.yaml", "good.yaml").exit_code == 2


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("", "name a FILE, or pass a server's configuration with --config"),
        ("--config a.yaml --settings a.yaml", "--config and --settings cannot be used together"),
        ("--config a.yaml -", "-: not allowed with --config, where a policy must be a file"),
        (
            "--config a.yaml --format yunikorn --acl-names extended",
            "--acl-names, --format: not allowed with --config, whose settings determine how",
        ),
        ("--config a --semantics documented b", "--semantics: not allowed with --config"),
        ("--config a --resolver-type x b", "--resolver-type: not allowed with --config"),
        ("--config a --yarn-site {site} b", "--yarn-site: not allowed with --config"),
        ("--settings --format yarn-site a", "--format: not allowed with --settings, which reads"),
    ],
)
def test_wrong_use_of_settings(tmp_path: Path, arguments: str, message: str) -> None:
    site = tmp_path / "yarn-site.xml"
    site.write_text("<configuration/>")
    done = run(validate, *arguments.format(site=site).split())
    assert f"Error: {message}" in done.stderr
    assert done.stderr.startswith("Usage: validate ")
    assert (done.stdout, done.exit_code) == ("", 2)


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name, text in (
        ("good", GOOD),
        ("warning", WARNING),
        ("doubtful", MISLEADING),
        ("bad", BAD),
    ):
        (tmp_path / f"{name}.yaml").write_text(text)


def run(command: click.Command, *arguments: str, stdin: str = "") -> Result:
    return CliRunner().invoke(command, arguments, input=stdin)


@pytest.mark.usefixtures("files")
@pytest.mark.parametrize(
    ("name", "output", "summary", "of_validate", "of_lint"),
    [
        ("good", "", "1 file, 0 errors, 0 warnings\n", 0, 0),
        ("warning", f"warning.yaml:{WARNED}", "1 file, 0 errors, 1 warning\n", 0, 1),
        ("bad", f"bad.yaml:{ERROR}", "1 file, 1 error, 0 warnings\n", 1, 1),
    ],
)
def test_output_of_both(
    name: str, output: str, summary: str, of_validate: int, of_lint: int
) -> None:
    for command, status in ((validate, of_validate), (lint, of_lint)):
        result = run(command, f"{name}.yaml")
        assert (result.stdout, result.stderr, result.exit_code) == (output, summary, status)


@pytest.mark.usefixtures("files")
def test_lint_reports_more() -> None:
    assert run(validate, "doubtful.yaml").exit_code == 0
    result = run(lint, "doubtful.yaml")
    assert result.stdout == f"doubtful.yaml:{LINTED}"
    assert result.exit_code == 1


@pytest.mark.usefixtures("files")
def test_several_files_in_their_order_and_one_summary() -> None:
    result = run(validate, "bad.yaml", "good.yaml", "warning.yaml", "bad.yaml")
    assert result.stdout == f"bad.yaml:{ERROR}warning.yaml:{WARNED}"
    assert result.stderr == "3 files, 1 error, 1 warning\n"
    assert result.exit_code == 1


@pytest.mark.usefixtures("files")
def test_standard_input() -> None:
    for command in (validate, lint):
        result = run(command, "-", stdin=BAD)
        assert result.stdout == f"<stdin>:{ERROR}"
        assert result.exit_code == 1


@pytest.mark.parametrize(
    ("command", "arguments"),
    [
        (validate, "- -"),
        (lint, "- good.yaml -"),
        (diff, "- good.yaml --people --users-from -"),
        (diff, "good.yaml - --people --users-from - --users-from a.csv"),
    ],
)
@pytest.mark.usefixtures("files")
def test_standard_input_is_read_once(command: click.Command, arguments: str) -> None:
    result = run(command, *arguments.split(), stdin=GOOD)
    assert "Error: only one argument can be standard input (-)" in result.stderr
    assert result.exit_code == 2


@pytest.mark.usefixtures("files")
def test_a_file_that_cannot_be_read_does_not_hide_the_others(tmp_path: Path) -> None:
    for command in (validate, lint):
        result = run(command, "missing.yaml", str(tmp_path), "bad.yaml")
        assert result.stdout == f"bad.yaml:{ERROR}"
        assert result.stderr == (
            "missing.yaml: error: cannot be read: No such file or directory (check the path)\n"
            f"{tmp_path}: error: cannot be read: Is a directory (name a file in it)\n"
            "3 files, 3 errors, 0 warnings\n"
        )
        assert result.exit_code == 2


def test_a_pipe_is_refused(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    for command in (validate, lint):
        result = run(command, str(pipe))
        fault = f"{pipe}: error: cannot be read: not a regular file (check the path)"
        assert result.stderr.startswith(f"{fault}\n")
        assert result.exit_code == 2


@pytest.mark.usefixtures("files")
@pytest.mark.parametrize(
    "arguments", [[], ["--format", "xml", "good.yaml"], ["--acl-names", "all", "good.yaml"]]
)
def test_wrong_usage(arguments: list[str]) -> None:
    for command in (validate, lint):
        assert run(command, *arguments).exit_code == 2


@pytest.mark.usefixtures("files")
def test_options() -> None:
    for names in ("extended", "any"):
        assert run(validate, "--acl-names", names, "warning.yaml").exit_code == 0
        linted = run(lint, "--acl-names", names, "warning.yaml")
        assert linted.exit_code == 1
        assert (
            f'YuniKorn drops "a:b" from this ACL: only queuegate accepts it (acl_names: {names})'
            in (linted.stdout)
        )
    for command in (validate, lint):
        text = "partitions: [{queues: [], usergroupresolver: {type: corp}}]"
        assert run(command, "-", stdin=text).exit_code == 1
        assert run(command, "--resolver-type", "corp", "-", stdin=text).exit_code == 0


def test_a_warning_of_loader_and_linter_is_printed_once() -> None:
    text = "partitions: [{queues: [{name: root, submitacl: 'a,*'}]}]\n"
    assert run(lint, "-", stdin=text).stdout.count("warning") == 1


def test_help_documents_the_exit_status() -> None:
    for command in (validate, lint):
        assert "Exit status: 0 " in run(command, "--help").stdout


def test_works_in_a_process_of_its_own_without_grpc() -> None:
    program = (
        "import sys; from queuegate_server.cli.main import main\n"
        "sys.argv = ['queuegate-server', 'validate', '-']\n"
        "try: main()\n"
        "finally: assert not any(name.startswith('grpc') for name in sys.modules)"
    )
    process = subprocess.run(
        [sys.executable, "-c", program], input=BAD, capture_output=True, text=True, check=False
    )
    assert process.stdout == f"<stdin>:{ERROR}"
    assert process.stderr == "1 file, 1 error, 0 warnings\n"
    assert process.returncode == 1


ACL = (
    "<allocations><queue name='root'><aclSubmitApps>bob g h</aclSubmitApps>{}</queue></allocations>"
)
CLOSED = ACL.format("<aclAdministerApps> </aclAdministerApps>")
SITE = (
    "<configuration><property><name>yarn.acl.enable</name><value>{}</value></property>{}"
    "</configuration>"
)
ADMINS = "<property><name>yarn.admin.acl</name><value>bob</value></property>"


@pytest.mark.parametrize(
    ("text", "options", "status", "words"),
    [
        ("# Spark\nspark.acls.enable true\n", [], 0, "1 file, 0 errors, 0 warnings"),
        ("spark.acls.enable yes\n", [], 1, "<stdin>:1:1: error: spark.acls.enable must be true"),
        ("a=b\n", ["--format", "spark-defaults"], 0, "0 errors, 0 warnings"),
        (SITE.format("true", ADMINS), [], 0, "0 errors, 0 warnings"),
        (SITE.format("no", ADMINS), [], 0, "neither true nor false and so is read as false"),
        (SITE.format("true", ""), ["--format", "yarn-site"], 0, "not set and defaults to *"),
        ("<configuration/>", [], 1, "lists no queue"),
        ("", [], 0, "the file is empty: every request will fail with NOT_FOUND"),
        (" \n", ["--format", "capacity-scheduler"], 1, "the file is empty: no element found"),
        ("", ["--format", "yarn-site"], 1, "the file is empty: no element found"),
        (CLOSED, [], 0, '"bob g h" is ambiguous'),
        (CLOSED, ["--semantics", "hadoop"], 0, "0 errors, 0 warnings"),
    ],
)
def test_files_of_the_other_family(text: str, options: list[str], status: int, words: str) -> None:
    result = run(validate, *options, "-", stdin=text)
    assert words in result.output
    assert result.exit_code == status
    if "warning:" in result.stdout:
        assert run(lint, *options, "-", stdin=text).exit_code == 1


def test_lint_checks_the_administrators_of_the_cluster(tmp_path: Path) -> None:
    text = SITE.format("true", ADMINS.replace("bob", "bob *"))
    result = run(lint, "-", stdin=text)
    assert '"bob *" is ambiguous: as documented it allows user' in result.stdout
    assert result.exit_code == 1
    site = tmp_path / "yarn-site.xml"
    site.write_text(text)
    result = run(lint, "--yarn-site", str(site), "-", stdin=CLOSED.replace("bob g h", "bob"))
    assert f"{site}:1:" in result.stdout
    assert result.stdout.count("ambiguous") == 1


def test_lint_names_the_semantics() -> None:
    assert "; this file is read with semantics documented (" in run(lint, "-", stdin=CLOSED).stdout
    assert (
        "; this file is read with semantics hadoop ("
        in run(lint, "--semantics", "hadoop", "-", stdin=CLOSED).stdout
    )


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
