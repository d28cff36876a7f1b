"""`queuegate-server validate` and `lint`: their output, and their exit status."""

import datetime as dt
import os
import subprocess
import sys
from pathlib import Path

import click
import pytest
import trustme
from click.testing import CliRunner, Result

from queuegate_server.cli.diff import diff
from queuegate_server.cli.policy_files import lint, validate

GOOD = "partitions: [{queues: [{name: root, submitacl: sue}]}]\n"
WARNING = "partitions: [{queues: [{name: root, submitacl: 'a:b c'}]}]\n"
MISLEADING = "partitions: [{queues: [{name: root, submitacl: 'a, b'}]}]\n"
BAD = "partitions: [{queues: [{name: root, submitacl: a b c}]}]\n"
WARNED = (
    '1:48: warning: "a:b" is not a valid user name in an ACL, so it grants nothing '
    "(to accept it, set partitions.default.acl_names: extended in the server's settings"
    " (queuegate.yaml), or pass --acl-names extended)\n"
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


@pytest.mark.parametrize("command", [validate, lint])
def test_an_option_is_a_remedy_only_where_it_can_be_passed(
    command: click.Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("queues.yaml").write_text(WARNING)
    Path("misplaced.yaml").write_text(WARNING.replace("queues:", "acl_names: any, queues:", 1))
    Path("queuegate.yaml").write_text("policy: {path: queues.yaml}\n")
    for name, setting in (("queues", "acl_names: extended in"), ("misplaced", "acl_names in")):
        file = f"{name}.yaml"
        with_option = run(command, file).stdout
        assert setting in with_option
        assert "pass --acl-names" in with_option
        with_settings = run(command, "--config", "queuegate.yaml", file).stdout
        assert setting in with_settings
        assert "--acl-names" not in with_settings
    assert "--acl-names" not in run(command, "--config", "queuegate.yaml").stdout


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


def test_lint_shows_warnings_beside_errors(tmp_path: Path) -> None:
    file = tmp_path / "queues.yaml"
    file.write_text(
        "partitions:\n- acl_names: any\n  queues: [{name: root, submitacl: 'a, b', queues: [{}]}]\n"
    )
    done = CliRunner().invoke(lint, [str(file)])
    assert done.exit_code == 1
    assert 'error: unknown key "acl_names" in a partition' in done.stdout
    assert "error: the queue has no name" in done.stdout
    assert 'warning: the space after the comma turns "b" into groups' in done.stdout
    assert done.stderr == "1 file, 2 errors, 1 warning\n"


def test_an_expired_certificate_is_a_warning_at_its_setting(tmp_path: Path) -> None:
    authority, day = trustme.CA(), dt.timedelta(days=1)
    now = dt.datetime.now(dt.UTC)
    issued = authority.issue_cert("host", not_before=now - 2 * day, not_after=now - day)
    issued.private_key_pem.write_to_path(str(tmp_path / "tls.key"))
    issued.cert_chain_pems[0].write_to_path(str(tmp_path / "tls.crt"))
    tls = f"{{certificate_file: {tmp_path}/tls.crt, key_file: {tmp_path}/tls.key}}"
    file = tmp_path / "queuegate.yaml"
    file.write_text(f"listen: [{{address: '127.0.0.1:0', tls: {tls}}}]\nadmission:\n  tls: {tls}\n")
    done = CliRunner().invoke(validate, ["--settings", str(file)])
    text = f"{tmp_path}/tls.crt: the certificate has expired: clients refuse to connect"
    assert f"warning: listen[0].tls.certificate_file: {text}" in done.stdout
    assert f"warning: admission.tls.certificate_file: {text}" in done.stdout
    assert done.exit_code == 0
    assert done.stderr == "1 file, 0 errors, 2 warnings\n"
