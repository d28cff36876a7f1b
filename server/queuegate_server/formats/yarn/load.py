"""From what a scheduler's file states to a partition."""

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Final

from queuegate_server.formats.findings import Findings, TooManyErrors
from queuegate_server.formats.problems import Problem, has_errors
from queuegate_server.formats.yarn import capacity_scheduler, fair_scheduler
from queuegate_server.formats.yarn.model import Stated, Text, YarnOptions
from queuegate_server.formats.yarn.site import read_site
from queuegate_server.policy.acl import EMPTY, WILDCARD, Acl
from queuegate_server.policy.names import ROOT
from queuegate_server.policy.tree import Cluster, Partition, QueueAcls, build_partition
from queuegate_server.policy.yarn_acl import Semantics, parse_yarn

State = Callable[[bytes, str, Findings], Stated | None]

STATES: Final[Mapping[str, State]] = {
    "fair-scheduler": fair_scheduler.state,
    "capacity-scheduler": capacity_scheduler.state,
}
"""By the name of the format: what reads the file of a scheduler."""

NOBODY: Final = " "


def load(
    state: State, data: bytes, file: str, options: YarnOptions
) -> tuple[Mapping[str, Partition], tuple[Problem, ...]]:
    """Return the partition by its name, and all findings; no partition if one is an error."""
    findings = Findings(file)
    stated = read_stated(state, data, file, findings)
    site, problems = read_site(options)
    found = (*findings.in_order(), *problems)
    if stated is None or has_errors(found):
        return {}, found
    semantics = options.semantics(options.partition)
    admins = parse_yarn(site.admins, semantics)
    if options.daemon_user and not admins.allows_all:
        admins = replace(admins, users=admins.users | {options.daemon_user})
    cluster = Cluster(semantics, admins, site.acls_enabled, stated.checks_submission_always)
    read = AclReader(semantics).read
    queues = [
        QueueAcls(queue.path, read(queue.submit, queue.path), read(queue.admin, queue.path))
        for queue in stated.queues
    ]
    return {options.partition: build_partition(options.partition, "", queues, cluster)}, found


def read_stated(state: State, data: bytes, file: str, findings: Findings) -> Stated | None:
    """Return what a file states; None if it is unusable or has more errors than are kept."""
    with suppress(TooManyErrors):
        return state(data, file, findings)
    return None


class AclReader:
    """Parses ACLs and applies defaults. Equal texts share one ACL."""

    def __init__(self, semantics: Semantics) -> None:
        """Take whose rules hold."""
        self._semantics = semantics
        self._read: dict[str, Acl] = {NOBODY: replace(EMPTY, text=NOBODY)}

    def read(self, text: Text | None, path: str) -> Acl:
        """Return an ACL of a queue. One that is not set lets nobody in, except that in
        Hadoop each one of the root lets everybody in.
        """
        if text is None:
            open_root = path == ROOT and self._semantics is Semantics.HADOOP
            return self._parse(WILDCARD if open_root else NOBODY)
        return self._parse(text.text)

    def _parse(self, text: str) -> Acl:
        acl = self._read.get(text)
        if acl is None:
            acl = self._read[text] = parse_yarn(text, self._semantics)
        return acl
