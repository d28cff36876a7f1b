"""The options common to all `queuegate` commands, and the client that they configure."""

import contextlib
import shlex
import stat
import sys
import time
from collections.abc import Collection, Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from queuegate._types import Check, Decision
from queuegate.cli.output import FORMATS
from queuegate.cli.suggestions import MissingQueue, missing_queue_line, queue_hints
from queuegate.cli.terminal import Colors, colors_for, escape
from queuegate.exceptions import GroupsUnavailable
from queuegate.policy.names import DEFAULT_PARTITION, is_like_queue_path

if TYPE_CHECKING:
    from queuegate._client import Client
    from queuegate.cli.offline import OfflineClient

TIMEOUT: Final = 1.0
"""The default time limit for a call to a server, in seconds."""
_SERVER: Final = ("address", "tls_ca", "tls_cert", "tls_key", "tls_server_name", "token_file")
COMMON: Final = frozenset({"output", "timeout", *_SERVER})
"""The options common to all commands."""
_FILES: Final = ("policy", "config")
"""Options that select local files instead of a server."""
_READING: Final = ("acl_names", "semantics", "yarn_site")
"""Options that affect how the file given with `--policy` is read."""


@dataclass(frozen=True, slots=True)
class Invocation:
    """The options common to all commands: the output format, and the server or local files to
    use.
    """

    address: str | None = None
    timeout: float | None = None
    output: str | None = None
    tls_ca: str | None = None
    tls_cert: str | None = None
    tls_key: str | None = None
    tls_server_name: str | None = None
    token_file: str | None = None
    policy: str | None = None
    config: str | None = None
    acl_names: str | None = None
    semantics: str | None = None
    yarn_site: str | None = None
    resolved_group: tuple[str, ...] | None = None
    of_partition: str = DEFAULT_PARTITION
    """The partition named in requests."""

    @property
    def is_offline(self) -> bool:
        """Whether to use local files instead of a server."""
        return self.policy is not None or self.config is not None

    def faults(self, groups: Collection[str] | None) -> Iterator[str]:
        """Yield error messages for empty or conflicting options.

        Args:
            groups: The values of `--group`; empty for `--no-groups`, None if neither option is
                used.
        """
        # Reject empty values, since they usually come from unset variables in scripts.
        if empty := self._select(*COMMON, *_FILES, *_READING, value=""):
            yield f"{_options(empty)} must not be empty"
        files, server, reading = (
            self._select(*_FILES),
            self._select(*_SERVER),
            self._select(*_READING),
        )
        if files and server:
            options = _options(files)
            yield f"{_options(server)}: not allowed with {options}, which involves no server"
        if reading and self.config is not None:
            yield f"{_options(reading)}: not allowed with --config: change that file instead"
        elif reading and self.policy is None:
            yield f"{_options(reading)}: only allowed with --policy"
        if standard_input := self._select(*_FILES, "yarn_site", *_SERVER[1:], value="-"):
            yield f"{_options(standard_input)}: must be a file, not standard input (-)"
        if (self.tls_cert is None) != (self.tls_key is None):
            yield "--tls-cert and --tls-key must be given together"
        if self.resolved_group and not files:
            message = "only with --policy or --config; a server uses its own resolver"
            yield f"--resolved-group: {message}"
        elif self.resolved_group and groups is not None:
            other = "--group" if groups else "--no-groups"
            message = f"not allowed with {other}, which replaces the resolver's groups"
            yield f"--resolved-group: {message}"

    def _select(self, *names: str, value: str | None = None) -> list[str]:
        """Return the names of the options that are set. If `value` is given, only include options
        set to that value.
        """
        given = [(name, getattr(self, name)) for name in names]
        return [name for name, own in given if own is not None and value in {None, own}]

    @property
    def colors(self) -> Colors:
        """Colors for standard output, disabled if it is not a terminal."""
        return colors_for(sys.stdout)

    @property
    def _is_text(self) -> bool:
        return self.output in {None, FORMATS[0]}

    def client(self) -> "Client | OfflineClient":
        """Return a client for the server or, if local files are given, a client that uses them.

        Raises:
            ValueError: An option is invalid.
            OSError: A file cannot be read.
            RequestRejected: A local file is invalid, or the server's code is not installed.
        """
        if self.is_offline:
            from queuegate.cli.offline_files import LocalFiles, offline_client  # noqa: PLC0415

            local_files = LocalFiles(
                self.policy,
                self.config,
                self.yarn_site,
                self.acl_names,
                self.semantics,
                self.of_partition,
                self.resolved_group,
            )
            return offline_client(local_files, self.timeout)
        # Import gRPC only here, because importing it earlier would delay --help and usage errors.
        from queuegate._client import Client  # noqa: PLC0415
        from queuegate._settings import Tls  # noqa: PLC0415

        if self.token_file is not None and (warning := exposed_secret(self.token_file)):
            sys.stderr.write(f"warning: --token-file {escape(warning)}\n")
        files = (self.tls_ca, self.tls_cert, self.tls_key, self.tls_server_name)
        tls = Tls(*files) if any(file is not None for file in files) else None
        return Client(
            self.address, timeout=self.timeout or TIMEOUT, tls=tls, token_file=self.token_file
        )

    @contextlib.contextmanager
    def with_queue_hint(
        self,
        client: "Client | OfflineClient",
        user: str,
        queue: str,
        partition: str,
        *,
        user_first: bool = False,
    ) -> Iterator[None]:
        """Improve the message of GroupsUnavailable if the queue does not exist or the user may be a
        queue: say what to correct instead of asking for groups.

        Does so only without a server, because a server would record the additional check as a
        decision.

        Args:
            client: The client.
            user: The user.
            queue: The queue; empty if none is given.
            partition: The queue's partition.
            user_first: Whether the command's arguments are USER and QUEUE.
        """
        try:
            yield
        except GroupsUnavailable as error:
            if not (self.is_offline and self._is_text):
                raise
            hint = f"{user} looks like a queue, not a user" if is_like_queue_path(user) else ""
            is_wrong = bool(hint)
            if queue:
                # Groups do not affect whether a queue exists.
                asked = Check(user, queue, partition, groups=())
                answer = client.check(**asdict(asked))
                missing = queue_hints(client, asked, answer.evaluated_queue)
                if answer.evaluated_queue:
                    hint = missing_queue_line(queue, "", missing, user if user_first else "")
                hint = missing.ambiguity or hint
                is_wrong = is_wrong or missing != MissingQueue()
            if not hint:
                raise
            # Unless the hint points to a mistake, YARN may create the queue on submission.
            message = hint if is_wrong else f"{hint}\n{error.message}"
            raise GroupsUnavailable(message, code=error.code, reason=error.reason) from None

    def time_for_hints(self, started: float) -> float:
        """Return how many seconds are left for a second call, whose answer is only a hint.

        It is 0 unless the output is text, because other formats have no hints. `started` is the
        value of `time.monotonic` when the first call started; both calls share the time limit.
        """
        left = (self.timeout or TIMEOUT) - (time.monotonic() - started)
        return max(0.0, left) if self._is_text else 0.0

    def missing_queue_hints(
        self,
        client: "Client | OfflineClient",
        asked: Check,
        answer: Decision,
        started: float,
    ) -> MissingQueue:
        """Return hints about a missing or ambiguous queue, if there is time for a second call.

        If the caller lacks the role for that call, there are no hints.
        """
        left = self.time_for_hints(started)
        is_explained = answer.allowed and not answer.evaluated_queue
        if is_explained or not left:
            return MissingQueue()
        return queue_hints(client, asked, answer.evaluated_queue, left)


def exposed_secret(file: str) -> str:
    """Return a warning if other users on this machine can read a file; otherwise ""."""
    try:
        mode = Path(file).stat().st_mode
    except OSError:
        return ""  # reading the file will report the error
    if not mode & (stat.S_IRGRP | stat.S_IROTH):
        return ""
    return f"{file}: other users can read it; run: chmod 600 {shlex.quote(file)}"


def _options(names: Iterable[str]) -> str:
    return ", ".join(f"--{name.replace('_', '-')}" for name in names)
