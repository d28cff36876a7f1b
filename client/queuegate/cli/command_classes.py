"""Commands whose help has two sections, and whose errors suggest the command line that the user
meant.
"""

from collections.abc import Mapping
from typing import Any, Final

import click

from queuegate.cli.documented_command import DocumentedCommand
from queuegate.cli.invocation import COMMON

OF_SERVER: Final = (
    "admission", "convert", "diff", "lint", "prove", "serve", "source-check", "test", "token",
    "validate",
)  # fmt: skip
"""The commands of `queuegate-server`. They are listed here because that program may not be
installed."""
_ELSEWHERE: Final = {
    "--daemon-user": "set policy.daemon_user in the file given with --config",
    "--users-from": "only for queuegate-server diff, lint and prove",
    "--set": "only for queuegate-server serve and source-check; elsewhere, edit the file given with"
    " --config",
    "--old-yarn-site": "only for queuegate-server diff and prove",
    "--format": "only for queuegate-server lint and validate; use -o for the output",
}
"""Options that only other commands support, with hints for users who try them here."""


class Command(DocumentedCommand):
    """A command whose help lists its own options before the `Invocation` options.

    The context's object, if any, is a function that returns the value to use if USER is omitted.
    """

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the arguments. If an option belongs to another command, the error names that
        command.
        """
        if ctx.obj is not None and self._omits_user(ctx, args):
            args = [ctx.obj(), *args]
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            if hint := _ELSEWHERE.get(error.option_name):
                raise click.UsageError(
                    f"No such option {error.option_name!r}: {hint}", ctx
                ) from None
            raise

    def _omits_user(self, ctx: click.Context, args: list[str]) -> bool:
        """Return whether all of the command's arguments are given except the first, USER."""
        names = [each.name for each in self.params if isinstance(each, click.Argument)]
        if names[:1] != ["user"]:
            return False
        try:
            values, _, order = self.make_parser(ctx).parse_args([*args])
        except click.UsageError:
            return False  # the caller reports it
        given = [name for name in names if isinstance(values.get(name or ""), str)]
        wants_help = any("--help" in each.opts for each in order)
        return given == names[:-1] and not wants_help

    def collect_usage_pieces(self, ctx: click.Context) -> list[str]:
        """Return the parts of the usage line. USER is optional if it has a default."""
        pieces = super().collect_usage_pieces(ctx)
        return [f"[{each}]" if ctx.obj is not None and each == "USER" else each for each in pieces]

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the command's own options and the `Invocation` options in separate sections."""
        sections: dict[str, list[tuple[str, str]]] = {"Options": [], "Server and output": []}
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            if record and isinstance(parameter, click.Option):
                section = "Server and output" if parameter.name in COMMON else "Options"
                sections[section].append(record)
        for name, records in sections.items():
            if records:
                with formatter.section(name):
                    formatter.write_dl(records)


class Group(Command, click.Group):
    """A command group whose help shows the same option sections as a command's help, and ends with
    the environment variables.
    """

    command_class = Command

    def __init__(self, *arguments: Any, environment: Mapping[str, str], **options: Any) -> None:
        """Create a group. `environment` describes each environment variable; the other arguments
        are the same as for `Command`.
        """
        super().__init__(*arguments, **options)
        self.environment = environment

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the named command. If it belongs to `queuegate-server`, the error names that
        program.
        """
        if args[0] in OF_SERVER:
            message = f"{args[0]!r} is a server command: queuegate-server {args[0]}"
            raise click.UsageError(message, ctx)
        return super().resolve_command(ctx, args)

    def format_help_text(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the description, and what an omitted USER means."""
        super().format_help_text(ctx, formatter)
        if ctx.obj is not None:
            formatter.write_paragraph()
            with formatter.indentation():
                formatter.write_text(
                    "USER may be omitted: it defaults to the user that `kubectl auth whoami` shows."
                )

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options, then the commands."""
        super().format_options(ctx, formatter)
        self.format_commands(ctx, formatter)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the example, the exit statuses and the environment variables."""
        super().format_epilog(ctx, formatter)
        with formatter.section("Environment"):
            formatter.write_dl([*self.environment.items()])
