"""Lint rules for the files of a YARN cluster: what is valid, but probably not meant."""

import re
from collections.abc import Iterator
from itertools import islice
from typing import Final

from queuegate.policy.names import ROOT
from queuegate.policy.yarn_acl import TRIMMED, Semantics, parse_yarn
from queuegate_server.formats.diagnostics import Diagnostic, Diagnostics
from queuegate_server.formats.suspicious_names import (
    YARN,
    Suspicion,
    is_no_list,
    spelled_in_two_cases,
    suspicious_name,
    suspicious_text,
)
from queuegate_server.formats.yarn.load import YarnOptions, ambiguity, read_scheduler_file
from queuegate_server.formats.yarn.schedulers import SchedulerFile
from queuegate_server.formats.yarn.site import read_site
from queuegate_server.formats.yarn.variables import Text

_SEPARATOR: Final = re.compile("[,\n]")
_PROXY: Final = "~"
_MAX_REPORTED: Final = 100
"""Suspicions about one ACL."""


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
    for entry in (*scheduler.queues, *scheduler.templates.entries):
        for text in (entry.submit, entry.admin):
            if text:
                _lint_acl(text, entry.path, options.semantics, diagnostics)
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
    if whole := is_no_list(text.text, YARN):
        diagnostics.warning(text, whole.message, whole.remedy, path)
        return
    if found := ambiguity(text.text, semantics):
        diagnostics.warning(text, found.message, found.remedy, path)
    for each in dict.fromkeys(islice(_suspicions(text.text), _MAX_REPORTED)):
        diagnostics.warning(text, each.message, each.remedy, path)


def _suspicions(text: str) -> Iterator[Suspicion]:
    yield from suspicious_text(text, YARN)
    yield from spelled_in_two_cases(text)
    users, _, groups = text.partition(" ")
    for kind, field in (("user", users), ("group", groups)):
        for entry in _SEPARATOR.split(field):
            if found := suspicious_name(kind, entry.strip(TRIMMED).removeprefix(_PROXY), YARN):
                yield found


def _open_root(scheduler: SchedulerFile, diagnostics: Diagnostics) -> None:
    """Warn about a root that grants everyone access to it and to every queue below it."""
    root = scheduler.queues[0]
    for name, text, effect in (
        (scheduler.submit_name, root.submit, "submit to"),
        (scheduler.admin_name, root.admin, "administer, and so submit to,"),
    ):
        if text is None:
            message = f"root has no {name}: in Hadoop it is then *, and everyone may {effect}"
            message += " every queue, whatever the other ACLs say"
            remedy = "set both ACLs of root; a single space grants access to nobody"
            diagnostics.warning(root.position, message, remedy, ROOT)
        elif parse_yarn(text.text, Semantics.HADOOP).allows_all and len(scheduler.queues) > 1:
            message = f"everyone may {effect} every queue: queues inherit what root grants"
            remedy = "write a single space here, and grant access to the queues below"
            diagnostics.warning(text, message, remedy, ROOT)
