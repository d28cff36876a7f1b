"""Policies for commands that compare or prove: loaded, with the places of their ACLs."""

import os
import shlex
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from queuegate.policy.acl import AclNames
from queuegate.policy.chain import CLUSTER
from queuegate.policy.claims import Answer
from queuegate.policy.decision import Access
from queuegate.policy.names import DEFAULT_PARTITION
from queuegate.policy.reach import Grant, SubjectKind
from queuegate.policy.tree import Partition
from queuegate.policy.worlds import Person
from queuegate.policy.yarn_acl import Semantics
from queuegate_server.cli.command import STDIN, Failure, read_or_fail
from queuegate_server.formats.acl_positions import AclKey, Place, acl_positions
from queuegate_server.formats.diagnostics import has_errors, quoted
from queuegate_server.formats.registry import YUNIKORN, FormatOptions, detect_format, load_policy
from queuegate_server.formats.yarn.load import YarnOptions
from queuegate_server.identity.registry import types
from queuegate_server.settings.load import SettingsError, load_settings
from queuegate_server.settings.model import Settings
from queuegate_server.settings.source_map import Override


@dataclass(frozen=True)
class PolicyFile:
    """A policy that was loaded."""

    name: str
    """The name of the file, in diagnostics and commands."""
    data: bytes
    format_name: str
    options: FormatOptions
    partitions: Mapping[str, Partition]
    config: str = ""
    """The settings by which it was read; empty without."""

    @property
    def is_yunikorn(self) -> bool:
        """Whether the policy is YuniKorn's, and not YARN's."""
        return self.format_name == YUNIKORN

    @cached_property
    def _positions(self) -> Mapping[AclKey, Place]:
        return acl_positions(self.format_name, self.data, self.name, self.options)

    def place(self, partition: str, grant: Grant) -> Place:
        """Return where the ACL of a grant is written; the file alone if that is not known."""
        access = grant.acl or Access.ADMIN
        return self._positions.get(AclKey(partition, grant.queue, access)) or Place(self.name)

    def command(self, partition: str, person: Person, answer: Answer) -> str:
        """Return the command that shows a decision about a person."""
        access, queue = answer.use
        words = ["queuegate", "check", "--policy", self.name]
        words += ["--config", self.config] if self.config else _reading_words(self.options)
        words += [self.user(person), queue]
        if access is not Access.SUBMIT:
            words += ["--access", str(access)]
        if partition != DEFAULT_PARTITION:
            words += ["--partition", partition]
        groups = person.groups
        if not groups and not answer.is_allowed:
            # Without any, they would be looked up.
            groups = (self._unused("no-group"),)
        for group in groups:
            words += ["--group", group]
        if person.real_user:
            words += ["--real-user", person.real_user]
        return shlex.join(words)

    def user(self, person: Person) -> str:
        """Return the name of a person; of somebody new, a name that no ACL has."""
        return person.user or self._unused("somebody")

    def _unused(self, name: str) -> str:
        while name.encode() in self.data:
            name += "-else"
        return name


def _reading_words(options: FormatOptions) -> Iterable[str]:
    """Yield the options of `queuegate check` that read a policy in the same way."""
    if options.acl_names is not AclNames.YUNIKORN:
        yield from ("--acl-names", str(options.acl_names))
    if options.yarn.semantics is not Semantics.DOCUMENTED:
        yield from ("--semantics", str(options.yarn.semantics))
    if options.yarn.site is not None:
        yield from ("--yarn-site", options.yarn.site[1])


def load(file: str, options: FormatOptions, config: Path | None = None) -> PolicyFile:
    """Return a policy.

    Args:
        file: The name of the file, `-` for standard input.
        options: How it is read.
        config: The settings that say so instead, if they are given.

    Raises:
        Failure: It cannot be read, or is not valid.
    """
    if config is not None:
        if file == STDIN:
            raise Failure("-: not allowed with --config, with which a policy must be a file")
        options = reading_options_of(settings(config, file))
    data, name = read_or_fail(file)
    format_name = detect_format(data)
    loaded = load_policy(format_name, data, name, options)
    if has_errors(loaded.diagnostics):
        raise Failure.of(f"{name}: not valid", loaded.diagnostics)
    return PolicyFile(
        name, data, format_name, options, loaded.partitions, str(config) if config else ""
    )


def settings(config: Path, policy: str) -> Settings:
    """Return the settings of a server that serves a policy. Raises Failure."""
    try:
        return load_settings(config, os.environ, [Override(policy, ("policy", "path"), policy)])
    except SettingsError as error:
        raise Failure.of(f"{config}: not valid", error.diagnostics) from None


def reading_options_of(found: Settings) -> FormatOptions:
    """Return how a server with these settings reads its policy. Raises Failure."""
    source = found.sources[0]
    return FormatOptions(
        acl_names=lambda name: found.partition(name).acl_names,
        resolver_types=types(),
        yarn=YarnOptions(
            source.partition,
            found.partition(source.partition).semantics,
            read_or_fail(source.yarn_site) if source.yarn_site else None,
            source.daemon_user,
        ),
    )


def in_words(grant: Grant) -> str:
    """Return a grant for people."""
    if grant.acl is None:
        return "the cluster does not enforce ACLs"
    where = f"the {grant.acl} ACL of {grant.queue}"
    if grant.queue == CLUSTER:
        where = "the list of the cluster's administrators"
    if grant.kind is SubjectKind.EVERYBODY:
        return f"{where} lets everybody in"
    return f"{where} lists the {grant.kind} {quoted(grant.name)}"
