"""Finds settings in yarn-site.xml that make the ResourceManager ignore or override a scheduler's
file.

The keys, values and defaults follow Hadoop's `YarnConfiguration` and `FairSchedulerConfiguration`.
"""

from collections.abc import Callable, Iterator, Mapping
from pathlib import PurePath
from typing import Final

from queuegate.policy.yarn_acl import TRIMMED
from queuegate_server.formats.diagnostics import Diagnostic, Diagnostics, quoted
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
    "capacity-scheduler": f"{_SCHEDULERS}capacity.CapacityScheduler",
    "fair-scheduler": f"{_SCHEDULERS}fair.FairScheduler",
}
_DEFAULT_SCHEDULER: Final = _SCHEDULER_OF_FORMAT["capacity-scheduler"]


_Findings = Iterator[tuple[str, str, str]]
"""Keys to warn about, each with a message and a remedy."""


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
            message = f"{key} may name something other than this file, but its value is unknown"
            message += f": {error}"
            diagnostics.warning(site.position(key), message, "write its value instead")
            return None

    for key, message, remedy in _findings(value, site, format_name, file):
        diagnostics.warning(site.position(key), message, remedy)
    return diagnostics.sorted()


def authorizer(site: Configuration) -> str:
    """Return the class that decides who may use a queue; "" if a variable hides its name."""
    try:
        stated = site.expand(AUTHORIZER, ExpansionBudget()) if AUTHORIZER in site else ""
    except VariableError:
        return ""
    return stated.strip(TRIMMED) or _OWN_AUTHORIZER


def asks_queuegate(site: Configuration) -> bool:
    """Return whether YARN asks queuegate who may use a queue."""
    return authorizer(site) == _OUR_AUTHORIZER


def _findings(
    value: Callable[[str], str | None], site: Configuration, format_name: str, file: str
) -> _Findings:
    authorizer = (value(AUTHORIZER) or "").strip(TRIMMED) or _OWN_AUTHORIZER
    if authorizer not in (_OWN_AUTHORIZER, _OUR_AUTHORIZER):
        message = f"{AUTHORIZER} is {quoted(authorizer)}: it decides alone or before the ACLs"
        yield AUTHORIZER, message, "compare its policies with the queues' ACLs"
    provider = (value(PROVIDER) or "").strip(TRIMMED) or _LOCAL_FILES
    if provider != _LOCAL_FILES:
        message = f"{PROVIDER} is {quoted(provider)}: the ResourceManager reads"
        message += " files from elsewhere"
        yield PROVIDER, message, "serve copies of the files that it reads"
    yield from _scheduler(value(SCHEDULER), format_name, is_set=SCHEDULER in site)
    if format_name != "fair-scheduler":
        yield from _store(value(STORE))
    elif (path := value(ALLOCATIONS)) and _are_other_files(path, file):
        message = f"{ALLOCATIONS} is {quoted(path)}, and this file is {quoted(file)}"
        yield ALLOCATIONS, message, "serve that file, or a copy with its name"


def _are_other_files(path: str, file: str) -> bool:
    """Return whether `file` has a different file name from `path`.

    Folders are ignored because `file` may be a copy. Returns False for sent or pasted text, which
    has no file name.
    """
    name = PurePath(file)
    return name.suffix == ".xml" and PurePath(path).name != name.name


def _scheduler(stated: str | None, format_name: str, *, is_set: bool) -> _Findings:
    expected = _SCHEDULER_OF_FORMAT.get(format_name)
    if stated is None and is_set:
        return  # The value is unknown. This has already been reported.
    scheduler = stated if stated is not None else _DEFAULT_SCHEDULER
    if expected is None:
        if scheduler not in _SCHEDULER_OF_FORMAT.values():
            message = f"{SCHEDULER} is {quoted(scheduler)}, neither the capacity scheduler"
            message += " nor the fair scheduler: their files may have no effect"
            yield SCHEDULER, message, "check which file this scheduler reads"
    elif scheduler != expected:
        message = f"{SCHEDULER} is {quoted(scheduler)}"
        if stated is None:
            message = f"{SCHEDULER} is not set and defaults to the capacity scheduler"
        message += f": the given {format_name}.xml may have no effect"
        yield SCHEDULER, message, f"set it to {expected}, or serve that scheduler's file"


def _store(stated: str | None) -> _Findings:
    if stated is None or stated == _FILE_STORE:
        return
    effect = "after its first start the ResourceManager reads the queues from that store, not from"
    effect += " capacity-scheduler.xml"
    if stated == _MEMORY_STORE:
        effect = "changes to queues through its API are not in this file"
    remedy = "serve what its API returns at /ws/v1/cluster/scheduler-conf, or set it to file"
    if stated not in _STORES:
        effect = f"the ResourceManager starts only with {', '.join(_STORES)}, in lower case"
        remedy = "write one of these names, without white space"
    yield STORE, f"{STORE} is {quoted(stated)}: {effect}", remedy
