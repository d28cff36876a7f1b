"""Reads queues from capacity-scheduler.xml, merged with yarn-site.xml."""

from collections import Counter
from collections.abc import Mapping
from typing import Final

from queuegate.policy.created_queues import QueueCreation
from queuegate.policy.names import ROOT, SEPARATOR, parent_path
from queuegate_server.formats.diagnostics import Diagnostics, Position, Positioned, quoted
from queuegate_server.formats.findings.table import finding, phrase
from queuegate_server.formats.suspicious_names import intended_key
from queuegate_server.formats.yarn import overrides
from queuegate_server.formats.yarn.list_entries import ListReader
from queuegate_server.formats.yarn.properties import Configuration
from queuegate_server.formats.yarn.scheduler_file import QueueEntry, SchedulerFile
from queuegate_server.formats.yarn.site import ADMINS, ENABLE
from queuegate_server.formats.yarn.templates import (
    ADMIN,
    PREFIX,
    SUBMIT,
    TemplateReader,
    is_literal,
    is_template_acl,
    unlisted_acl,
)
from queuegate_server.formats.yarn.templates import is_read as creates_queues
from queuegate_server.formats.yarn.unlisted_queues import LIST, UnlistedQueues, misspelled_lists
from queuegate_server.formats.yarn.variables import VARIABLE, LocatedText

_MAX_DEPTH: Final = 200
_MAX_QUEUES: Final = 1_000_000
_NOT_OF_SITE: Final = (PREFIX, "yarn.app.mapreduce.")
_OTHER_CAPACITY_ACLS: Final = frozenset({
    "acl_application_max_priority", "acl_administer_reservations", "acl_list_reservations",
    "acl_submit_reservations",
})  # fmt: skip


def read_capacity_scheduler(
    data: bytes, diagnostics: Diagnostics, site: Configuration
) -> SchedulerFile | None:
    """Read a capacity-scheduler.xml, merged with yarn-site.xml; None for any other file."""
    configuration = site.copy()
    if not configuration.add(data, diagnostics, is_read=_is_read):
        return None
    properties = configuration.read(diagnostics, is_read=_is_read, is_literal=is_literal)
    scheduler = SchedulerFile(has_short_names=True, properties=properties)
    errors = diagnostics.error_count
    paths = _paths(properties, ListReader(data, diagnostics.file), diagnostics)
    for path, position in paths.items():
        submit, admin = (properties.get(f"{PREFIX}{path}.{acl}") for acl in (SUBMIT, ADMIN))
        scheduler.queues.append(QueueEntry(path, position, submit, admin))
    lists_errors = diagnostics.error_count
    lists = _check_lists(properties, paths, diagnostics)
    is_damaged = diagnostics.error_count > lists_errors
    scheduler.lacks_properties = configuration.is_incomplete or is_damaged
    scheduler.lacks_queues = lists_errors > errors or bool(lists)
    children = Counter(map(parent_path, paths))
    counts = {path: children[path] for path in paths}
    unlisted = UnlistedQueues(paths, lists, diagnostics)
    scheduler.templates = TemplateReader(properties, counts, unlisted, diagnostics).read()
    for queue in scheduler.queues:
        queue.is_parent = scheduler.templates.makes_parent(queue.path)
    _check_keys(properties, paths, scheduler.templates.creation, unlisted, diagnostics)
    unlisted.summarize()
    return scheduler


def _check_lists(
    properties: dict[str, LocatedText], paths: dict[str, Positioned], diagnostics: Diagnostics
) -> Mapping[str, Positioned]:
    """Report missing and misspelled `queues` properties.

    Returns their positions by queue path, including the positions of lists with an unknown
    variable.
    """
    lists: dict[str, Positioned] = {
        path: text
        for path in paths
        if (text := properties.get(f"{PREFIX}{path}.{LIST}")) and VARIABLE.search(text.text)
    }
    has_errors = diagnostics.error_count > 0
    for path, name in misspelled_lists(properties, paths, PREFIX).items():
        lists[path] = text = properties[name]
        found = "queues-misspelled" if len(paths) > 1 else "queues-of-root-misspelled"
        meant = f"{PREFIX}{path}.{LIST}"
        diagnostics.add(text, finding(found, name=quoted(name), meant=meant), path)
    if len(paths) == 1 and ROOT not in lists:
        # Hadoop requires this list, so a file without it is damaged or is a different file.
        lists[ROOT] = properties.get(f"{PREFIX}{ROOT}.{LIST}", Position(1, 1))
        is_site = _is_site(properties, diagnostics.file)
        if not has_errors:
            found = "site-as-scheduler" if is_site else "no-queues"
            diagnostics.add(lists[ROOT], finding(found, key=f"{PREFIX}{ROOT}.{LIST}"))
    return lists


def _is_site(properties: dict[str, LocatedText], file: str) -> bool:
    """Return whether a file is probably a yarn-site.xml: it has YARN properties but no queue."""
    keys = [key for key, text in properties.items() if text.file == file]
    is_site = any(key.startswith("yarn.") and not key.startswith(_NOT_OF_SITE) for key in keys)
    return is_site and not any(key.startswith(f"{PREFIX}{ROOT}.") for key in keys)


def _is_read(name: str) -> bool:
    is_listed = name.rpartition(SEPARATOR)[2] in {LIST, SUBMIT, ADMIN}
    return name.startswith(PREFIX) and (is_listed or creates_queues(name))


def _paths(
    properties: dict[str, LocatedText], lists: ListReader, diagnostics: Diagnostics
) -> dict[str, Positioned]:
    """Return the position of each queue's name, keyed by queue path, parents first."""
    paths: dict[str, Positioned] = {ROOT: Position(1, 1)}
    stack = [ROOT]
    while stack:
        above = stack.pop()
        names = properties.get(f"{PREFIX}{above}.{LIST}")
        if names is None:
            continue
        if above.count(SEPARATOR) >= _MAX_DEPTH:
            diagnostics.add(names, finding("deep-tree", most=_MAX_DEPTH))
            return paths
        if len(paths) > _MAX_QUEUES:
            diagnostics.add(names, finding("too-many-queues", most=_MAX_QUEUES))
            return paths
        children = []
        for entry in lists.entries(names):
            name = entry.text
            path = f"{above}{SEPARATOR}{name}"
            if SEPARATOR in name:
                diagnostics.add(entry, finding("dot-in-listed-name", name=quoted(name)), above)
            elif path in paths:
                diagnostics.add(entry, finding("queue-listed-twice", name=quoted(name)), path)
            else:
                paths[path] = entry
                children.append(path)
        stack += reversed(children)
    return paths


def _check_keys(
    properties: dict[str, LocatedText],
    paths: dict[str, Positioned],
    creation: QueueCreation | None,
    unlisted: UnlistedQueues,
    diagnostics: Diagnostics,
) -> None:
    """Report properties that belong in another file, and ACLs that have no effect."""
    if not _is_site(properties, diagnostics.file):
        for key in (ENABLE, ADMINS, *sorted(overrides.KEYS)):
            text = properties.get(key)
            if text is not None and text.file == diagnostics.file:
                diagnostics.add(text, finding("property-of-other-file", key=key))
    for key, text in properties.items():
        path, _, last = key.removeprefix(PREFIX).rpartition(SEPARATOR)
        is_acl = last in {SUBMIT, ADMIN}
        if not key.startswith(PREFIX):
            if is_acl and text.file == diagnostics.file:
                meant = f"{PREFIX}QUEUE.{last}"
                diagnostics.add(text, finding("acl-without-prefix", key=quoted(key), meant=meant))
        elif not is_acl:
            _check_spelling(last, path, text, diagnostics)
        elif path not in paths and not is_template_acl(key.removeprefix(PREFIX)):
            unlisted.add(text, unlisted_acl(path, last, paths, creation), path)


def _check_spelling(name: str, path: str, text: LocatedText, diagnostics: Diagnostics) -> None:
    """Report a queue's property whose name is like that of an ACL."""
    meant = intended_key(name, SUBMIT, ADMIN)
    if (meant or name.lower().startswith("acl_")) and name not in _OTHER_CAPACITY_ACLS:
        words = {"name": quoted(name), "submit": SUBMIT, "admin": ADMIN}
        remedy = phrase("did-you-mean", meant=meant) if meant else ""
        diagnostics.add(text, finding("unknown-queue-property", remedy=remedy, **words), path)
