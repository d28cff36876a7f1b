"""`queuegate-server lint`."""

from pathlib import Path

import click

from queuegate_server.cli import policy_files
from queuegate_server.formats import lint as linter
from queuegate_server.formats.problems import Problem, has_errors, in_order
from queuegate_server.formats.registry import detect_format
from queuegate_server.policy.acl import AclNames


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
) -> None:
    """Look for what is valid but hardly meant in each FILE (- is standard input).

    Finds what validate finds, and beyond it such things as a list of groups whose
    leading blank YAML dropped. Needs no server. Prints each finding as
    file:line:column: level: message (remedy) on standard output, and a summary on
    standard error.

    Exit status: 0 nothing found, 1 a finding, 2 wrong usage or a file that cannot be read.
    """
    load = policy_files.loader(
        format_name, acl_names=acl_names, resolver_types=resolver_types, yarn_site=yarn_site
    )

    def check(data: bytes, name: str) -> list[Problem]:
        problems = load(data, name).problems
        if has_errors(problems):
            return list(problems)
        doubtful = linter.lint(
            format_name or detect_format(data), data, name, acl_names=AclNames(acl_names)
        )
        # Where both say the same of a place, once is enough.
        return in_order(dict.fromkeys((*problems, *doubtful)))

    context.exit(policy_files.report(files, check, warnings_fail=True))
