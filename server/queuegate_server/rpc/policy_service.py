"""PolicyService: what is being served, and is this configuration any good?"""

import asyncio
from collections.abc import Iterator
from typing import Final, Protocol

from queuegate.policy.names import is_at_or_below
from queuegate.policy.tree import Queue
from queuegate.v1 import policy_pb2
from queuegate_server.engine import Engine
from queuegate_server.formats.diagnostics import Diagnostic, has_errors
from queuegate_server.formats.registry import FILE_FORMATS, detect_file_format
from queuegate_server.policystore import parser_process
from queuegate_server.rpc import convert, wire
from queuegate_server.rpc.errors import InvalidRequest, TooMuchWork
from queuegate_server.snapshot import Served

MOST_CONTENT: Final = 2 * 1024 * 1024
"""Bytes; twice what a ConfigMap holds."""
_VALIDATIONS_AT_ONCE: Final = 1
"""Each one takes up a processor."""
_MOST_VALIDATIONS: Final = 16
"""That run or wait for their turn."""
_SHOWN_AT_ONCE: Final = 500
_CONTENT: Final = ""
"""The name of a text that was sent."""


class ReloadState(Protocol):
    """How reloads went."""

    @property
    def succeeded(self) -> bool:
        """True if what was last read is being served."""

    @property
    def failed_at(self) -> float | None:
        """When the last reload failed, in wall-clock seconds; None if it succeeded."""

    @property
    def problems(self) -> tuple[Diagnostic, ...]:
        """The findings in what was last read."""


class Reloader(Protocol):
    """Reads the policy again on demand."""

    @property
    def state(self) -> ReloadState:
        """How the last reload went."""

    async def reload(self) -> ReloadState:
        """Read the configuration, and serve it if it is valid."""


class PolicyServicer:
    """Converts, calls the engine or the reloader, converts back."""

    def __init__(self, engine: Engine, reloader: Reloader) -> None:
        """Take the engine and what reloads it."""
        self._engine = engine
        self._reloader = reloader
        self._validating = asyncio.Semaphore(_VALIDATIONS_AT_ONCE)
        self._validations = 0

    async def GetPolicy(self, data: bytes) -> bytes:
        """Show the policy of a partition."""
        request = wire.parse(policy_pb2.GetPolicyRequest, data)
        faults: convert.Violations = []
        convert.check_partition(request.partition, faults)
        convert.raise_if(faults)
        snapshot = self._engine.snapshot
        served = snapshot.find(request.partition)
        prefix = convert.prefix_path(request.prefix, served.partition)
        response = policy_pb2.GetPolicyResponse(
            source=snapshot.policy.source,
            revision=snapshot.policy.revision,
            checksum=snapshot.policy.checksum,
            loaded_at=convert.timestamp(snapshot.loaded_at),
            resolver=served.groups.resolver_name,
            partitions=sorted(snapshot.served),
            diagnostics=convert.diagnostics(snapshot.warnings),
        )
        state = self._reloader.state
        if state.failed_at is not None:
            response.reload_failed_at.CopyFrom(convert.timestamp(state.failed_at))
            response.reload_diagnostics.extend(convert.diagnostics(state.problems))
        for count, queue in enumerate(_below(served, prefix), start=1):
            response.queues.append(_queue(queue))
            if count % _SHOWN_AT_ONCE == 0:
                await asyncio.sleep(0)
        return response.SerializeToString()

    async def ValidatePolicy(self, data: bytes) -> bytes:
        """Validate a configuration text, in a child process and one at a time."""
        request = wire.parse(policy_pb2.ValidatePolicyRequest, data)
        content = request.content.encode()
        if len(content) > MOST_CONTENT:
            fault = (
                f"is longer than {MOST_CONTENT} bytes; give the file to queuegate-server validate"
            )
            raise InvalidRequest([("content", fault)])
        format_name = request.format or detect_file_format(content)
        if format_name not in FILE_FORMATS:
            known = ", ".join(sorted(FILE_FORMATS))
            raise InvalidRequest([("format", f"is not a known format; known are: {known}")])
        if self._validations >= _MOST_VALIDATIONS:
            raise TooMuchWork("too many validations at once")
        self._validations += 1
        try:
            async with self._validating:
                diagnostics = await parser_process.check(format_name, content, _CONTENT)
        except OSError as error:
            raise TooMuchWork(
                f"the process that validates cannot be started: {error.strerror or error}"
            ) from error
        finally:
            self._validations -= 1
        response = policy_pb2.ValidatePolicyResponse(valid=not has_errors(diagnostics))
        for start in range(0, len(diagnostics), _SHOWN_AT_ONCE):
            part = diagnostics[start : start + _SHOWN_AT_ONCE]
            response.diagnostics.extend(convert.diagnostics(part))
            await asyncio.sleep(0)
        return response.SerializeToString()

    async def ReloadPolicy(self, data: bytes) -> bytes:
        """Read the configuration again."""
        wire.parse(policy_pb2.ReloadPolicyRequest, data)
        state = await self._reloader.reload()
        return policy_pb2.ReloadPolicyResponse(
            succeeded=state.succeeded,
            revision=self._engine.snapshot.policy.revision,
            diagnostics=convert.diagnostics(state.problems),
        ).SerializeToString()


def _below(served: Served, prefix: str) -> Iterator[Queue]:
    return (
        queue for path, queue in served.partition.queues.items() if is_at_or_below(path, prefix)
    )


def _queue(queue: Queue) -> policy_pb2.PolicyQueue:
    submit, admin = queue.submit_acl, queue.admin_acl
    return policy_pb2.PolicyQueue(
        path=queue.path,
        submit_acl=submit.text,
        admin_acl=admin.text,
        submit_acl_dropped_names=(*submit.dropped_users, *submit.dropped_groups),
        admin_acl_dropped_names=(*admin.dropped_users, *admin.dropped_groups),
    )
