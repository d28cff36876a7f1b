"""Creates a client that decides from local files, as commands with --policy or --config do."""

# ruff: noqa: PLC0415 - the server's code is imported on first use

import logging
import os
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from queuegate.cli.offline import OfflineClient, StaticDirectory
from queuegate.cli.problems import INVALID_CONFIGURATION
from queuegate.cli.terminal import escape
from queuegate.exceptions import RequestRejected, ServerUnavailable
from queuegate.policy.names import partition_name

if TYPE_CHECKING:
    from queuegate_server.server.offline import Substitute
    from queuegate_server.settings.model import Settings
    from queuegate_server.settings.source_map import Override

_ASK_NOBODY: Final = frozenset({"none", "test"})
"""The types of resolvers whose results do not depend on the machine."""
_NO_GROUPS: Final = (
    "the decision depends on the user's groups: pass them with --group, or the server's"
    " settings with --config"
)


@dataclass(frozen=True, slots=True)
class LocalFiles:
    """The files from which a command decides, and the options for reading them."""

    policy: str | None
    """The scheduler's file, or None for the file named in the settings."""
    config: str | None = None
    """The server's settings file, or None to use the default settings without querying a directory.
    """
    yarn_site: str | None = None
    acl_names: str | None = None
    """The names allowed in the partition's ACLs."""
    semantics: str | None = None
    """The semantics of YARN's ACLs in the partition."""
    partition: str = ""
    """The partition that the command names. If empty, the policy's only partition."""
    given_groups: Sequence[str] | None = None
    """The groups to use for every user, or None to query the resolvers."""

    @property
    def has_partition_options(self) -> bool:
        """Whether an option applies to the partition."""
        return self.acl_names is not None or self.semantics is not None

    def settings(self, partition: str | None) -> "Settings":
        """Load the server's settings, overridden by the options. Raises SettingsError.

        `partition` is the partition to which the partition options apply; if None, they are not
        used.
        """
        from queuegate_server.settings.load import load_settings

        options = [*self._overrides(partition)]
        if self.config is None:
            return load_settings(options=options)
        return load_settings(Path(self.config), os.environ, options)

    def _overrides(self, partition: str | None) -> "Iterator[Override]":
        from queuegate_server.settings.source_map import Override

        if self.policy is not None:
            yield Override("--policy", ("policy", "path"), self.policy)
        if partition is not None and self.acl_names is not None:
            yield Override("--acl-names", ("partitions", partition, "acl_names"), self.acl_names)
        if partition is not None and self.semantics is not None:
            yield Override("--semantics", ("partitions", partition, "semantics"), self.semantics)
        if self.yarn_site is not None:
            yield Override("--yarn-site", ("policy", "yarn_site"), self.yarn_site)

    def substitute(self) -> "Substitute":
        """Return the substitute for the resolvers: the given groups or, with a settings file, none.

        Without a settings file, resolvers whose results depend on the machine are not queried,
        because the server may run on a different machine.
        """
        from queuegate_server.identity.resolver import KnownUser, LookupFailure

        if self.given_groups is not None:
            user = KnownUser(tuple(self.given_groups))
            given = StaticDirectory(lambda _: user)
            return lambda _: given
        if self.config is not None:
            return lambda _: None
        unknown = StaticDirectory(lambda _: LookupFailure(_NO_GROUPS))
        return lambda kind: None if kind in _ASK_NOBODY else unknown


def offline_client(files: LocalFiles, timeout: float | None) -> OfflineClient:
    """Return a client that bases its decisions on local files.

    Args:
        files: The files, and the options for reading them.
        timeout: The time limit for a call, in seconds.

    Raises:
        RequestRejected: The server's code is not installed, or a file is invalid.
        ServerUnavailable: The API server whose RBAC is the policy cannot be queried.
    """
    # Silence the server's log, except for failed lookups. The command reports everything else
    # itself.
    logging.getLogger("queuegate_server").setLevel(logging.ERROR)
    if files.config is not None:
        lookups = logging.getLogger("queuegate_server.identity")
        lookups.setLevel(logging.WARNING)
        lookups.handlers = [_StderrHandler()]
    try:
        from queuegate_server.server.offline import CannotReadCluster
        from queuegate_server.server.startup import CannotServe
        from queuegate_server.settings.load import SettingsError
    except ModuleNotFoundError as error:
        if (error.name or "queuegate").startswith("queuegate."):
            raise
        message = f"deciding without a server needs the server's code ({error.name} is missing)"
        raise RequestRejected(f"{message}: pip install 'queuegate[server]'") from None
    try:
        client = _load(files, timeout)
    except (SettingsError, CannotServe) as error:
        raise RequestRejected(str(error), reason=INVALID_CONFIGURATION) from None
    except CannotReadCluster as error:
        raise ServerUnavailable(str(error)) from None
    if not client.snapshot.served:  # each call will fail, and a warning says why
        sys.stderr.writelines(f"{escape(str(each))}\n" for each in client.snapshot.warnings)
    return client


def _load(files: LocalFiles, timeout: float | None) -> OfflineClient:
    """Load the files, even if the policy lacks the partition to which the options apply.

    If the command does not name a partition, the options apply to the policy's only partition. Its
    name is known only once the policy has been loaded, so the policy is loaded without the options
    first, and then again with them. If the command names a partition that does not exist, the
    client's calls say so.

    Raises SettingsError or CannotServe.
    """
    from queuegate_server.engine import UnknownPartition
    from queuegate_server.server.startup import CannotServe

    try:
        return _create(files, timeout, partition_name(files.partition))
    except CannotServe as error:
        if not files.has_partition_options:
            raise
        fault = error
    try:
        client = _create(files, timeout, None)
    except CannotServe:
        raise fault from None
    names = [*client.snapshot.served]
    name = names[0] if not files.partition and len(names) == 1 else files.partition
    try:
        found = client.snapshot.find(name).partition.name
    except UnknownPartition:
        return client
    with client:
        return _create(files, timeout, found)


def _create(files: LocalFiles, timeout: float | None, partition: str | None) -> OfflineClient:
    message = _NO_GROUPS if files.config is None else ""
    settings = files.settings(partition)
    return OfflineClient(settings, files.substitute(), timeout, without_groups=message)


class _StderrHandler(logging.Handler):
    """Prints log records, escaped, to standard error."""

    def emit(self, record: logging.LogRecord) -> None:
        for line in self.format(record).split("\n"):
            sys.stderr.write(f"{escape(line)}\n")
