"""`queuegate-server validate` and `lint`: commands that need only files."""

import functools
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Final

import click

from queuegate.cli.documented_command import DocumentedCommand
from queuegate_server.analysis.misplaced_names import misplaced_names
from queuegate_server.analysis.policy_file import STDIN_NAME
from queuegate_server.cli import EXIT_FAILURE, EXIT_INCOMPLETE, EXIT_NO, output_formats, policies
from queuegate_server.cli.command import (
    STDIN,
    Failure,
    config_option,
    read_file,
    reading_options,
    shown_name,
    unreadable,
)
from queuegate_server.cli.output_formats import output_option
from queuegate_server.cli.start_checks import (
    RESOLVER_KEY,
    FileResult,
    check_settings,
    check_start,
    unusable_resolver_errors,
)
from queuegate_server.cli.users_from import (
    RequestedUsers,
    exit_status,
    groups_by_partition,
    read_users,
    users_from_option,
)
from queuegate_server.files.configmap import key_instead
from queuegate_server.formats.detection import detect_file_format
from queuegate_server.formats.diagnostics import Diagnostic, has_errors, sort_diagnostics
from queuegate_server.formats.envelope import open_envelope
from queuegate_server.formats.findings.finding import Severity
from queuegate_server.formats.format_names import FILE_FORMATS, FORMATS, YARN_SITE, YUNIKORN
from queuegate_server.formats.registry import FormatOptions, check_file
from queuegate_server.formats.yunikorn.load import other_key

_NOT_COMPARED: Final = "its names were not compared with the users:"
_Policy = tuple[bytes, str, str, FormatOptions]
"""The arguments with which `policies.parse` loads a policy."""
_NO_FILE: Final = "name a FILE, or pass a server's configuration with --config"


def _checking_options(command: Callable[..., None]) -> Callable[..., None]:
    for decorate in (
        click.option(
            "--format",
            "format_name",
            type=click.Choice(sorted(FILE_FORMATS)),
            metavar="NAME",
            help=f"The format of the files: {', '.join(sorted(FILE_FORMATS))}."
            " [default: detected from their content]",
        ),
        reading_options,
        output_option,
    ):
        command = decorate(command)
    return command


@click.command(
    cls=DocumentedCommand,
    example="queuegate-server validate queues.yaml",
    exit_statuses={
        0: "all files are valid; there may be warnings",
        EXIT_NO: "a file has an error",
        EXIT_FAILURE: "incorrect usage, or an unreadable file",
    },
)
@_checking_options
@click.argument("files", nargs=-1, metavar="FILE...")
@click.option(
    "--settings",
    "are_settings",
    is_flag=True,
    help="Each FILE is the server's own configuration (queuegate.yaml), not a policy.",
)
@config_option(
    "Check what a server with this queuegate.yaml would load: its policies, or each FILE.",
    variable=None,
)
def validate(
    *,
    files: tuple[str, ...],
    format_name: str | None,
    are_settings: bool,
    config: Path | None,
    output: str,
    options: FormatOptions,
) -> None:
    """Check whether a server would load the policy in each FILE.

    FILE may also be a spark-defaults.conf or a yarn-site.xml; - reads standard input. If the
    yarn-site.xml makes YARN ask queuegate, notes list what YARN still decides alone.

    With --settings, each FILE is a queuegate.yaml, or a manifest with a ConfigMap that contains
    one, as printed by `kubectl kustomize` and `helm template`. Checks keys and values, LDAP
    filters, names and addresses, all files named in the settings, and whether this machine meets
    the resolvers' requirements.

    With --config, checks FILE as `serve --config CONFIG --policy FILE` would, including whether
    the partitions' resolvers can be used, but without contacting a directory. Without FILE,
    checks the policies in CONFIG.

    Needs no server. Prints each diagnostic as file:line:column: level: message (remedy)
    on standard output, and a summary on standard error. A policy with only warnings, such as
    names that an ACL does not accept, is valid.
    """
    if config is not None and are_settings:
        raise _wrong_usage("--config and --settings cannot be used together")
    results: Iterable[FileResult]
    if config is not None:
        policies.refuse_reading_options()
        _refuse_standard_input(files)
        results = check_start(config, files)
    elif not files:
        raise _wrong_usage(_NO_FILE)
    elif are_settings:
        policies.refuse_reading_options("--settings, which reads no policy")
        results = _check_each(files, check_settings)
    else:
        results = _check_each(files, functools.partial(_check_policy_alone, format_name, options))
    sys.exit(_report("validate", results, output))


@click.command(
    cls=DocumentedCommand,
    example="queuegate-server lint queues.yaml",
    exit_statuses={
        0: "no errors or warnings",
        EXIT_NO: "an error or a warning",
        EXIT_FAILURE: "incorrect usage, or an unreadable file",
        EXIT_INCOMPLETE: "no errors or warnings, but the list of users is incomplete",
    },
)
@_checking_options
@click.argument("files", nargs=-1, metavar="FILE...")
@users_from_option
@config_option(
    "Read what a server with this queuegate.yaml would load: its policies, or each FILE. Also look "
    "up groups for --users-from with its resolvers.",
    variable=None,
)
def lint(
    *,
    files: tuple[str, ...],
    format_name: str | None,
    users_from: tuple[str, ...],
    config: Path | None,
    output: str,
    options: FormatOptions,
) -> None:
    """Report probable mistakes in each FILE.

    Reports everything that validate reports about the text, plus valid text that is probably a
    mistake, such as a list of groups whose leading space was dropped by YAML. FILE may be - for
    standard input. Needs no server. Prints each diagnostic as file:line:column: level: message
    (remedy) on standard output, and a summary on standard error.

    With --config, reads FILE as `serve --config CONFIG --policy FILE` would. Without FILE, reads
    the policies in CONFIG.

    With --users-from, also reports groups listed as users, usually because a leading space is
    missing, and users listed as groups, in files without errors.

    If the yarn-site.xml makes YARN ask queuegate, notes list what YARN still decides alone.
    """
    if config is not None:
        policies.refuse_reading_options()
        _refuse_standard_input(files)
    elif not files:
        raise _wrong_usage(_NO_FILE)
    if STDIN in files and STDIN in users_from:
        raise _wrong_usage("only one of FILE and --users-from can be standard input")
    users = read_users(users_from) if users_from else None
    if config is not None and not files:
        results = _lint_configured(config, users)
    else:
        results = _lint_files(files, format_name, options, config, users)
    sys.exit(exit_status(users, _report("lint", results, output, warnings_fail=True)))


def _check_policy(
    format_name: str, options: FormatOptions, data: bytes, name: str, *, with_lint: bool
) -> list[Diagnostic]:
    diagnostics = check_file(format_name, data, name, options, with_lint=with_lint)
    if format_name == YUNIKORN and name != STDIN_NAME and (key := key_instead(Path(name))):
        diagnostics = sort_diagnostics([*diagnostics, other_key(name, key)])
    return diagnostics


def _lint_files(
    files: Iterable[str],
    format_name: str | None,
    options: FormatOptions,
    config: Path | None,
    users: RequestedUsers | None,
) -> Iterator[FileResult]:
    """Yield the diagnostics for each file, then those about misplaced names. Raises Failure."""
    linted: list[_Policy] = []

    def check(data: bytes, name: str) -> list[Diagnostic]:
        kind = format_name or detect_file_format(data)
        _refuse_second_site(kind, options, data, name)
        reading = options
        if config is not None:
            reading = policies.reading_options_of(policies.settings(config, name))
        return _lint(kind, reading, linted, data, name, users=users)

    yield from _check_each(files, check)
    if users is None:
        return
    for each in linted:
        policy = policies.parse(*each)
        people = groups_by_partition(users, policy.partitions, config, policy.name)
        yield policy.name, sort_diagnostics(misplaced_names(policy, people))


def _lint_configured(config: Path, users: RequestedUsers | None) -> Iterator[FileResult]:
    """Yield the diagnostics for each policy in a server's settings, then those about misplaced
    names. Raises Failure.
    """
    # Imported here because it is slow to import and rarely needed.
    from queuegate_server.policystore.loader import policy_files  # noqa: PLC0415

    settings = policies.settings(config)
    linted: list[_Policy] = []
    failure = None
    sources = [each for each in settings.sources if not each.is_followed]
    for source in sources:
        try:
            options = policies.reading_options_of(settings, source)
        except Failure as error:
            failure = failure or error
            continue
        texts = policy_files(source)
        check = functools.partial(_lint, source.format, options, linted, users=users)
        yield texts.name, _read_and_check(texts.name, texts.read, check)
    if failure is not None:
        raise failure
    # A server needs all policies to look up groups.
    if users is None:
        return
    if users.need_lookup and len(linted) < len(sources):
        remedy = "correct the errors in the server's other policies first"
        users.missing.extend(f"{name}: {_NOT_COMPARED} {remedy}" for _, name, *_ in linted)
        return
    parsed = [policies.parse(*each) for each in linted]
    partitions = {name for policy in parsed for name in policy.partitions}
    people = groups_by_partition(users, partitions, config)
    for policy in parsed:
        yield policy.name, sort_diagnostics(misplaced_names(policy, people))


def _lint(
    format_name: str | None,
    options: FormatOptions,
    linted: list[_Policy],
    data: bytes,
    name: str,
    *,
    users: RequestedUsers | None,
) -> list[Diagnostic]:
    """Return a file's diagnostics. If the file is a valid policy, append it to `linted`; if it is a
    policy with errors, note in `users` that its names are not compared with the users.
    """
    kind = format_name or detect_file_format(data)
    if users is not None:
        options = replace(options, yarn=replace(options.yarn, known_names=users.names))
    diagnostics = _check_policy(kind, options, data, name, with_lint=True)
    if kind in FORMATS and not has_errors(diagnostics):
        linted.append((data, name, kind, options))
    elif kind in FORMATS and users is not None:
        users.missing.append(f"{name}: {_NOT_COMPARED} correct its errors first")
    return diagnostics


def _check_policy_alone(
    format_name: str | None, options: FormatOptions, data: bytes, name: str
) -> list[Diagnostic]:
    kind = format_name or detect_file_format(data)
    _refuse_second_site(kind, options, data, name)
    diagnostics = _check_policy(kind, options, data, name, with_lint=False)
    if has_errors(diagnostics) or RESOLVER_KEY not in open_envelope(data, name).data:
        return diagnostics
    return sort_diagnostics([*diagnostics, *unusable_resolver_errors(data, name, options)])


def _refuse_second_site(format_name: str, options: FormatOptions, data: bytes, name: str) -> None:
    """Reject a yarn-site.xml as FILE if `--yarn-site` is a different file. Raises Failure."""
    site = options.yarn.site
    if site is None or site[0] == data or format_name != YARN_SITE:
        return
    raise Failure(
        f"{name}: is itself a yarn-site.xml, which is not read with --yarn-site {site[1]}:"
        " pass the scheduler's file as FILE and the cluster's yarn-site.xml to --yarn-site"
    )


def _refuse_standard_input(files: Iterable[str]) -> None:
    if STDIN in files:
        raise _wrong_usage("-: not allowed with --config, where a policy must be a file")


def _wrong_usage(message: str) -> click.UsageError:
    return click.UsageError(message, click.get_current_context())


def _check_each(
    files: Iterable[str], check: Callable[[bytes, str], Iterable[Diagnostic]]
) -> Iterator[FileResult]:
    """Yield each file's name with the diagnostics from `check`, or with the read error."""
    for file in files:
        name = shown_name(file)
        yield name, _read_and_check(name, functools.partial(read_file, file), check)


def _read_and_check(
    name: str, read: Callable[[], bytes], check: Callable[[bytes, str], Iterable[Diagnostic]]
) -> Iterable[Diagnostic] | OSError:
    try:
        data = read()
    except OSError as error:
        return error
    return check(data, name)


def _report(
    command: str,
    results: Iterable[FileResult],
    output: str,
    *,
    warnings_fail: bool = False,
) -> int:
    """Print all diagnostics, and a summary on stderr; return the exit status.

    A diagnostic is printed once, even if its file, such as a yarn-site.xml, is read repeatedly.
    The summary counts the checked files, but not the files read along with them, such as a
    yarn-site.xml.
    """
    all_diagnostics: list[Diagnostic] = []
    files: set[str] = set()
    reported: set[Diagnostic] = set()
    is_readable = True
    try:
        for name, result in results:
            files.add(name)
            if isinstance(result, OSError):
                all_diagnostics.append(unreadable(name, result))
                if output == output_formats.TEXT:
                    click.echo(str(all_diagnostics[-1]), err=True)
                is_readable = False
                continue
            diagnostics = [each for each in dict.fromkeys(result) if each not in reported]
            reported.update(diagnostics)
            if output == output_formats.TEXT:
                output_formats.write(output, command, diagnostics)
            all_diagnostics += diagnostics
    except Failure as failure:
        # Formats for programs contain a single document, so it must include these diagnostics.
        failure.diagnostics = [*dict.fromkeys((*all_diagnostics, *failure.diagnostics))]
        raise
    errors, warnings = (
        sum(each.severity is severity for each in all_diagnostics)
        for severity in (Severity.ERROR, Severity.WARNING)
    )
    counts = {"files": len(files), "errors": errors, "warnings": warnings}
    if output != output_formats.TEXT:
        output_formats.write(output, command, all_diagnostics, more=counts)
    summary = (
        f"{number} {noun.removesuffix('s') if number == 1 else noun}"
        for noun, number in counts.items()
    )
    click.echo(", ".join(summary), err=True)
    if not is_readable:
        return EXIT_FAILURE
    return EXIT_NO if errors or (warnings_fail and warnings) else 0
