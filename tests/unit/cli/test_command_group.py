"""Hints for a command or an option of the other command line."""

import pytest
from click.testing import CliRunner

from queuegate.cli import main
from queuegate.cli.options import OF_SERVER
from queuegate_server.cli.main import command_group


def test_the_client_knows_the_names_of_the_servers_commands() -> None:
    assert sorted(OF_SERVER) == sorted(command_group().commands)


def test_a_command_of_the_server(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["lint", "queues.yaml"]) == 2
    assert "'lint' is a command of the server: queuegate-server lint" in capsys.readouterr().err


def test_an_option_of_the_server(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["who-can", "root.a", "--users-from", "a.csv"]) == 2
    message = "'--users-from': only for queuegate-server diff, lint and prove\n"
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("check ann root.a", "is a command of the client: queuegate check (with --policy FILE"),
        ("reload", "'reload' is a command of the client: queuegate reload\n"),
        ("nosuch", "No such command 'nosuch'."),
        ("validate --policy queues.yaml", "Usage: queuegate-server validate [OPTIONS] FILE..."),
        ("validate --policy queues.yaml", "'--policy': files are arguments here"),
        ("validate --polcy queues.yaml", "No such option '--polcy'."),
        ("serve --yarn-site a.xml", "'--yarn-site': use --set policy.yarn_site=…\n"),
        ("serve --daemon-user rm", "'--daemon-user': use --set policy.daemon_user=…\n"),
        ("serve --partition hadoop", "'--partition': use --set policy.partition=…\n"),
        ("serve --semantics hadoop", "use --set partitions.default.semantics=…\n"),
        ("serve --acl-names any", "use --set partitions.default.acl_names=…\n"),
        ("serve --users-from a.csv", "'--users-from': only for lint, diff, prove\n"),
        ("lint --daemon-user rm a.xml", "'--daemon-user': only for convert\n"),
        ("ldap-check --policy a.xml", "'--policy': only for serve\n"),
    ],
)
def test_a_mistake_on_the_servers_command_line(arguments: str, message: str) -> None:
    result = CliRunner().invoke(command_group(), arguments.split(), prog_name="queuegate-server")
    assert result.exit_code == 2
    assert message in result.output
