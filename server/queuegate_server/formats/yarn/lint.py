"""Doubtful things in the files of YARN's schedulers."""

from collections.abc import Callable, Iterator
from typing import Final

from queuegate.policy.names import ROOT
from queuegate.policy.yarn_acl import Semantics, parse_yarn
from queuegate_server.formats.diagnostics import Diagnostic, Diagnostics
from queuegate_server.formats.yarn.doubt import doubt
from queuegate_server.formats.yarn.load import State, read_stated
from queuegate_server.formats.yarn.model import Stated, StatedQueue, Text, YarnOptions
from queuegate_server.formats.yarn.site import read_site


def lint(state: State, data: bytes, file: str, semantics: Semantics) -> tuple[Diagnostic, ...]:
    """Return the warnings about a text, by position; none if it cannot be read."""
    stated = read_stated(state, data, file, Diagnostics(file))
    if stated is None:
        return ()
    diagnostics = Diagnostics(file)
    for rule in RULES:
        rule(stated, diagnostics, semantics)
    return diagnostics.sorted()


def lint_site(options: YarnOptions) -> tuple[Diagnostic, ...]:
    """Return the warnings about `yarn.admin.acl` in a yarn-site.xml; none without one."""
    site, _ = read_site(options)
    if options.site is None or site.position is None:
        return ()
    diagnostics = Diagnostics(options.site[1])
    of_acl = Stated("", "", checks_submission_always=False)
    of_acl.queues.append(StatedQueue("", site.position, admin=site.position))
    doubtful(of_acl, diagnostics, options.semantics(options.partition))
    return diagnostics.sorted()


def _acls(stated: Stated) -> Iterator[tuple[StatedQueue, Text]]:
    for queue in stated.queues:
        for text in (queue.submit, queue.admin):
            if text is not None:
                yield queue, text


def open_root(stated: Stated, diagnostics: Diagnostics, _: Semantics) -> None:
    """A root that lets everybody in, and with that each queue below it."""
    root = stated.queues[0]
    for name, text, effect in (
        (stated.submit_name, root.submit, "submit to"),
        (stated.admin_name, root.admin, "administer, and so submit to,"),
    ):
        if text is None:
            message = f"root has no {name}: in Hadoop it is then * and everybody may {effect}"
            message += " every queue, whatever the other ACLs say"
            remedy = "set both ACLs of root; a single space lets nobody in"
            diagnostics.warning(root.position, message, remedy, ROOT)
        elif parse_yarn(text.text, Semantics.HADOOP).allows_all and len(stated.queues) > 1:
            message = f"everybody may {effect} every queue: a queue inherits what root grants"
            diagnostics.warning(
                text, message, "write a single space, and open the queues below", ROOT
            )


def doubtful(stated: Stated, diagnostics: Diagnostics, semantics: Semantics) -> None:
    """An ACL that hardly means what its author thinks, or not the same in Hadoop."""
    for queue, text in _acls(stated):
        if told := doubt(text.text, semantics):
            diagnostics.warning(text, told.message, told.remedy, queue.path)


Rule = Callable[[Stated, Diagnostics, Semantics], None]

RULES: Final[tuple[Rule, ...]] = (open_root, doubtful)
