"""The help of both programs: each command's summary, example and exit statuses."""

import shlex
from collections.abc import Iterator

import click
import pytest
from click.testing import CliRunner

from queuegate.cli.commands import queuegate
from queuegate.cli.documented_command import DocumentedCommand
from queuegate_server.cli.main import command_group

WIDTH = 80


def _all(command: click.Command, path: str) -> Iterator[tuple[str, click.Command]]:
    yield path, command
    for name, inner in getattr(command, "commands", {}).items():
        yield from _all(inner, f"{path} {name}")


GROUPS = {"queuegate": queuegate, "queuegate-server": command_group()}
COMMANDS = {path: each for name, group in GROUPS.items() for path, each in _all(group, name)}


def _help(path: str) -> str:
    program, *words = path.split()
    done = CliRunner().invoke(
        GROUPS[program], [*words, "--help"], prog_name=program, terminal_width=WIDTH
    )
    assert done.exit_code == 0
    return done.stdout


@pytest.mark.parametrize("path", COMMANDS)
def test_summaries_are_whole_at_80_columns(path: str) -> None:
    shown = _help(path)
    assert max(map(len, shown.splitlines())) <= WIDTH
    for name, inner in getattr(COMMANDS[path], "commands", {}).items():
        summary = inner.get_short_help_str(1_000)
        assert summary.endswith(".")
        assert f"  {name} " in shown
        assert f" {summary}\n" in shown


@pytest.mark.parametrize("path", sorted(COMMANDS.keys() - {"queuegate-server"}))
def test_each_command_shows_an_example_that_it_accepts(path: str) -> None:
    command = COMMANDS[path]
    assert isinstance(command, DocumentedCommand)
    example = command.example.replace("\n", "\n  ")
    assert f"Example:\n  {example}\n" in _help(path)
    words = shlex.split(command.example.replace("\\\n", "").partition(" > ")[0])
    above = len(path.split())
    assert words[:above] == path.split()
    if command is not queuegate:
        assert command.make_context(path, words[above:]).args == []


@pytest.mark.parametrize("path", sorted(COMMANDS.keys() - {"queuegate-server"}))
def test_each_command_lists_its_exit_statuses(path: str) -> None:
    command = COMMANDS[path]
    assert isinstance(command, DocumentedCommand)
    assert {0, 2} <= {*command.exit_statuses}
    shown = _help(path).partition("\nExit status:\n")[2]
    for status, meaning in command.exit_statuses.items():
        assert f"  {int(status)}  {meaning[:60].rsplit(' ', 1)[0]}" in shown


@pytest.mark.parametrize(
    ("command", "default"),
    [
        ("queuegate check", "1; with --policy or --config: 30"),
        ("queuegate who-can", "30"),
        ("queuegate invalidate", "5; with --wait: 15"),
        ("queuegate health", "1"),
    ],
)
def test_the_time_limit_names_the_default_of_the_command(command: str, default: str) -> None:
    assert f"The time limit. [default: {default}]" in " ".join(_help(command).split())


@pytest.mark.parametrize("path", COMMANDS)
def test_the_short_option_does_not_depend_on_the_parent(path: str) -> None:
    context = COMMANDS[path].make_context(path, [], resilient_parsing=True)
    assert sorted(context.help_option_names) == ["--help", "-h"]
