"""Lint rules that find valid but probably unintended content in a YARN cluster's files."""

from collections.abc import Mapping

from queuegate.policy.created_queues import TemplateKind
from queuegate.policy.decision import Access
from queuegate.policy.names import ROOT, SEPARATOR, parent_path
from queuegate.policy.tree import Partition
from queuegate.policy.yarn_acl import Semantics, parse_yarn
from queuegate_server.formats.diagnostics import Diagnostic, Diagnostics, quoted
from queuegate_server.formats.findings.table import finding
from queuegate_server.formats.format_names import CAPACITY_SCHEDULER, FAIR_SCHEDULER
from queuegate_server.formats.suspicious_names import CAPACITY, YARN, suspicious_name
from queuegate_server.formats.yarn.acl_advice import advice
from queuegate_server.formats.yarn.fair_scheduler import FAIR_ACLS
from queuegate_server.formats.yarn.load import LoadedScheduler, YarnOptions, read_scheduler
from queuegate_server.formats.yarn.queue_mappings import check_mappings, mapped_groups
from queuegate_server.formats.yarn.scheduler_file import QueueEntry, SchedulerFile
from queuegate_server.formats.yarn.site import read_site
from queuegate_server.formats.yarn.templates import ADMIN, SUBMIT, TemplateEntry, template_property
from queuegate_server.formats.yarn.variables import VARIABLE, LocatedText


def lint_scheduler(
    format_name: str, data: bytes, file: str, options: YarnOptions
) -> tuple[Diagnostic, ...]:
    """Return sorted warnings about a scheduler's file, even if it has errors."""
    loaded, _ = read_scheduler(format_name, data, file, options)
    if loaded is None:
        return ()
    diagnostics = Diagnostics(file)
    scheduler = loaded.file
    _warn_of_open_root(scheduler, format_name, diagnostics)
    if not scheduler.lacks_properties:
        _warn_of_closed_creators(loaded, diagnostics)
    check_mappings(loaded, diagnostics)
    wording = CAPACITY if format_name == CAPACITY_SCHEDULER else YARN
    for queue in scheduler.queues:
        if suspicion := suspicious_name("queue", queue.path.rpartition(SEPARATOR)[2], wording):
            diagnostics.add(queue.position, suspicion.finding, queue.path)
    groups = mapped_groups(scheduler.properties)
    entries: list[QueueEntry | TemplateEntry] = [*scheduler.queues, *scheduler.templates.entries]
    for entry in entries:
        for text in filter(None, (entry.submit, entry.admin)):
            # A variable that remains in a Hadoop property has already been reported.
            if format_name == FAIR_SCHEDULER or not VARIABLE.search(text.text):
                _lint_acl(text, entry.path, options, diagnostics)
                _warn_of_groups_as_users(text, entry.path, groups, options, diagnostics)
    admins = read_site(options.site, options.semantics)[0].admin_acl
    if admins is not None and not VARIABLE.search(admins.text):
        _warn_of_groups_as_users(admins, "", groups, options, diagnostics)
    return diagnostics.sorted()


def _warn_of_groups_as_users(
    text: LocatedText,
    path: str,
    groups: Mapping[str, str],
    options: YarnOptions,
    diagnostics: Diagnostics,
) -> None:
    """Warn about users in an ACL that the file's mappings use as groups.

    Args:
        text: The ACL.
        path: The queue; empty for the cluster's administrators.
        groups: The keys of the mappings, by group.
        options: The semantics, and the names that are known to exist, for which there is better
            advice.
        diagnostics: Receives the warnings.
    """
    users = parse_yarn(text.text, options.semantics).users
    for name in sorted((users & groups.keys()) - options.known_names):
        found = finding(
            "group-in-mappings", name=quoted(name), key=groups[name], quoted=quoted(f" {name}")
        )
        diagnostics.add(text, found, path)


def lint_site(options: YarnOptions) -> tuple[Diagnostic, ...]:
    """Return warnings about `yarn.admin.acl` in yarn-site.xml, if it is set there."""
    site, _ = read_site(options.site, options.semantics)
    if options.site is None or site.admin_acl is None or VARIABLE.search(site.admins):
        return ()
    diagnostics = Diagnostics(options.site[1])
    _lint_acl(site.admin_acl, "", options, diagnostics)
    return diagnostics.sorted()


def _lint_acl(text: LocatedText, path: str, options: YarnOptions, diagnostics: Diagnostics) -> None:
    if found := advice(text.text, options.semantics, options.known_names):
        diagnostics.add(text, found, path)


def _warn_of_open_root(
    scheduler: SchedulerFile, format_name: str, diagnostics: Diagnostics
) -> None:
    """Warn if the root's ACLs grant everyone access to all queues."""
    root = scheduler.queues[0]
    submit_name, admin_name = FAIR_ACLS if format_name == FAIR_SCHEDULER else (SUBMIT, ADMIN)
    for name, text, effect in (
        (submit_name, root.submit, "submit to"),
        (admin_name, root.admin, "administer, and so submit to,"),
    ):
        if text is None:
            if scheduler.lacks_properties:
                continue
            diagnostics.add(
                root.position, finding("root-without-acl", acl=name, effect=effect), ROOT
            )
        elif parse_yarn(text.text, Semantics.HADOOP).allows_all and len(scheduler.queues) > 1:
            diagnostics.add(text, finding("root-open-to-everyone", effect=effect), ROOT)


def _warn_of_closed_creators(loaded: LoadedScheduler, diagnostics: Diagnostics) -> None:
    """Warn about queues that YARN will create but that nobody, or only administrators, may use."""
    partition, switches = loaded.partition, loaded.file.templates.switches
    open_creators = {
        parent_path(partition.created(path)[-1].path)
        for path in partition.created_below(ROOT)
        if _lets_in(partition, path)
    }
    for path, creator in partition.creation.creators.items() if partition.creation else ():
        if path in open_creators:
            continue
        kind = TemplateKind.LEAF if not creator.is_managed else TemplateKind.LEAF_OF_MANAGED
        switch = switches[path, TemplateKind.ANY if kind is TemplateKind.LEAF else kind]
        administer = [partition.queues[ROOT].admin_acl]
        if loaded.cluster.semantics is Semantics.DOCUMENTED:
            administer.append(loaded.cluster.admins)
        who = "nobody" if all(acl.is_empty for acl in administer) else "only administrators"
        key = template_property(path, kind, Access.SUBMIT)
        found = finding("queues-created-for-nobody", who=who, queue=quoted(path), property=key)
        diagnostics.add(switch, found, path)


def _lets_in(partition: Partition, path: str) -> bool:
    """Return whether an ACL other than the administrators' allows someone to submit."""
    otherwise = partition.chain(path, Access.SUBMIT).otherwise
    if otherwise is not None and otherwise.allowed:
        return True
    return any(
        not acl.is_empty
        for queue in partition.upwards(path)
        for acl in (
            queue.acls_granting(Access.SUBMIT) if queue.path != ROOT else (queue.submit_acl,)
        )
    )
