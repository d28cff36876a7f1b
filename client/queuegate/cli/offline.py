"""Decisions without a running server. The server's code runs in this process instead.

No other client module imports the server's code, which the `server` extra installs.
"""

# ruff: noqa: PLC0415 - the server's code is imported on first use

import asyncio
import logging
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, Self, cast

from queuegate import _errors
from queuegate._address import parse
from queuegate._calls import BlockingCalls
from queuegate._channel import ChannelPlan
from queuegate._methods.client import ClientMethods
from queuegate.cli.problems import INVALID_CONFIGURATION
from queuegate.cli.terminal import escape
from queuegate.exceptions import DeadlineExceeded, GroupsUnavailable, RequestRejected

if TYPE_CHECKING:
    import grpc

    from queuegate_server.identity.members import MemberListing
    from queuegate_server.identity.resolver import Outcome, Resolver
    from queuegate_server.server.offline import Substitute
    from queuegate_server.settings.model import Settings

_TIMEOUT: Final = 30.0
"""The time limit for a call, in seconds. Directory lookups have their own limits."""
_ASK_NOBODY: Final = frozenset({"none", "test"})
"""Resolver types whose results do not depend on the machine."""
_NO_GROUPS: Final = (
    "the decision depends on the user's groups: pass them with --group, or the server's"
    " settings with --config"
)
_NO_MEMBERS: Final = "pass the server's settings with --config"


class OfflineClient(ClientMethods):
    """A client that runs the server's code in this process instead of calling a server."""

    def __init__(
        self,
        settings: "Settings",
        substitute: "Substitute",
        timeout: float | None = None,
        *,
        without_groups: str = "",
    ) -> None:
        """Load the policy.

        Args:
            settings: The server's settings.
            substitute: Given a resolver type, returns the resolver to use instead, or None to use
                the configured resolver.
            timeout: The time limit for a call, in seconds.
            without_groups: The error message if a user's groups are required but unknown. Defaults
                to the server's.

        Raises:
            CannotServe: The policy is invalid.
        """
        channel = _InProcessChannel(settings, substitute, without_groups)
        self.snapshot: Final = channel.snapshot
        """The loaded policy."""
        plan = ChannelPlan(parse("unix:/offline"), None, [], timeout or _TIMEOUT)
        super().__init__(BlockingCalls(plan, cast("grpc.Channel", channel)))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._calls.close()


def offline_client(
    policy: str | None,
    config: str | None,
    timeout: float | None,
    policy_settings: Mapping[tuple[str, ...], str] = MappingProxyType({}),
    resolved: Sequence[str] | None = None,
    *,
    partition: str = "",
) -> OfflineClient:
    """Return a client that bases its decisions on local files.

    Args:
        policy: The scheduler's file, or None for the file named in the settings.
        config: The server's settings file, or None to use the default settings and query no
            directory.
        timeout: The time limit for a call, in seconds.
        policy_settings: Settings that affect how the policy is read, by key.
        resolved: The groups to use for every user, or None to query the resolvers.
        partition: The partition to which the `policy_settings` under `partitions` apply. If empty,
            the only partition.

    Raises:
        RequestRejected: The server's code is not installed, or a file is invalid.
    """
    # Silence the server's log, except for failed lookups. The command reports everything else
    # itself.
    logging.getLogger("queuegate_server").setLevel(logging.ERROR)
    if config is not None:
        lookups = logging.getLogger("queuegate_server.identity")
        lookups.setLevel(logging.WARNING)
        lookups.handlers = [_StderrHandler()]
    try:
        from queuegate_server.identity.resolver import KnownUser, LookupFailure
        from queuegate_server.server.startup import CannotServe
        from queuegate_server.settings.load import SettingsError
    except ModuleNotFoundError as error:
        if (error.name or "queuegate").startswith("queuegate."):
            raise
        message = f"deciding without a server needs the server's code ({error.name} is missing)"
        raise RequestRejected(f"{message}: pip install 'queuegate[server]'") from None
    no_directory = StaticDirectory(lambda _: LookupFailure(_NO_GROUPS))
    given_groups = StaticDirectory(lambda _: KnownUser(tuple(resolved or ())))

    def substitute(kind: str) -> "Resolver | None":
        if resolved is not None:
            return given_groups
        return None if config is not None or kind in _ASK_NOBODY else no_directory

    def create(policy_settings: Mapping[tuple[str, ...], str]) -> OfflineClient:
        settings = _settings(policy, config, policy_settings)
        message = _NO_GROUPS if config is None else ""
        client = OfflineClient(settings, substitute, timeout, without_groups=message)
        if not client.snapshot.served:  # each call will fail, and a warning says why
            sys.stderr.writelines(f"{escape(str(each))}\n" for each in client.snapshot.warnings)
        return client

    try:
        try:
            return create(policy_settings)
        except CannotServe as error:
            return _create_for_partition(create, policy_settings, partition, error)
    except (SettingsError, CannotServe) as error:
        raise RequestRejected(str(error), reason=INVALID_CONFIGURATION) from None


def _create_for_partition(
    create: Callable[[Mapping[tuple[str, ...], str]], OfflineClient],
    policy_settings: Mapping[tuple[str, ...], str],
    partition: str,
    fault: Exception,
) -> OfflineClient:
    """Return a client after `fault`, which an unknown partition in `policy_settings` may cause.

    If `partition` is empty, the settings apply to the only partition. Its name is in the policy, so
    the policy is loaded twice: once without partition settings to find the name, then with the
    settings under that name. If the named partition does not exist, the client's calls report it.
    Raises `fault` if it has another cause.
    """
    from queuegate_server.engine import UnknownPartition
    from queuegate_server.server.startup import CannotServe

    general = {key: value for key, value in policy_settings.items() if key[0] != "partitions"}
    if general == policy_settings:
        raise fault
    try:
        client = create(general)
    except CannotServe:
        raise fault from None
    names = [*client.snapshot.served]
    name = names[0] if not partition and len(names) == 1 else partition
    try:
        name = client.snapshot.find(name).partition.name
    except UnknownPartition:
        return client
    with client:
        return create({(*key[:1], name, *key[2:]): policy_settings[key] for key in policy_settings})


def _settings(
    policy: str | None, config: str | None, policy_settings: Mapping[tuple[str, ...], str]
) -> "Settings":
    """Load server settings, overridden by the given options. Raises SettingsError if they are
    invalid.
    """
    from queuegate_server.settings.load import load_settings
    from queuegate_server.settings.source_map import Override

    options = [] if policy is None else [Override("--policy", ("policy", "path"), policy)]
    for key, value in policy_settings.items():
        options.append(Override(f"--{key[-1].replace('_', '-')}", key, value))
    if config is None:
        return load_settings(options=options)
    return load_settings(Path(config), os.environ, options)


class _StderrHandler(logging.Handler):
    """Prints log records, escaped, to standard error."""

    def emit(self, record: logging.LogRecord) -> None:
        for line in self.format(record).split("\n"):
            sys.stderr.write(f"{escape(line)}\n")


class StaticDirectory:
    """A resolver that calls a function instead of querying a directory."""

    is_local = True

    def __init__(self, outcome_of: "Callable[[str], Outcome]") -> None:
        """Create a resolver whose outcome for each user is `outcome_of(user)`."""
        self._outcome_of = outcome_of

    async def open(self) -> None:
        """Do nothing."""

    async def close(self) -> None:
        """Do nothing."""

    async def resolve(self, user: str) -> "Outcome":
        """Return the outcome for a user."""
        return self._outcome_of(user)

    async def members(self, listing: "MemberListing") -> None:
        """Report that group members are unknown."""
        listing.give_up(_NO_MEMBERS)


class _InProcessChannel:
    """An in-process substitute for `grpc.Channel` that supports only unary calls."""

    def __init__(self, settings: "Settings", substitute: "Substitute", without_groups: str) -> None:
        """Load the policy. Raises CannotServe if it is invalid."""
        from queuegate_server.server.offline import OfflineServices

        self._runner = asyncio.Runner()
        self._without_groups = without_groups
        self._services = OfflineServices(settings, substitute)
        try:
            self.snapshot = self._runner.run(self._services.load())
        except BaseException:
            self.close()
            raise

    def unary_unary(
        self,
        method: str,
        request_serializer: Callable[[Any], bytes],
        response_deserializer: Callable[[bytes], Any],
        **_: object,
    ) -> Callable[..., Any]:
        """Return a function that calls the given method."""
        name = method.rpartition("/")[2]

        def call(request: Any, *, timeout: float, **_: object) -> Any:
            answer = self._answer(name, request_serializer(request), timeout)
            return response_deserializer(self._runner.run(answer))

        return call

    def stream_stream(self, *_: object, **__: object) -> None:
        """Do nothing, since commands do not use streams."""

    def close(self) -> None:
        """Close connections to directories."""
        self._runner.run(self._services.close())
        self._runner.close()

    async def _answer(self, method: str, data: bytes, seconds: float) -> bytes:
        """Call a method with a serialized request and return the serialized response. Raises
        QueuegateError if the call fails.
        """
        from queuegate_server.rpc.errors import to_status

        try:
            async with asyncio.timeout(seconds):
                return await self._services.call(method, data)
        except TimeoutError:
            raise DeadlineExceeded(f"no response within {seconds:g} s") from None
        except Exception as error:
            failure = _errors.from_item(to_status(error).proto)
        if isinstance(failure, GroupsUnavailable) and self._without_groups:
            raise GroupsUnavailable(self._without_groups, code=failure.code, reason=failure.reason)
        raise failure
