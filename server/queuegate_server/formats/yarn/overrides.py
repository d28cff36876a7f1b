"""Finds settings in yarn-site.xml that make the ResourceManager ignore or override a scheduler's
file.

The keys, values and defaults follow Hadoop's `YarnConfiguration` and `FairSchedulerConfiguration`.
"""

from collections.abc import Callable, Iterator, Mapping
from pathlib import PurePath
from typing import Final

from queuegate.policy.yarn_acl import TRIMMED
from queuegate_server.formats.diagnostics import Diagnostic, Diagnostics, quoted
from queuegate_server.formats.findings.finding import Finding
from queuegate_server.formats.findings.table import finding
from queuegate_server.formats.format_names import CAPACITY_SCHEDULER, FAIR_SCHEDULER
from queuegate_server.formats.yarn.properties import Configuration
from queuegate_server.formats.yarn.variables import ExpansionBudget, VariableError

AUTHORIZER: Final = "yarn.authorization-provider"
SCHEDULER: Final = "yarn.resourcemanager.scheduler.class"
STORE: Final = "yarn.scheduler.configuration.store.class"
PROVIDER: Final = "yarn.resourcemanager.configuration.provider-class"
ALLOCATIONS: Final = "yarn.scheduler.fair.allocation.file"
KEYS: Final = frozenset({AUTHORIZER, SCHEDULER, STORE, PROVIDER, ALLOCATIONS})

_OWN_AUTHORIZER: Final = "org.apache.hadoop.yarn.security.ConfiguredYarnAuthorizer"
_OUR_AUTHORIZER: Final = "io.queuegate.hadoop.QueuegateYarnAuthorizer"
_LOCAL_FILES: Final = "org.apache.hadoop.yarn.LocalConfigurationProvider"
_FILE_STORE: Final = "file"
_MEMORY_STORE: Final = "memory"
_STORES: Final = (_FILE_STORE, _MEMORY_STORE, "leveldb", "zk", "fs")
_SCHEDULERS: Final = "org.apache.hadoop.yarn.server.resourcemanager.scheduler."
_SCHEDULER_OF_FORMAT: Final[Mapping[str, str]] = {
    CAPACITY_SCHEDULER: f"{_SCHEDULERS}capacity.CapacityScheduler",
    FAIR_SCHEDULER: f"{_SCHEDULERS}fair.FairScheduler",
}
_DEFAULT_SCHEDULER: Final = _SCHEDULER_OF_FORMAT[CAPACITY_SCHEDULER]
_Findings = Iterator[tuple[str, Finding]]
"""Keys to warn about, each with its finding."""


def overriding_settings(
    site: Configuration, site_file: str, format_name: str = "", file: str = ""
) -> tuple[Diagnostic, ...]:
    """Return warnings about settings in yarn-site.xml that override or extend a scheduler's file.

    `format_name` and `file` are empty if no scheduler's file is given.
    """
    diagnostics = Diagnostics(site_file)

    def value(key: str) -> str | None:
        """Return a property's value; None if it is unset or cannot be determined."""
        if key not in site:
            return None
        try:
            return site.expand(key, ExpansionBudget())
        except VariableError as error:
            diagnostics.add(site.position(key), finding("unknown-value", key=key, why=error))
            return None

    for key, found in _findings(value, site, format_name, file):
        diagnostics.add(site.position(key), found)
    return diagnostics.sorted()


def authorizer(site: Configuration) -> str:
    """Return the class that decides who may use a queue; "" if a variable hides its name."""
    try:
        stated = site.expand(AUTHORIZER, ExpansionBudget()) if AUTHORIZER in site else ""
    except VariableError:
        return ""
    return _class_name(stated, _OWN_AUTHORIZER)


def asks_queuegate(site: Configuration) -> bool:
    """Return whether YARN asks queuegate who may use a queue."""
    return authorizer(site) == _OUR_AUTHORIZER


def _findings(
    value: Callable[[str], str | None], site: Configuration, format_name: str, file: str
) -> _Findings:
    decider = _class_name(value(AUTHORIZER), _OWN_AUTHORIZER)
    if decider not in (_OWN_AUTHORIZER, _OUR_AUTHORIZER):
        yield AUTHORIZER, finding("other-authorizer", key=AUTHORIZER, stated=quoted(decider))
    provider = _class_name(value(PROVIDER), _LOCAL_FILES)
    if provider != _LOCAL_FILES:
        yield PROVIDER, finding("files-from-elsewhere", key=PROVIDER, stated=quoted(provider))
    yield from _scheduler_findings(value(SCHEDULER), format_name, is_set=SCHEDULER in site)
    if format_name != FAIR_SCHEDULER:
        yield from _store_findings(value(STORE))
    elif (path := value(ALLOCATIONS)) and _has_other_name(path, file):
        found = finding(
            "other-allocation-file", key=ALLOCATIONS, stated=quoted(path), file=quoted(file)
        )
        yield ALLOCATIONS, found


def _class_name(stated: str | None, default: str) -> str:
    """Return the class that a property states, or the default."""
    return (stated or "").strip(TRIMMED) or default


def _has_other_name(path: str, file: str) -> bool:
    """Return whether `file` has another name than the file at `path`.

    Folders are ignored because `file` may be a copy. Returns False for sent or pasted text, which
    has no file name.
    """
    name = PurePath(file)
    return name.suffix == ".xml" and PurePath(path).name != name.name


def _scheduler_findings(stated: str | None, format_name: str, *, is_set: bool) -> _Findings:
    expected = _SCHEDULER_OF_FORMAT.get(format_name)
    if stated is None and is_set:
        return  # The value is unknown. This has already been reported.
    scheduler = stated if stated is not None else _DEFAULT_SCHEDULER
    if expected is None:
        if scheduler not in _SCHEDULER_OF_FORMAT.values():
            shown = quoted(scheduler)
            yield SCHEDULER, finding("unknown-scheduler", key=SCHEDULER, stated=shown)
    elif scheduler != expected:
        shown = "not set and defaults to the capacity scheduler"
        if stated is not None:
            shown = quoted(scheduler)
        found = finding(
            "other-scheduler", key=SCHEDULER, stated=shown, format=format_name, expected=expected
        )
        yield SCHEDULER, found


def _store_findings(stated: str | None) -> _Findings:
    if stated is None or stated == _FILE_STORE:
        return
    found = "queues-in-a-store"
    if stated == _MEMORY_STORE:
        found = "queues-in-memory"
    elif stated not in _STORES:
        found = "unknown-store"
    yield STORE, finding(found, key=STORE, stated=quoted(stated), stores=", ".join(_STORES))
