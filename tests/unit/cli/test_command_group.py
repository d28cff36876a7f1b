"""Hints for a command or an option of the other command line."""

from queuegate.cli.command_classes import OF_SERVER
from queuegate_server.cli.main import command_group


def test_the_client_knows_the_names_of_the_servers_commands() -> None:
    assert sorted(OF_SERVER) == sorted(command_group().commands)
