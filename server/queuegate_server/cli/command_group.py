"""The `queuegate-server` command group, with hints about `queuegate` commands."""

from typing import Any, Final

import click

from queuegate.policy.names import DEFAULT_PARTITION
from queuegate_server.settings.removed import removed_option

_KEYS: Final = {
    "--yarn-site": "policy.yarn_site",
    "--daemon-user": "policy.daemon_user",
    "--partition": "policy.partition",
    "--semantics": f"partitions.{DEFAULT_PARTITION}.semantics",
    "--acl-names": f"partitions.{DEFAULT_PARTITION}.acl_names",
}
"""The settings that replace other commands' options in `serve`."""


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
        """Run a command. If it rejects another command's option, the error says what to use."""
        try:
            return super().invoke(ctx)
        except click.NoSuchOption as error:
            option = error.option_name
            if not (hint := self._hint(error.ctx.command, option) if error.ctx else ""):
                raise
            raise click.UsageError(f"No such option {option!r}: {hint}", error.ctx) from None

    def _hint(self, command: click.Command, option: str) -> str:
        """Return a hint for an option that `command` lacks; "" if no other command has it."""
        if removed := removed_option(f"queuegate-server {command.name}", option):
            return f"it was removed: {removed.instead}"
        if command.name == "serve" and (key := _KEYS.get(option)):
            return f"use --set {key}=…"
        if option == "--policy" and any(
            isinstance(each, click.Argument) for each in command.params
        ):
            return "files are arguments here, as the usage shows."
        others = [
            name
            for name, other in self.commands.items()
            if any(option in each.opts for each in other.params)
        ]
        return f"only for {', '.join(others)}" if others else ""
