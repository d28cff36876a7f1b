"""queuegate.md and queuegate-server.md: every command, from the help that click prints."""

import inspect
import re
from collections.abc import Iterator, Mapping
from typing import Final

import click

from docs.generate.markdown import code, page, paragraph, table
from queuegate.cli.commands import queuegate
from queuegate.cli.documented_command import DocumentedCommand
from queuegate.cli.invocation import COMMON
from queuegate_server.cli.main import command_group

_CLIENT: Final = """\
This command asks a server whether a user may use a queue and why, which groups the user is in, and
which policy the server uses. `check`, `explain`, `app-check`, `queues`, `who-can` and `tree` also
decide without a server, with `--policy` or `--config` (`pip install 'queuegate[server]'`).

`-o json` and `-o yaml` print a document that repeats the question. If there is no answer, the
document contains an `error` with `reason` (see [errors](errors.md)), `message` and, if the server
says when to retry, `retry_after` in whole seconds. Commands that print a list can also print a
`table`.
"""
_SERVER: Final = """\
`serve` and `admission` run the two servers. The other commands work on files, without a server.
"""
_COMMON: Final = "These options can be given before or after the command name."


def generate_client() -> str:
    """Return the page about `queuegate`."""
    # As the program makes it: click keeps the help option of the first context.
    context = click.Context(queuegate, info_name="queuegate", **queuegate.context_settings)
    common = set(COMMON)
    options = [each for each in _options(queuegate) if each.name in common]
    return page(
        "The `queuegate` command",
        _CLIENT,
        "## Exit status",
        _statuses(queuegate.exit_statuses),
        "## Environment",
        table(
            ("variable", "meaning"),
            ((code(name), _with_code(text)) for name, text in queuegate.environment.items()),
        ),
        "## Options of all commands",
        _COMMON,
        _table(options, context),
        *_commands(queuegate, context, common),
    )


def generate_server() -> str:
    """Return the page about `queuegate-server`."""
    group = command_group()
    context = click.Context(group, info_name="queuegate-server", **group.context_settings)
    return page("The `queuegate-server` command", _SERVER, *_commands(group, context, set()))


def _commands(group: click.Group, context: click.Context, common: set[str]) -> Iterator[str]:
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        inner = click.Context(command, info_name=name, parent=context, **command.context_settings)
        if isinstance(command, click.Group) and not command.invoke_without_command:
            yield from _commands(command, inner, common)
            continue
        yield f"## `{inner.command_path}`"
        yield code(" ".join([inner.command_path, *command.collect_usage_pieces(inner)]).strip())
        for part in re.split(r"\n{2,}", inspect.cleandoc(command.help or "").replace("\b\n", "")):
            yield paragraph(_with_code(part))
        options = [
            each
            for each in _options(command)
            if each.name not in common or (each.name == "timeout" and common)
        ]
        if options:
            yield _table(options, inner)
        assert isinstance(command, DocumentedCommand)
        example = " ".join(command.example.replace("\\\n", "").split())
        yield f"Example: {code(example)}"
        yield _statuses(command.exit_statuses)
        if isinstance(command, click.Group):
            yield from _commands(command, inner, common)


def _options(command: click.Command) -> list[click.Option]:
    return [each for each in command.params if isinstance(each, click.Option)]


def _table(options: list[click.Option], context: click.Context) -> str:
    records = [each.get_help_record(context) for each in options]
    return table(
        ("option", "meaning"),
        ((code(each[0]), _with_code(" ".join(each[1].split()))) for each in records if each),
    )


def _with_code(text: str) -> str:
    text = re.sub(r"(`[^`]*`)|(?<![\w-])(--?[a-z][-a-z]*)(?![\w-])", _option, text)
    return re.sub(r" *\[((?:env var: |default: |required).*)\]$", _notes, text).strip()


def _option(found: re.Match[str]) -> str:
    return found[1] or code(found[2])


def _notes(bracket: re.Match[str]) -> str:
    """Return the notes that click appends to the help of an option: variable, default, required."""
    text = bracket[1]
    is_required = text.endswith("required")
    variable = re.match(r"env var: (\w+)", text)
    default = re.search(r"default: (.*)", text)
    notes = []
    if is_required and variable:
        notes.append(f"*Required*, unless {code(variable[1])} is set.")
    elif is_required:
        notes.append("*Required.*")
    if default:
        value = default[1].replace("`", "")
        notes.append(f"Default: {value if ' ' in value else code(value)}.")
    if variable and not is_required:
        notes.append(f"Variable: {code(variable[1])}.")
    return "".join(f" {note}" for note in notes)


def _statuses(statuses: Mapping[int, str]) -> str:
    rows = ((code(str(int(status))), _with_code(text)) for status, text in statuses.items())
    return table(("exit status", "meaning"), rows)
