"""The `queuegate-server` command group, with hints about `queuegate` commands."""

from typing import Any

import click


class CommandGroup(click.Group):
    """A command group whose errors suggest the command or argument that was probably intended."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find a command. For a client command, the error suggests running `queuegate NAME`."""
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError:
            # Imported here because it is slow to import and needed only for this error.
            from queuegate.cli.commands import queuegate  # noqa: PLC0415

            name = args[0]
            if name not in queuegate.commands:
                raise
            has_policy = any("--policy" in each.opts for each in queuegate.commands[name].params)
            hint = " (with --policy FILE it needs no server)" if has_policy else ""
            message = f"{name!r} is a command of the client: queuegate {name}{hint}"
            raise click.UsageError(message, ctx) from None

    def invoke(self, ctx: click.Context) -> Any:
        """Run a command. If it rejects `--policy`, the error states that policy files are passed as
        arguments.
        """
        try:
            return super().invoke(ctx)
        except click.NoSuchOption as error:
            if error.option_name != "--policy":
                raise
            message = "No such option '--policy': files are arguments here, as the usage shows."
            raise click.UsageError(message, error.ctx) from None
