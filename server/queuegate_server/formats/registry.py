"""Detects the formats of policies and their companion files, and loads and lints such files."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from queuegate.policy.acl import AclNames
from queuegate.policy.tree import Partition
from queuegate_server.formats.diagnostics import (
    Diagnostic,
    ParseError,
    has_errors,
    sort_diagnostics,
)
from queuegate_server.formats.envelope import FORMATS_BY_KEY, OpenedText, open_envelope
from queuegate_server.formats.format_names import (
    CAPACITY_SCHEDULER,
    FAIR_SCHEDULER,
    KUBERNETES,
    SPARK_DEFAULTS,
    YARN_SITE,
    YUNIKORN,
)
from queuegate_server.formats.kubernetes_rbac.compiler import RbacOptions
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

FORMATS: Final = frozenset({YUNIKORN, KUBERNETES, *SCHEDULERS})
FILE_FORMATS: Final = FORMATS | {SPARK_DEFAULTS, YARN_SITE}
"""The formats of all files that can be checked: policies and their companion files."""

# A byte order mark, a declaration and comments may precede the first tag. The groups are atomic so
# that a text consisting only of comments takes linear time.
_FIRST_TAG: Final = re.compile(
    rb"(?:\xef\xbb\xbf)?+(?>\s++|<\?.*?\?>|<!--.*?-->|<!(?!--)[^>]*+>)*+<([\w:.-]++)", re.DOTALL
)
_FORMAT_BY_FIRST_TAG: Final = {
    b"allocations": FAIR_SCHEDULER,
    b"configuration": CAPACITY_SCHEDULER,
}
_OTHER_XML_FORMAT: Final = FAIR_SCHEDULER
_MARKUP: Final = re.compile(rb"(?:\xef\xbb\xbf)?\s*+<[!?]")
_SPARK_PROPERTY: Final = re.compile(
    rb"(?:\xef\xbb\xbf)?(?:[ \t\r\f]*(?:[#!][^\n]*)?\n)*[ \t\f]*spark\."
)
_SITE_KEY: Final = re.compile(rb"[>\"'\s]yarn\.(?!scheduler\.capacity\.)[\w.-]+[<\"'\s]")
_ROOT_QUEUES: Final = b".root.queues"
_MAX_SNIFFED_BYTES: Final = 65_536


@dataclass(frozen=True, slots=True)
class FormatOptions:
    """Options for reading a policy."""

    acl_names: Mapping[str, AclNames] | AclNames = AclNames.YUNIKORN
    """The names allowed in ACLs, for all partitions or by partition name."""
    resolver_types: frozenset[str] = RESOLVER_TYPES
    """The resolver types allowed in a YuniKorn partition, in addition to YuniKorn's own."""
    yarn: YarnOptions = field(default_factory=YarnOptions)
    is_bare: bool = False
    """Whether to read the text without opening envelopes, as schedulers do."""
    default_acl_names: AclNames = AclNames.YUNIKORN
    """The names allowed in the ACLs of partitions that `acl_names` does not list."""

    rbac: RbacOptions = field(default_factory=RbacOptions)
    has_acl_names_option: bool = False
    """Whether the user may pass --acl-names, for remedies."""

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


def detect_policy_format(data: bytes) -> str:
    """Detect a policy's format, even inside an envelope.

    May decompress and parse the whole text, which can take seconds and a lot of memory. For
    untrusted text, use a child process or `detect_bare_format`.
    """
    if are_manifests(data):
        return KUBERNETES
    try:
        return opened_policy_format(open_envelope(data, ""))
    except ParseError:
        return detect_bare_format(data)


def opened_policy_format(text: OpenedText) -> str:
    """Detect a policy's format from its key in the envelope or, without a key, its content."""
    return FORMATS_BY_KEY.get(text.key, YUNIKORN) if text.key else detect_bare_format(text.data)


def detect_bare_format(data: bytes) -> str:
    """Detect the format of a bare policy from the beginning of its text.

    XML is recognized by its root element, or, if no element is found, by a declaration at the
    beginning, because a document type can hide the element. Text with an object of Kubernetes' RBAC
    is Kubernetes'. All other text is in YuniKorn's format.
    """
    start = data[:_MAX_SNIFFED_BYTES]
    if tag := _FIRST_TAG.match(start):
        return _FORMAT_BY_FIRST_TAG.get(tag[1], _OTHER_XML_FORMAT)
    if _MARKUP.match(start):
        return _OTHER_XML_FORMAT
    return KUBERNETES if has_rbac(data) else YUNIKORN


def format_mismatch(text: OpenedText, expected: str) -> str:
    """Describe a policy that is not in the expected format; return "" if it may be.

    The description completes the sentence `this file …`.
    """
    detected = opened_policy_format(text)
    if detected == expected:
        return ""
    if detected == KUBERNETES:
        return "has objects of Kubernetes' RBAC"
    if detected == YUNIKORN:
        return "has no object of Kubernetes' RBAC" if expected == KUBERNETES else "is not XML"
    if not text.key:
        tag = _FIRST_TAG.match(text.data)
        if tag is None:
            return "is XML" if expected == YUNIKORN else ""
        detected = _FORMAT_BY_FIRST_TAG.get(tag[1], "")
        if detected == expected:  # The root element is beyond the part used for detection.
            return ""
    return f"looks like {detected}" if detected else "is XML that is not a scheduler's"


def detect_file_format(data: bytes) -> str:
    """Return a file's format from `FILE_FORMATS`. The caveats in `detect_policy_format` apply."""
    if _is_spark(data):
        return SPARK_DEFAULTS
    if are_manifests(data):
        return KUBERNETES
    try:
        return _opened_file_format(open_envelope(data, ""))
    except ParseError:
        return detect_bare_format(data)


def _is_spark(data: bytes) -> bool:
    """Return whether a file begins as a spark-defaults.conf."""
    return _SPARK_PROPERTY.match(data[:_MAX_SNIFFED_BYTES]) is not None


def _opened_file_format(text: OpenedText) -> str:
    format_name = opened_policy_format(text)
    if format_name != CAPACITY_SCHEDULER or _ROOT_QUEUES in text.data:
        return format_name
    return YARN_SITE if _SITE_KEY.search(text.data) else format_name


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
    _check_format(format_name)
    partitions: Mapping[str, Partition]
    if format_name == YUNIKORN:
        partitions, diagnostics = load_queues(
            text.data,
            text.file,
            options.acl_names_of,
            options.resolver_types,
            has_option=options.has_acl_names_option,
        )
    elif format_name == KUBERNETES:
        partition, diagnostics = load_rbac(text.data, text.file, options.rbac)
        partitions = {partition.name: partition} if partition else {}
    else:
        loaded, diagnostics = load_scheduler(format_name, text.data, text.file, options.yarn)
        partitions = {loaded.partition.name: loaded.partition} if loaded else {}
    return LoadResult(partitions, text.in_file(diagnostics))


def lint_policy(
    format_name: str, data: bytes, file: str, options: FormatOptions = DEFAULT_OPTIONS
) -> list[Diagnostic]:
    """Return warnings about valid but probably unintended content; none for unreadable text.

    Does not report errors or ignored names, because `load_policy` does. The arguments and
    exceptions are the same as for `load_policy`.
    """
    _check_format(format_name)
    try:
        return [*_lint(format_name, open_policy(data, file, options), options)]
    except ParseError:
        return []


def _lint(format_name: str, text: OpenedText, options: FormatOptions) -> tuple[Diagnostic, ...]:
    if format_name == YUNIKORN:
        known = options.yarn.known_names
        warnings = lint_queues(text.data, text.file, options.acl_names_of, known)
    elif format_name == KUBERNETES:
        warnings = lint_rbac(text.data, text.file, options.rbac)
    else:
        warnings = lint_scheduler(format_name, text.data, text.file, options.yarn)
    return text.in_file(warnings)


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
    if format_name == SPARK_DEFAULTS or (not format_name and _is_spark(data)):
        return list(read_spark_defaults(data, file, with_lint=with_lint)[1])
    if format_name == YARN_SITE:
        return _check_site(data, file, options, with_lint=with_lint)
    try:
        text = open_policy(data, file, options)
    except ParseError as error:
        return [error.diagnostic(file)]
    format_name = format_name or _opened_file_format(text)
    if format_name == YARN_SITE:
        return _check_site(data, file, options, with_lint=with_lint)
    return _check_policy(format_name, text, file, options, with_lint=with_lint)


def _check_policy(
    format_name: str, text: OpenedText, file: str, options: FormatOptions, *, with_lint: bool
) -> list[Diagnostic]:
    loaded = load_opened(format_name, text, options)
    diagnostics = [*loaded.diagnostics, *_remarks(format_name, text, file, loaded, options)]
    if not with_lint:
        return sort_diagnostics(diagnostics)
    diagnostics += _lint(format_name, text, options)
    diagnostics += lint_site(options.yarn) if format_name in SCHEDULERS else ()
    # Remove duplicates, because the loader and the linter may report the same problem.
    return sort_diagnostics(dict.fromkeys(diagnostics))


def _remarks(
    format_name: str, text: OpenedText, file: str, loaded: LoadResult, options: FormatOptions
) -> Iterable[Diagnostic]:
    """Return notes on what shims miss in a queues.yaml, or on what YARN decides without
    queuegate.
    """
    if format_name == YUNIKORN:
        return missing_default_partition(file, loaded.partitions)
    if format_name not in SCHEDULERS or options.yarn.site is None or not loaded.partitions:
        return ()
    site, _ = read_site(options.yarn.site, options.yarn.semantics, format_name)
    notes = own_decisions(
        site.configuration, options.yarn.site[1], format_name, text.data, text.file
    )
    return text.in_file(notes)


def _check_site(
    data: bytes, file: str, options: FormatOptions, *, with_lint: bool
) -> list[Diagnostic]:
    yarn = replace(options.yarn, site=(data, file))
    warnings = lint_site(yarn) if with_lint else ()
    site, diagnostics = read_site(yarn.site, yarn.semantics)
    others = overriding_settings(site.configuration, file)
    notes = () if has_errors(diagnostics) else own_decisions(site.configuration, file)
    return sort_diagnostics((*diagnostics, *others, *warnings, *notes))


def _check_format(name: str) -> None:
    if name not in FORMATS:
        known = ", ".join(sorted(FORMATS))
        raise ValueError(f"unknown policy format {name!r}; use one of {known}")
