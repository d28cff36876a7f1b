"""Blocking and asyncio calls over a gRPC channel."""

import asyncio
import os
import time
from collections.abc import Callable, Iterator
from typing import Any, Final, TypeVar

import grpc
import grpc.aio
from google.protobuf.wrappers_pb2 import Int32Value, StringValue

from queuegate import _errors
from queuegate._channel import ChannelPlan
from queuegate._validation import seconds
from queuegate.exceptions import ClientClosed, DeadlineExceeded, QueuegateError
from queuegate.v1 import sync_pb2
from queuegate.v1.access_pb2_grpc import AccessServiceStub
from queuegate.v1.policy_pb2_grpc import PolicyServiceStub
from queuegate.v1.user_groups_pb2_grpc import UserGroupServiceStub

# Each message of the standard health service has a single field, number 1: a string in requests, an
# enum in responses. protobuf's wrapper messages are encoded identically, so the client needs no
# stubs for the service.
_HEALTH_METHOD: Final = "/grpc.health.v1.Health/Check"
_GRACE_SECONDS: Final = 1.0
"""How long after its deadline a call is abandoned if gRPC has not ended it, in seconds."""
_SYNC_METHOD: Final = "/queuegate.v1.SyncService/Sync"
_serialized: Final[Callable[[sync_pb2.SyncRequest], bytes]] = sync_pb2.SyncRequest.SerializeToString

_Request = TypeVar("_Request")
_Response = TypeVar("_Response")


class Deadline:
    """A call's deadline, shared by all requests that the call sends."""

    __slots__ = ("_clock", "_end", "seconds")

    def __init__(self, seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        """Set the deadline to `seconds` from now."""
        self.seconds = seconds
        self._clock = clock
        self._end = clock() + seconds

    def left(self) -> float:
        """Return the remaining seconds, at least 0."""
        return max(0.0, self._end - self._clock())


class _Calls:
    """Code shared by blocking and asyncio calls."""

    def __init__(self, plan: ChannelPlan, channel: Any, owner: str) -> None:
        # `channel` is a grpc.Channel or a grpc.aio.Channel. The generated stubs have a type for
        # each, but none that covers both.
        self.has_worked = False
        """Whether the server has ever responded."""
        self._plan = plan
        self._owner = owner
        self._is_closed = False
        self._channel = channel
        self.access = AccessServiceStub(channel)
        self.user_groups = UserGroupServiceStub(channel)
        self.policy = PolicyServiceStub(channel)
        self.health = channel.unary_unary(
            _HEALTH_METHOD, StringValue.SerializeToString, Int32Value.FromString
        )

    def deadline(self, timeout: float | None) -> Deadline:
        """Return the deadline for a call. If `timeout` is None, use the client's default."""
        return Deadline(self._plan.timeout if timeout is None else seconds("timeout", timeout))

    def sync_failure(self, error: grpc.RpcError) -> QueuegateError:
        """Return the exception for a failed SyncService stream."""
        return self._failure(error, 0.0)  # a stream has no time limit

    def _failure(self, error: grpc.RpcError, timeout: float) -> QueuegateError:
        if self._is_closed:
            return self._closed()
        return _errors.from_call(
            error,
            self._plan.address.text,
            timeout,
            encrypted=self._plan.credentials is not None,
            has_worked=self.has_worked,
        )

    def _closed(self) -> ClientClosed:
        return ClientClosed(f"the {self._owner} is closed", code="CANCELLED")


class BlockingCalls(_Calls):
    """Blocking calls. Thread-safe. A forked child cannot use them, because it would share its
    parent's connection.
    """

    _channel: grpc.Channel

    def __init__(
        self, plan: ChannelPlan, channel: grpc.Channel | None = None, *, owner: str = "client"
    ) -> None:
        """Wrap an existing channel, or create a channel that connects on the first call.

        Args:
            plan: The options for the channel and its calls.
            channel: An existing channel, if any.
            owner: The calling object's name in error messages.
        """
        self._process = os.getpid()
        target, options = plan.address.target, plan.options
        channel = channel or (
            grpc.insecure_channel(target, options)
            if plan.credentials is None
            else grpc.secure_channel(target, plan.credentials, options)
        )
        super().__init__(plan, grpc.intercept_channel(channel, *plan.interceptors), owner)

    def ask(
        self,
        method: "grpc.UnaryUnaryMultiCallable[_Request, _Response]",
        request: _Request,
        deadline: Deadline,
    ) -> _Response:
        """Call `method` and return its response.

        Raises:
            QueuegateError: The call failed.
            RuntimeError: The client was created before a fork.
        """
        if self.is_inherited:
            raise RuntimeError(
                f"the {self._owner} was created before a fork: create one in each process"
            )
        if self._is_closed:
            raise self._closed()
        try:
            response = method(request, timeout=deadline.left(), metadata=self._plan.metadata)
        except grpc.RpcError as error:
            raise self._failure(error, deadline.seconds) from error
        except ValueError:
            if self._is_closed:  # closed during the call
                raise self._closed() from None
            raise
        self.has_worked = True
        return response

    def sync(
        self, requests: Iterator[sync_pb2.SyncRequest], read: Callable[[bytes], _Response]
    ) -> "grpc._CallIterator[_Response]":
        """Open a SyncService stream, parsing its responses with `read`.

        Raises:
            ValueError: The client is closed.
        """
        method = self._channel.stream_stream(_SYNC_METHOD, _serialized, read)
        return method(requests, metadata=self._plan.metadata)

    @property
    def is_inherited(self) -> bool:
        """Whether the channel was opened before this process was forked."""
        return os.getpid() != self._process

    def close(self) -> None:
        """Cancel calls in flight and close the channel. In a forked child, do nothing."""
        if not self.is_inherited:
            self._is_closed = True
            self._channel.close()


class AsyncCalls(_Calls):
    """Asyncio calls, bound to the event loop that creates them."""

    _channel: grpc.aio.Channel

    def __init__(self, plan: ChannelPlan, *, owner: str = "client") -> None:
        """Create a channel that connects on the first call.

        Args:
            plan: The options for the channel and its calls.
            owner: The calling object's name in error messages.

        Raises:
            RuntimeError: No event loop is running.
        """
        try:
            self._loop = asyncio.get_running_loop()
        except RuntimeError:
            raise RuntimeError(
                f"queuegate.aio.{owner.title()} must be created inside a running event loop"
            ) from None
        target, options = plan.address.target, plan.options
        channel = (
            grpc.aio.insecure_channel(target, options, interceptors=plan.interceptors)
            if plan.credentials is None
            else grpc.aio.secure_channel(
                target, plan.credentials, options, interceptors=plan.interceptors
            )
        )
        super().__init__(plan, channel, owner)

    async def ask(
        self,
        method: "grpc.aio.UnaryUnaryMultiCallable[_Request, _Response]",
        request: _Request,
        deadline: Deadline,
    ) -> _Response:
        """Call `method` and return its response.

        Raises:
            QueuegateError: The call failed.
            RuntimeError: The client belongs to a different event loop.
        """
        self.check_loop()
        if self._is_closed:
            raise self._closed()
        left = deadline.left()
        try:
            # gRPC 1.85 sometimes fails to end a call at its deadline while others are canceled.
            async with asyncio.timeout(left + _GRACE_SECONDS):
                response = await method(request, timeout=left, metadata=self._plan.metadata)
        except grpc.RpcError as error:
            raise self._failure(error, deadline.seconds) from error
        except TimeoutError:
            message = _errors.no_response(self._plan.address.text, deadline.seconds)
            raise DeadlineExceeded(message, code="DEADLINE_EXCEEDED") from None
        except asyncio.CancelledError:
            # gRPC cancels calls when the channel closes. Distinguish this from a cancellation of
            # the caller's task.
            task = asyncio.current_task()
            if task is None or task.cancelling() or not self._is_closed:
                raise
            raise self._closed() from None
        self.has_worked = True
        return response

    def check_loop(self) -> None:
        """Raise RuntimeError unless running in the event loop to which the calls belong."""
        if asyncio.get_running_loop() is not self._loop:
            raise RuntimeError(
                f"the {self._owner} belongs to another event loop: create one in each"
            )

    def sync(
        self, read: Callable[[bytes], _Response]
    ) -> "grpc.aio.StreamStreamCall[sync_pb2.SyncRequest, _Response]":
        """Open a SyncService stream, parsing its responses with `read`."""
        method = self._channel.stream_stream(_SYNC_METHOD, _serialized, read)
        return method(metadata=self._plan.metadata)

    async def close(self) -> None:
        """Cancel calls in flight and close the channel."""
        self._is_closed = True
        await self._channel.close()
