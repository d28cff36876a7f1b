"""`queuegate-server validate`."""

from collections.abc import Iterable, Iterator
from pathlib import Path

import click

from queuegate_server.cli import policy_files
from queuegate_server.formats.diagnostics import Diagnostic, Severity
from queuegate_server.runtime.tcp import CannotListen
from queuegate_server.settings.load import SettingsError, load_settings
from queuegate_server.settings.model import Settings
from queuegate_server.transports.registry import choose


@click.command()
@policy_files.options
@click.option(
    "--settings",
    "are_settings",
    is_flag=True,
    help="Each FILE is the server's own configuration (queuegate.yaml), not a policy.",
)
@click.pass_context
def validate(
    context: click.Context,
    *,
    are_settings: bool,
    files: tuple[str, ...],
    format_name: str | None,
    acl_names: str,
    resolver_types: tuple[str, ...],
    yarn_site: Path | None,
    semantics: str,
) -> None:
    """Say whether the server would load the policy in each FILE (- is standard input).

    A spark-defaults.conf and a yarn-site.xml can be given, too.

    With --settings each FILE is a queuegate.yaml: its keys and values, the filters, names
    and addresses of directories, and the files that it names are looked at.

    Needs no server. Prints each finding as file:line:column: level: message (remedy)
    on standard output, and a summary on standard error. Warnings, such as names that
    an ACL does not accept, leave a policy valid.

    Exit status: 0 all valid, 1 an error in a policy, 2 wrong usage or a file that
    cannot be read.
    """
    check = policy_files.checker(
        format_name,
        with_lint=False,
        acl_names=acl_names,
        resolver_types=resolver_types,
        yarn_site=yarn_site,
        semantics=semantics,
    )

    chosen = _settings_problems if are_settings else check
    context.exit(policy_files.report(files, chosen, warnings_fail=False))


def _settings_problems(data: bytes, name: str) -> Iterable[Diagnostic]:
    try:
        settings = load_settings(Path(name), content=data)
    except SettingsError as error:
        return error.problems
    return [Diagnostic(name, 0, 0, Severity.ERROR, text) for text in _unusable(settings)]


def _unusable(settings: Settings) -> Iterator[str]:
    """Yield why a server with these settings could not listen."""
    try:
        choose(settings.transport, settings.listen, settings.limits.connections)
    except CannotListen as error:
        yield str(error)
    if settings.callers.token_file or any(each.tls for each in settings.listen):
        from queuegate_server.server.listeners import unusable_files  # noqa: PLC0415 - slow, seldom needed

        yield from unusable_files(settings)
