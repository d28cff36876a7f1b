"""`queuegate-server validate` and `lint`: their output, and their exit status."""

import datetime as dt
import subprocess
import sys
from pathlib import Path

import click
import trustme
from click.testing import CliRunner, Result

from queuegate_server.cli.policy_files import validate

BAD = "partitions: [{queues: [{name: root, submitacl: a b c}]}]\n"
ERROR = (
    '1:48: error: the ACL "a b c" has 3 lists instead of one list of users and one of groups '
    "(separate names with commas, and users from groups with one space; a list of groups alone "
    "starts with a space)\n"
)


def run(command: click.Command, *arguments: str, stdin: str = "") -> Result:
    return CliRunner().invoke(command, arguments, input=stdin)


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
