"""From what a scheduler's file states to a partition."""

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Final, NamedTuple

from queuegate.policy.acl import EMPTY, WILDCARD, Acl
from queuegate.policy.names import ROOT
from queuegate.policy.queue import QueueAcls
from queuegate.policy.tree import Cluster, Partition, build_partition
from queuegate.policy.yarn_acl import Semantics, parse_yarn
from queuegate_server.formats.diagnostics import (
    Diagnostic,
    Diagnostics,
    TooManyErrors,
    has_errors,
    quoted,
)
from queuegate_server.formats.yarn import capacity_scheduler, fair_scheduler
from queuegate_server.formats.yarn.doubt import Doubt, doubt
from queuegate_server.formats.yarn.model import Stated, Text, YarnOptions
from queuegate_server.formats.yarn.site import read_site

State = Callable[[bytes, str, Diagnostics], Stated | None]

STATES: Final[Mapping[str, State]] = {
    "fair-scheduler": fair_scheduler.state,
    "capacity-scheduler": capacity_scheduler.state,
}
"""By the name of the format: what reads the file of a scheduler."""

NOBODY: Final = " "
_SHOWN_NAMES: Final = 10


class Read(NamedTuple):
    """What a scheduler's file and those beside it say."""

    stated: Stated
    partition: Partition


def load(
    state: State, data: bytes, file: str, options: YarnOptions
) -> tuple[Mapping[str, Partition], tuple[Diagnostic, ...]]:
    """Return the partition by its name, and all diagnostics; no partition if one is an error."""
    found, diagnostics = read(state, data, file, options)
    return {found.partition.name: found.partition} if found else {}, diagnostics


def read(
    state: State, data: bytes, file: str, options: YarnOptions
) -> tuple[Read | None, tuple[Diagnostic, ...]]:
    """Return the queues as stated and as a partition, None if a diagnostic is an error; and all
    diagnostics.
    """
    diagnostics = Diagnostics(file)
    stated = read_stated(state, data, file, diagnostics)
    site, of_site = read_site(options)
    if stated is None or diagnostics.error_count or has_errors(of_site):
        return None, (*diagnostics.sorted(), *of_site)
    semantics = options.semantics(options.partition)
    admins = parse_yarn(site.admins, semantics)
    if options.daemon_user and not admins.allows_all:
        admins = replace(admins, users=admins.users | {options.daemon_user})
    cluster = Cluster(
        semantics,
        admins,
        site.acls_enabled,
        stated.checks_submission_always,
        stated.has_short_names,
    )
    reader = AclReader(semantics, diagnostics)
    queues = [
        QueueAcls(
            queue.path, reader.read(queue.submit, queue.path), reader.read(queue.admin, queue.path)
        )
        for queue in stated.queues
    ]
    partition = build_partition(options.partition, "", queues, cluster)
    return Read(stated, partition), (*diagnostics.sorted(), *of_site)


def read_stated(state: State, data: bytes, file: str, diagnostics: Diagnostics) -> Stated | None:
    """Return what a file states; None if it is unusable or has more errors than are kept."""
    with suppress(TooManyErrors):
        return state(data, file, diagnostics)
    return None


class AclReader:
    """Parses ACLs and applies defaults. Equal texts share one ACL."""

    def __init__(self, semantics: Semantics, diagnostics: Diagnostics) -> None:
        """Take whose rules hold, and where to report to."""
        self._semantics = semantics
        self._diagnostics = diagnostics
        self._read: dict[str, Acl] = {NOBODY: replace(EMPTY, text=NOBODY)}

    def read(self, text: Text | None, path: str) -> Acl:
        """Return an ACL of a queue. One that is not set lets nobody in, except that in
        Hadoop each one of the root lets everybody in.
        """
        if text is None:
            open_root = path == ROOT and self._semantics is Semantics.HADOOP
            return self._parse(WILDCARD if open_root else NOBODY)
        acl = self._parse(text.text)
        ignored = (*acl.dropped_users, *acl.dropped_groups)
        if not ignored:
            return acl
        # In the words of the linter where it says something, so that nothing is said twice.
        told = doubt(text.text, self._semantics)
        if told is None:
            names = ", ".join(quoted(name) for name in ignored[:_SHOWN_NAMES])
            message = f"ignored in this ACL, as documented: {names}"
            message += ", …" if len(ignored) > _SHOWN_NAMES else ""
            told = Doubt(message, "write names that can be those of users and groups")
        self._diagnostics.warning(text, told.message, told.remedy, path)
        return acl

    def _parse(self, text: str) -> Acl:
        acl = self._read.get(text)
        if acl is None:
            acl = self._read[text] = parse_yarn(text, self._semantics)
        return acl
