"""Lint rules for the files of a YARN cluster: content that is valid but probably unintended."""

from queuegate.policy.names import ROOT
from queuegate.policy.yarn_acl import Semantics, parse_yarn
from queuegate_server.formats.diagnostics import Diagnostic, Diagnostics
from queuegate_server.formats.yarn.acl_advice import advice
from queuegate_server.formats.yarn.load import YarnOptions, read_scheduler_file
from queuegate_server.formats.yarn.schedulers import SchedulerFile
from queuegate_server.formats.yarn.site import read_site
from queuegate_server.formats.yarn.variables import Text


def lint_scheduler(
    format_name: str, data: bytes, file: str, options: YarnOptions
) -> tuple[Diagnostic, ...]:
    """Return the warnings about a scheduler's file, sorted; none if it cannot be read."""
    site, _ = read_site(options.site, options.semantics)
    scheduler = read_scheduler_file(format_name, data, Diagnostics(file), site.configuration)
    if scheduler is None:
        return ()
    diagnostics = Diagnostics(file)
    _open_root(scheduler, diagnostics)
    acls = [(each.path, (each.submit, each.admin)) for each in scheduler.queues]
    acls += [(each.path, (each.submit, each.admin)) for each in scheduler.templates.entries]
    for path, texts in acls:
        for text in filter(None, texts):
            _lint_acl(text, path, options.semantics, diagnostics)
    return diagnostics.sorted()


def lint_site(options: YarnOptions) -> tuple[Diagnostic, ...]:
    """Return the warnings about `yarn.admin.acl` in a yarn-site.xml; none without one."""
    site, _ = read_site(options.site, options.semantics)
    if options.site is None or site.admins_position is None:
        return ()
    diagnostics = Diagnostics(options.site[1])
    _lint_acl(site.admins_position, "", options.semantics, diagnostics)
    return diagnostics.sorted()


def _lint_acl(text: Text, path: str, semantics: Semantics, diagnostics: Diagnostics) -> None:
    if fault := advice(text.text, semantics):
        diagnostics.warning(text, fault.message, fault.remedy, path)


def _open_root(scheduler: SchedulerFile, diagnostics: Diagnostics) -> None:
    """Warn about a root that grants everyone access to itself and to every queue below it."""
    root = scheduler.queues[0]
    for name, text, effect in (
        (scheduler.submit_name, root.submit, "submit to"),
        (scheduler.admin_name, root.admin, "administer, and so submit to,"),
    ):
        if text is None:
            message = f"root has no {name}: in Hadoop it defaults to *, so everyone may {effect}"
            message += " every queue, whatever the other ACLs say"
            remedy = "set both ACLs of root; a single space grants access to nobody"
            diagnostics.warning(root.position, message, remedy, ROOT)
        elif parse_yarn(text.text, Semantics.HADOOP).allows_all and len(scheduler.queues) > 1:
            message = f"everyone may {effect} every queue: queues inherit what root grants"
            remedy = "write a single space here, and grant access to the queues below"
            diagnostics.warning(text, message, remedy, ROOT)
