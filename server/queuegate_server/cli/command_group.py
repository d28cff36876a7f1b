"""The commands of `queuegate-server` as a group, with hints for those of `queuegate`."""

from typing import Any

import click


class CommandGroup(click.Group):
    """A group whose errors name the command or argument that was probably meant."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command. For a command of `queuegate`, the error says so."""
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError:
            # A long import, for this error only.
            from queuegate.cli.commands import queuegate  # noqa: PLC0415

            name = args[0]
            if name not in queuegate.commands:
                raise
            hint = " (with --policy FILE it needs no server)" if _decides(queuegate, name) else ""
            message = f"{name!r} is a command of the client: queuegate {name}{hint}"
            raise click.UsageError(message, ctx) from None

    def invoke(self, ctx: click.Context) -> Any:
        """Run a command. Policies are arguments here, unlike with `queuegate` and `serve`."""
        try:
            return super().invoke(ctx)
        except click.NoSuchOption as error:
            if error.option_name != "--policy":
                raise
            message = "No such option '--policy': files are arguments here, as the usage shows."
            raise click.UsageError(message, error.ctx) from None


def _decides(group: click.Group, name: str) -> bool:
    return any("--policy" in parameter.opts for parameter in group.commands[name].params)
