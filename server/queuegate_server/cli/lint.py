"""`queuegate-server lint`."""

from pathlib import Path

import click

from queuegate_server.cli import policy_files


@click.command()
@policy_files.options
@click.pass_context
def lint(
    context: click.Context,
    *,
    files: tuple[str, ...],
    format_name: str | None,
    acl_names: str,
    resolver_types: tuple[str, ...],
    yarn_site: Path | None,
    semantics: str,
) -> None:
    """Look for what is valid but hardly meant in each FILE (- is standard input).

    Finds what validate finds, and beyond it such things as a list of groups whose
    leading blank YAML dropped. Needs no server. Prints each finding as
    file:line:column: level: message (remedy) on standard output, and a summary on
    standard error.

    Exit status: 0 nothing found, 1 a finding, 2 wrong usage or a file that cannot be read.
    """
    check = policy_files.checker(
        format_name,
        with_lint=True,
        acl_names=acl_names,
        resolver_types=resolver_types,
        yarn_site=yarn_site,
        semantics=semantics,
    )
    context.exit(policy_files.report(files, check, warnings_fail=True))
