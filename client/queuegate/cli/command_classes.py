"""Commands whose help has two sections, and whose errors name the command line that was meant."""

from typing import Final

import click

from queuegate.cli.invocation import COMMON

OF_SERVER: Final = (
    "admission", "convert", "diff", "lint", "prove", "serve", "source-check", "test", "token",
    "validate",
)  # fmt: skip
"""The commands of `queuegate-server`. They are listed here because that program may not be
installed."""
_ELSEWHERE: Final = {
    "--daemon-user": "set policy.daemon_user in the file of --config",
    "--users-from": "only for queuegate-server diff, lint and prove",
    "--set": "only for queuegate-server serve and source-check; elsewhere, edit --config's file",
    "--old-yarn-site": "only for queuegate-server diff and prove",
    "--format": "only for queuegate-server lint and validate; use -o for the output",
}
"""Options that only other commands support, with hints for users who try them here."""


class Command(click.Command):
    """A command whose help lists its own options before the `Invocation` options."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the arguments. If an option belongs to another command, the error names that
        command.
        """
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            if hint := _ELSEWHERE.get(error.option_name):
                raise click.UsageError(
                    f"No such option {error.option_name!r}: {hint}", ctx
                ) from None
            raise

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
    """A command group whose help shows the same option sections as a command's help."""

    command_class = Command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the named command. If it belongs to `queuegate-server`, the error names that
        program.
        """
        if args[0] in OF_SERVER:
            message = f"{args[0]!r} is a command of the server: queuegate-server {args[0]}"
            raise click.UsageError(message, ctx)
        return super().resolve_command(ctx, args)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options, then the commands."""
        super().format_options(ctx, formatter)
        self.format_commands(ctx, formatter)
