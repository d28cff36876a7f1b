"""Builds a partition from a YARN cluster's files: the scheduler's file and yarn-site.xml."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import Final, NamedTuple

from queuegate.policy.acl import WILDCARD, Acl
from queuegate.policy.names import DEFAULT_PARTITION, ROOT, parent_path
from queuegate.policy.queue import QueueAcls
from queuegate.policy.tree import Partition, build_partition
from queuegate.policy.yarn_acl import Cluster, Semantics, parse_yarn, yarn_grammar
from queuegate_server.formats.diagnostics import Diagnostic, Diagnostics, has_errors, quoted
from queuegate_server.formats.findings.table import finding
from queuegate_server.formats.yarn.acl_advice import advice
from queuegate_server.formats.yarn.overrides import asks_queuegate, overriding_settings
from queuegate_server.formats.yarn.scheduler_file import QueueEntry, SchedulerFile
from queuegate_server.formats.yarn.schedulers import SCHEDULERS
from queuegate_server.formats.yarn.site import NOBODY, read_site
from queuegate_server.formats.yarn.variables import LocatedText

_MAX_SHOWN_NAMES: Final = 10


@dataclass(frozen=True, slots=True)
class YarnOptions:
    """Options for reading a cluster's files."""

    partition: str = DEFAULT_PARTITION
    """The name of the partition for the cluster's queues."""
    semantics: Semantics = Semantics.DOCUMENTED
    site: tuple[bytes, str] | None = None
    """The contents and name of `yarn-site.xml`. Without this file, ACLs are enforced and nobody
    administers the cluster."""
    daemon_user: str = ""
    """The user that the ResourceManager runs as. This user is always an administrator."""
    known_names: frozenset[str] = frozenset()
    """Names of existing users and groups, which are not suspicious."""


class LoadedScheduler(NamedTuple):
    """A scheduler's file, and the partition built from this file and yarn-site.xml."""

    file: SchedulerFile
    partition: Partition
    cluster: Cluster


def load_scheduler(
    format_name: str, data: bytes, file: str, options: YarnOptions
) -> tuple[LoadedScheduler | None, tuple[Diagnostic, ...]]:
    """Load a cluster's files. Return the result (None if there are errors), and all diagnostics."""
    loaded, diagnostics = read_scheduler(format_name, data, file, options)
    return None if has_errors(diagnostics) else loaded, diagnostics


def read_scheduler(
    format_name: str, data: bytes, file: str, options: YarnOptions
) -> tuple[LoadedScheduler | None, tuple[Diagnostic, ...]]:
    """Load a cluster's files as far as errors permit, to look for more faults.

    Returns the result (None if the scheduler's file cannot be read at all), and all diagnostics.
    """
    diagnostics = Diagnostics(file)
    site, site_diagnostics = read_site(options.site, options.semantics, format_name)
    if options.site is not None and not has_errors(site_diagnostics):
        others = overriding_settings(site.configuration, options.site[1], format_name, file)
        site_diagnostics = (*site_diagnostics, *others)
    scheduler = None
    with diagnostics:
        scheduler = SCHEDULERS[format_name](data, diagnostics, site.configuration)
    if scheduler is None:
        return None, (*diagnostics.sorted(), *site_diagnostics)
    scheduler.lacks_properties |= has_errors(site_diagnostics)
    semantics = options.semantics
    admins = parse_yarn(site.admins, semantics)
    if options.daemon_user and not admins.allows_all:
        admins = _with_daemon(admins, options.daemon_user, semantics)
    cluster = Cluster(
        semantics,
        admins,
        site.acls_enabled,
        scheduler.checks_submission_always,
        scheduler.has_short_names,
    )
    # Identical strings are parsed into the same `Acl` object.
    read = partial(_read_acl, cache(yarn_grammar(semantics)), options, diagnostics)
    queues = [
        QueueAcls(queue.path, read(queue.submit, queue.path), read(queue.admin, queue.path))
        for queue in depth_first(scheduler.queues)
    ]
    for template in scheduler.templates.entries:
        for text in (template.submit, template.admin):
            read(text, template.path)
    creation = scheduler.templates.creation
    if asks_queuegate(site.configuration):
        _warn_of_templates(scheduler, diagnostics)
    partition = replace(
        build_partition(options.partition, "", queues, cluster, creation),
        childless_parents=frozenset(each.path for each in scheduler.queues if each.is_parent)
        - {parent_path(each.path) for each in scheduler.queues},
    )
    loaded = LoadedScheduler(scheduler, partition, cluster)
    return loaded, (*diagnostics.sorted(), *site_diagnostics)


def depth_first(queues: Iterable[QueueEntry]) -> list[QueueEntry]:
    """Return the queues in depth-first order. Siblings keep their order."""
    below: dict[str, list[QueueEntry]] = {}
    for queue in queues:
        below.setdefault(parent_path(queue.path), []).append(queue)
    ordered: list[QueueEntry] = []
    stack = below.get(parent_path(ROOT), [])[::-1]
    while stack:
        queue = stack.pop()
        ordered.append(queue)
        stack += reversed(below.get(queue.path, []))
    return ordered


def _warn_of_templates(scheduler: SchedulerFile, diagnostics: Diagnostics) -> None:
    """Warn about templates by which YARN itself grants access, whatever queuegate decides.

    Hadoop 3.4's `RMAppManager.createAndPopulateNewRMApp` accepts a submission that creates a queue
    if the authorizer or an authorizer built from the templates grants it.
    """
    creation = scheduler.templates.creation
    used = {(each.kind, each.path) for each in creation.templates} if creation else set()
    for entry in scheduler.templates.entries:
        if (entry.kind, entry.path) not in used:
            continue
        for text in filter(None, (entry.submit, entry.admin)):
            if not parse_yarn(text.text, Semantics.HADOOP).is_empty:
                diagnostics.add(text, finding("granted-by-yarn-itself"), entry.path)


def _with_daemon(admins: Acl, user: str, semantics: Semantics) -> Acl:
    """Add the daemon's user to the administrators, unless already listed.

    Also updates the ACL's text if the result can be written as text.
    """
    if user in admins.users:
        return admins
    both = admins._replace(users=admins.users | {user})
    comma = "" if admins.text.startswith(" ") else ","
    listed = parse_yarn(f"{user}{comma}{admins.text}", semantics)
    return listed if listed._replace(text=both.text) == both else both


def _read_acl(
    parse: Callable[[str], Acl],
    options: YarnOptions,
    diagnostics: Diagnostics,
    text: LocatedText | None,
    path: str,
) -> Acl:
    """Parse a queue's ACL.

    An unset ACL grants access to nobody. With Hadoop's semantics, an unset ACL of the root grants
    access to everyone.
    """
    semantics = options.semantics
    if text is None:
        return parse(WILDCARD if path == ROOT and semantics is Semantics.HADOOP else NOBODY)
    acl = parse(text.text)
    ignored = (*acl.dropped_users, *acl.dropped_groups)
    if not ignored:
        return acl
    # Prefer the linter's message, so that the two warnings are recognized as duplicates.
    fault = advice(text.text, semantics, options.known_names)
    if fault is None:
        names = ", ".join(quoted(name) for name in ignored[:_MAX_SHOWN_NAMES])
        names += ", …" if len(ignored) > _MAX_SHOWN_NAMES else ""
        fault = finding("invalid-names", names=names)
    diagnostics.add(text, fault, path)
    return acl
