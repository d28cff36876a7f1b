"""Loads, lints and checks policies and their companion files, in any format."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple

from queuegate.policy.acl import AclNames
from queuegate.policy.tree import Partition
from queuegate_server.formats.detection import is_spark, opened_file_format
from queuegate_server.formats.diagnostics import (
    Diagnostic,
    ParseError,
    has_errors,
    sort_diagnostics,
)
from queuegate_server.formats.envelope import OpenedText, open_envelope
from queuegate_server.formats.format_names import (
    KUBERNETES,
    SPARK_DEFAULTS,
    YARN_SITE,
    YUNIKORN,
)
from queuegate_server.formats.kubernetes_rbac.grants import RbacOptions
from queuegate_server.formats.kubernetes_rbac.lint import lint_rbac
from queuegate_server.formats.kubernetes_rbac.load import load_rbac
from queuegate_server.formats.kubernetes_rbac.manifests import are_manifests, has_rbac
from queuegate_server.formats.spark_defaults import read_spark_defaults
from queuegate_server.formats.yarn.lint import lint_scheduler, lint_site
from queuegate_server.formats.yarn.load import YarnOptions, load_scheduler
from queuegate_server.formats.yarn.overrides import overriding_settings
from queuegate_server.formats.yarn.own_decisions import own_decisions
from queuegate_server.formats.yarn.schedulers import SCHEDULERS
from queuegate_server.formats.yarn.site import read_site
from queuegate_server.formats.yunikorn.lint import lint_queues
from queuegate_server.formats.yunikorn.load import (
    RESOLVER_TYPES,
    load_queues,
    missing_default_partition,
)


@dataclass(frozen=True, slots=True)
class FormatOptions:
    """Options for reading a policy."""

    acl_names: Mapping[str, AclNames] | AclNames = AclNames.YUNIKORN
    """The names allowed in ACLs, for all partitions or by partition name."""
    default_acl_names: AclNames = AclNames.YUNIKORN
    """The names allowed in the ACLs of partitions that `acl_names` does not list."""
    resolver_types: frozenset[str] = RESOLVER_TYPES
    """The resolver types allowed in a YuniKorn partition, in addition to YuniKorn's own."""
    yarn: YarnOptions = field(default_factory=YarnOptions)
    """The options for the files of a YARN cluster."""
    is_bare: bool = False
    """Whether to read the text without opening envelopes, as schedulers do."""
    rbac: RbacOptions = field(default_factory=RbacOptions)
    """The options for Kubernetes RBAC."""
    has_acl_names_option: bool = False
    """Whether remedies may suggest --acl-names."""

    def acl_names_of(self, partition: str) -> AclNames:
        """Return the names allowed in a partition's ACLs."""
        if isinstance(self.acl_names, AclNames):
            return self.acl_names
        return self.acl_names.get(partition, self.default_acl_names)


DEFAULT_OPTIONS: Final = FormatOptions()


@dataclass(frozen=True, slots=True)
class LoadResult:
    """The result of loading a policy."""

    partitions: Mapping[str, Partition]
    """The partitions by name; empty if a diagnostic is an error."""
    diagnostics: tuple[Diagnostic, ...]
    """All diagnostics, sorted by position."""


def open_policy(data: bytes, file: str, options: FormatOptions) -> OpenedText:
    """Extract a policy from its envelope, unless `options.is_bare` is set or it is RBAC, which has
    none. Raises ParseError.
    """
    if options.is_bare or are_manifests(data):
        return OpenedText(data, file)
    try:
        return open_envelope(data, file)
    except ParseError:
        if has_rbac(data):  # beside ConfigMaps without a policy, or not YAML
            return OpenedText(data, file)
        raise


def load_policy(
    format_name: str, data: bytes, file: str, options: FormatOptions = DEFAULT_OPTIONS
) -> LoadResult:
    """Load a policy, and report all errors in one pass. May take seconds for large text.

    `file` is the file name for diagnostics. Raises ValueError if the format is not one of
    `FORMATS`.
    """
    try:
        return load_opened(format_name, open_policy(data, file, options), options)
    except ParseError as error:
        return LoadResult({}, (error.diagnostic(file),))


def load_opened(format_name: str, text: OpenedText, options: FormatOptions) -> LoadResult:
    """Load a policy already extracted from its envelope. See `load_policy`."""
    partitions, diagnostics = _format(format_name).load(text, options)
    return LoadResult(partitions, text.in_file(diagnostics))


def lint_policy(
    format_name: str, data: bytes, file: str, options: FormatOptions = DEFAULT_OPTIONS
) -> list[Diagnostic]:
    """Return warnings about valid but probably unintended content; none for unreadable text.

    Does not report errors or ignored names, because `load_policy` does. The arguments and
    exceptions are the same as for `load_policy`.
    """
    chosen = _format(format_name)
    try:
        text = open_policy(data, file, options)
    except ParseError:
        return []
    return [*text.in_file(chosen.lint(text, options))]


def check_file(
    format_name: str,
    data: bytes,
    file: str,
    options: FormatOptions = DEFAULT_OPTIONS,
    *,
    with_lint: bool,
) -> list[Diagnostic]:
    """Return the diagnostics for a file in any of `FILE_FORMATS`, sorted by position.

    `with_lint` adds lint warnings. The other arguments are the same as for `load_policy`, except
    that the format is detected if its name is empty. Raises ValueError for an unknown format.
    """
    if format_name == SPARK_DEFAULTS or (not format_name and is_spark(data)):
        return list(read_spark_defaults(data, file, with_lint=with_lint)[1])
    if format_name == YARN_SITE:
        return _check_site(data, file, options, with_lint=with_lint)
    try:
        text = open_policy(data, file, options)
    except ParseError as error:
        return [error.diagnostic(file)]
    format_name = format_name or opened_file_format(text)
    if format_name == YARN_SITE:
        return _check_site(data, file, options, with_lint=with_lint)
    return _check_policy(format_name, text, file, options, with_lint=with_lint)


def _check_policy(
    format_name: str, text: OpenedText, file: str, options: FormatOptions, *, with_lint: bool
) -> list[Diagnostic]:
    chosen = _format(format_name)
    loaded = load_opened(format_name, text, options)
    diagnostics = [*loaded.diagnostics, *chosen.remarks(text, file, loaded, options)]
    if with_lint:
        diagnostics += text.in_file(chosen.lint(text, options))
        diagnostics += lint_site(options.yarn) if format_name in SCHEDULERS else ()
    # Remove duplicates, because the loader and the linter may report the same problem.
    return sort_diagnostics(dict.fromkeys(diagnostics))


def _check_site(
    data: bytes, file: str, options: FormatOptions, *, with_lint: bool
) -> list[Diagnostic]:
    yarn = replace(options.yarn, site=(data, file))
    warnings = lint_site(yarn) if with_lint else ()
    site, diagnostics = read_site(yarn.site, yarn.semantics)
    others = overriding_settings(site.configuration, file)
    notes = () if has_errors(diagnostics) else own_decisions(site.configuration, file)
    return sort_diagnostics((*diagnostics, *others, *warnings, *notes))


class _Format(NamedTuple):
    """How the policies of one format are read."""

    load: Callable[
        [OpenedText, FormatOptions], tuple[Mapping[str, Partition], Iterable[Diagnostic]]
    ]
    lint: Callable[[OpenedText, FormatOptions], Iterable[Diagnostic]]
    remarks: Callable[[OpenedText, str, LoadResult, FormatOptions], Iterable[Diagnostic]]
    """Returns notes about a loaded policy: what shims miss in it, or what YARN decides without
    asking queuegate. The second argument is the file's name."""


def _load_yunikorn(
    text: OpenedText, options: FormatOptions
) -> tuple[Mapping[str, Partition], Iterable[Diagnostic]]:
    return load_queues(
        text.data,
        text.file,
        options.acl_names_of,
        options.resolver_types,
        has_option=options.has_acl_names_option,
    )


def _lint_yunikorn(text: OpenedText, options: FormatOptions) -> Iterable[Diagnostic]:
    return lint_queues(text.data, text.file, options.acl_names_of, options.yarn.known_names)


def _remark_on_yunikorn(
    _text: OpenedText, file: str, loaded: LoadResult, _options: FormatOptions
) -> Iterable[Diagnostic]:
    return missing_default_partition(file, loaded.partitions)


def _load_kubernetes(
    text: OpenedText, options: FormatOptions
) -> tuple[Mapping[str, Partition], Iterable[Diagnostic]]:
    partition, diagnostics = load_rbac(text.data, text.file, options.rbac)
    return {partition.name: partition} if partition else {}, diagnostics


def _lint_kubernetes(text: OpenedText, options: FormatOptions) -> Iterable[Diagnostic]:
    return lint_rbac(text.data, text.file, options.rbac)


def _no_remarks(*_: object) -> Iterable[Diagnostic]:
    return ()


def _yarn(format_name: str) -> _Format:
    """Return how the files of one of YARN's schedulers are read."""

    def load(
        text: OpenedText, options: FormatOptions
    ) -> tuple[Mapping[str, Partition], Iterable[Diagnostic]]:
        loaded, diagnostics = load_scheduler(format_name, text.data, text.file, options.yarn)
        partition = loaded.partition if loaded else None
        return {partition.name: partition} if partition else {}, diagnostics

    def lint(text: OpenedText, options: FormatOptions) -> Iterable[Diagnostic]:
        return lint_scheduler(format_name, text.data, text.file, options.yarn)

    def remarks(
        text: OpenedText, _file: str, loaded: LoadResult, options: FormatOptions
    ) -> Iterable[Diagnostic]:
        if options.yarn.site is None or not loaded.partitions:
            return ()
        site, _ = read_site(options.yarn.site, options.yarn.semantics, format_name)
        site_file = options.yarn.site[1]
        notes = own_decisions(site.configuration, site_file, format_name, text.data, text.file)
        return text.in_file(notes)

    return _Format(load, lint, remarks)


_FORMATS: Final[Mapping[str, _Format]] = {
    YUNIKORN: _Format(_load_yunikorn, _lint_yunikorn, _remark_on_yunikorn),
    KUBERNETES: _Format(_load_kubernetes, _lint_kubernetes, _no_remarks),
    **{name: _yarn(name) for name in SCHEDULERS},
}


def _format(name: str) -> _Format:
    """Return how a format's policies are read. Raises ValueError for an unknown format."""
    if name not in _FORMATS:
        known = ", ".join(sorted(_FORMATS))
        raise ValueError(f"unknown policy format {name!r}; use one of {known}")
    return _FORMATS[name]
