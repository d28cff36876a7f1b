"""`kubectl queuegate`: the command as a kubectl plugin.

kubectl runs `kubectl-queuegate` for the command, and `kubectl_complete-queuegate` for completion.
Unlike with `queuegate`, USER is optional: it defaults to the user that the API server sees.
"""

import subprocess
import sys
from typing import Final

import click
from click.shell_completion import ShellComplete

from queuegate import cli
from queuegate.cli.commands import queuegate

PROGRAM: Final = "kubectl queuegate"
WHOAMI: Final = ("kubectl", "auth", "whoami", "-o", "jsonpath={.status.userInfo.username}")
_WHOAMI_SECONDS: Final = 30.0
_NO_FILES: Final = 4
"""Cobra's directive ShellCompDirectiveNoFileComp: do not complete file names."""


def main() -> int:
    """Run the plugin and return `queuegate`'s exit status."""
    return cli.main(program=PROGRAM, default_user=current_user)


def complete() -> int:
    """Print the completions for the command line, in the format that kubectl reads; return 0."""
    *words, incomplete = sys.argv[1:] or [""]
    found = ShellComplete(queuegate, {}, PROGRAM, "").get_completions(words, incomplete)
    for each in found:
        sys.stdout.write(f"{each.value}\t{each.help or ''}\n")
    sys.stdout.write(f":{_NO_FILES}\n")
    return 0


def current_user() -> str:
    """Return the name by which the API server knows kubectl's user.

    Raises:
        UsageError: kubectl cannot determine the name, or the name looks like an option.
    """
    try:
        done = subprocess.run(  # noqa: S603 - the kubectl that runs this plugin
            WHOAMI, capture_output=True, text=True, timeout=_WHOAMI_SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise _unknown(str(error)) from None
    name = done.stdout
    if done.returncode or not name:
        raise _unknown(done.stderr.strip() or f"exit status {done.returncode}")
    if name.startswith("-"):
        raise click.UsageError(f"your user name {name!r} looks like an option: pass USER after --")
    return name


def _unknown(reason: str) -> click.UsageError:
    message = f"cannot determine USER: `kubectl auth whoami` failed: {reason}: pass USER"
    return click.UsageError(message)
