"""Lint rules for the files of YARN's schedulers: what is valid, but probably not meant."""

from queuegate.policy.names import ROOT
from queuegate.policy.yarn_acl import Semantics, parse_yarn
from queuegate_server.formats.diagnostics import Diagnostic, Diagnostics
from queuegate_server.formats.yarn.load import ambiguity, read_scheduler_file, read_site
from queuegate_server.formats.yarn.model import SchedulerFile, YarnOptions


def lint_scheduler(
    format_name: str, data: bytes, file: str, semantics: Semantics
) -> tuple[Diagnostic, ...]:
    """Return the warnings about a scheduler's file, sorted; none if it cannot be read."""
    scheduler = read_scheduler_file(format_name, data, Diagnostics(file))
    if scheduler is None:
        return ()
    diagnostics = Diagnostics(file)
    _open_root(scheduler, diagnostics)
    for queue in scheduler.queues:
        for text in (queue.submit, queue.admin):
            if text and (found := ambiguity(text.text, semantics)):
                diagnostics.warning(text, found.message, found.remedy, queue.path)
    return diagnostics.sorted()


def lint_site(options: YarnOptions) -> tuple[Diagnostic, ...]:
    """Return the warnings about `yarn.admin.acl` in a yarn-site.xml; none without one."""
    site, _ = read_site(options)
    if options.site is None or site.admins_position is None:
        return ()
    diagnostics = Diagnostics(options.site[1])
    if found := ambiguity(site.admins_position.text, options.semantics(options.partition)):
        diagnostics.warning(site.admins_position, found.message, found.remedy)
    return diagnostics.sorted()


def _open_root(scheduler: SchedulerFile, diagnostics: Diagnostics) -> None:
    """Warn about a root that grants everybody access to it and to every queue below it."""
    root = scheduler.queues[0]
    for name, text, effect in (
        (scheduler.submit_name, root.submit, "submit to"),
        (scheduler.admin_name, root.admin, "administer, and so submit to,"),
    ):
        if text is None:
            message = f"root has no {name}: in Hadoop it is then *, and everybody may {effect}"
            message += " every queue, whatever the other ACLs say"
            remedy = "set both ACLs of root; a single space grants access to nobody"
            diagnostics.warning(root.position, message, remedy, ROOT)
        elif parse_yarn(text.text, Semantics.HADOOP).allows_all and len(scheduler.queues) > 1:
            message = f"everybody may {effect} every queue: queues inherit what root grants"
            remedy = "write a single space here, and grant access to the queues below"
            diagnostics.warning(text, message, remedy, ROOT)
