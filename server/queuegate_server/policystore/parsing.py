"""Parses all policies together. `parser_process.py` does so in a child process."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from queuegate.policy.names import DEFAULT_PARTITION
from queuegate.policy.tree import Partition
from queuegate_server.formats.detection import (
    detect_bare_format,
    format_mismatch,
    opened_policy_format,
)
from queuegate_server.formats.diagnostics import (
    Diagnostic,
    Diagnostics,
    ParseError,
    diagnostic_of,
    has_errors,
    sort_diagnostics,
)
from queuegate_server.formats.findings.table import finding
from queuegate_server.formats.format_names import KUBERNETES, YUNIKORN
from queuegate_server.formats.registry import (
    DEFAULT_OPTIONS,
    FormatOptions,
    LoadResult,
    check_file,
    load_opened,
    open_policy,
)
from queuegate_server.formats.spark_defaults import read_spark_defaults
from queuegate_server.formats.xml_reader import read_xml
from queuegate_server.formats.yunikorn.load import missing_default_partition, other_key


class File(NamedTuple):
    """A file's contents, and the name that diagnostics use for it."""

    name: str
    data: bytes


class PolicyText(NamedTuple):
    """An unparsed policy, with its Spark defaults, if any."""

    policy: File
    format: str
    """The configured or previously detected format; empty to detect it."""
    options: FormatOptions
    yarn_keys: tuple[str, ...] = ()
    """The policy's settings that apply only to YARN formats."""
    spark: File | None = None
    key_instead: str = ""
    """The ConfigMap key that YuniKorn reads instead; empty if YuniKorn reads this key."""


class ParseJob(NamedTuple):
    """The policies to parse together."""

    texts: tuple[PolicyText, ...]
    checksum: str
    yarn_partitions: frozenset[str] = frozenset()
    """The partitions whose settings apply only to YARN."""


class CheckJob(NamedTuple):
    """Files to check with the same options."""

    format: str
    """One of FILE_FORMATS; empty to detect the format of each file."""
    files: tuple[File, ...]
    options: FormatOptions = DEFAULT_OPTIONS
    with_lint: bool = True
    """Whether to add lint warnings."""


@dataclass(frozen=True, slots=True)
class ParsedPolicies:
    """The result of parsing all files together."""

    partitions: Mapping[str, Partition]
    """The partitions by name; empty if a diagnostic is an error."""
    files: Mapping[str, str]
    """The name of the defining file, by partition name."""
    diagnostics: tuple[Diagnostic, ...]
    """The diagnostics, sorted by file and position."""
    spark_defaults: Mapping[str, Mapping[str, str]]
    """The properties of Spark applications, by partition name."""
    formats: Mapping[str, str]
    """The formats by policy name, for policies with partitions."""
    checksum: str


def check(job: CheckJob) -> ParsedPolicies:
    """Check all files. The result contains only diagnostics; all other fields are empty."""
    diagnostics = tuple(
        diagnostic
        for name, data in job.files
        for diagnostic in check_file(job.format, data, name, job.options, with_lint=job.with_lint)
    )
    return ParsedPolicies({}, {}, diagnostics, {}, {}, "")


def parse(job: ParseJob) -> ParsedPolicies:
    """Parse all policies. May take seconds for large policies."""
    partitions: dict[str, Partition] = {}
    files: dict[str, str] = {}
    diagnostics: list[Diagnostic] = []
    spark: dict[str, Mapping[str, str]] = {}
    formats: dict[str, str] = {}
    for text in job.texts:
        name = text.policy.name
        format_name, loaded = _load(text)
        diagnostics += loaded.diagnostics
        if loaded.partitions:
            formats[name] = format_name
        for partition in loaded.partitions:
            if format_name == YUNIKORN and partition in job.yarn_partitions:
                found = finding("semantics-without-yarn", partition=partition)
                diagnostics.append(diagnostic_of(found, name))
            if partition in partitions:
                found = finding(
                    "partition-in-two-files", partition=partition, file=files[partition]
                )
                diagnostics.append(diagnostic_of(found, name, 1, 1))
            files.setdefault(partition, name)
        partitions = {**loaded.partitions, **partitions}
        if text.spark is not None:
            properties, faults = read_spark_defaults(text.spark.data, text.spark.name)
            diagnostics += faults
            spark |= dict.fromkeys(loaded.partitions, properties)
    diagnostics += _yunikorn_warnings(job, formats, partitions, files)
    if has_errors(diagnostics):
        partitions = {}
    return ParsedPolicies(
        partitions,
        files,
        tuple(sort_diagnostics(diagnostics)),
        spark,
        formats,
        job.checksum,
    )


def _yunikorn_warnings(
    job: ParseJob,
    formats: Mapping[str, str],
    partitions: Mapping[str, Partition],
    files: Mapping[str, str],
) -> Iterator[Diagnostic]:
    """Yield a warning for each reason why YuniKorn might not use a policy.

    Skips YARN policies, whose loader reports the corresponding reasons from yarn-site.xml.
    """
    names = [name for name in partitions if formats.get(files[name]) == YUNIKORN]
    for text in job.texts:
        file = text.policy.name
        if formats.get(file) != YUNIKORN:
            continue
        if text.key_instead:
            yield other_key(file, text.key_instead)
        if DEFAULT_PARTITION not in names:
            yield from missing_default_partition(
                file, [name for name in names if files[name] == file]
            )


def _load(text: PolicyText) -> tuple[str, LoadResult]:
    name, data = text.policy
    try:
        opened = open_policy(data, name, text.options)
    except ParseError as error:
        format_name = text.format or detect_bare_format(data)
        return format_name, LoadResult({}, (error.diagnostic(name),))
    detected = opened_policy_format(opened)
    format_name = text.format or detected
    wrong: tuple[Diagnostic, ...] = ()
    if format_name == YUNIKORN and text.yarn_keys:
        keys = ", ".join(text.yarn_keys)
        fault = "settings-for-yarn" if opened.data.strip() else "empty-file"
        wrong = (diagnostic_of(finding(fault, keys=keys), name, 1, 1),)
    elif format_name == KUBERNETES and text.yarn_keys:
        found = finding("settings-for-yarn-beside-rbac", keys=", ".join(text.yarn_keys))
        wrong = (diagnostic_of(found, name, 1, 1),)
    elif opened.data.strip() and (mismatch := format_mismatch(opened, format_name)):
        expected = "a queues.yaml" if format_name == YUNIKORN else f"the format {format_name}"
        found = finding("other-format", expected=expected, mismatch=mismatch)
        wrong = (diagnostic_of(found, name, 1, 1),)
    if wrong and format_name in {YUNIKORN, KUBERNETES}:
        return format_name, LoadResult({}, wrong)
    loaded = load_opened(format_name, opened, text.options)
    # The detected format may be wrong if the file can be loaded in the expected one.
    if has_errors(loaded.diagnostics):
        if wrong and detected == YUNIKORN and read_xml(opened.data, Diagnostics(name)):
            wrong = ()  # XML in an encoding that detection does not recognize, such as UTF-16
        loaded = LoadResult({}, (*wrong, *loaded.diagnostics))
    return format_name, loaded
