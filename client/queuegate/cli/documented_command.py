"""Commands whose help ends with an example and the exit statuses."""

from collections.abc import Mapping
from typing import Any

import click


class DocumentedCommand(click.Command):
    """A command whose help ends with an example and the exit statuses."""

    def __init__(
        self, *arguments: Any, example: str, exit_statuses: Mapping[int, str], **options: Any
    ) -> None:
        """Create a command.

        Args:
            arguments: Positional arguments of `click.Command`.
            example: A command line. It is not rewrapped; to continue a long one on the next line,
                end the line with a backslash.
            exit_statuses: The meaning of each exit status.
            options: Keyword arguments of `click.Command`.
        """
        super().__init__(*arguments, **options)
        # click caches the first help option that it creates, so a parent's setting may come too
        # late.
        self.context_settings.setdefault("help_option_names", ["-h", "--help"])
        self.example = example
        self.exit_statuses = exit_statuses

    def get_short_help_str(self, limit: int = 80) -> str:
        """Return the summary, which completion also shows."""
        return super().get_short_help_str(limit)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the example and the exit statuses."""
        with formatter.section("Example"):
            program, _, arguments = self.example.partition(" ")
            program = ctx.find_root().info_name or program
            for line in f"{program} {arguments}".splitlines():
                formatter.write(f"{'':{formatter.current_indent}}{line}\n")
        with formatter.section("Exit status"):
            formatter.write_dl(
                [(str(status), meaning) for status, meaning in self.exit_statuses.items()]
            )
        super().format_epilog(ctx, formatter)
