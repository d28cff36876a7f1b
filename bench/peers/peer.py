"""The interface of the servers in the comparison: to install, to run and to ask them."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from google.protobuf.descriptor_pb2 import FileDescriptorSet

from bench.peers.policy import Policy
from bench.peers.questions import Asked
from bench.processes import Running


@dataclass(frozen=True, slots=True)
class GrpcWire:
    """How a server is asked over gRPC, one unary call a question."""

    method: str
    """As `package.Service/Method`."""
    descriptors: FileDescriptorSet
    encode: Callable[[Asked], bytes]
    decode: Callable[[bytes], bool] | None
    """Returns whether an answer grants access; None if all answers are the same."""


@dataclass(frozen=True, slots=True)
class RestWire:
    """How a server is asked over HTTP, one GET a question."""

    path: Callable[[Asked], str]
    decode: Callable[[bytes], bool]


Wire = GrpcWire | RestWire


@dataclass(frozen=True, slots=True)
class Serving:
    """A server that serves the policy."""

    running: Running
    wire: Wire


class Peer(Protocol):
    """A server of the comparison."""

    @property
    def name(self) -> str:
        """Its name in tables."""

    @property
    def how(self) -> str:
        """How it holds the policy, and what is sent with a question."""

    @property
    def remembers(self) -> bool:
        """Whether it keeps decisions, and so answers a question faster the second time."""

    def install(self) -> str:
        """Build or install it if need be, and return its version. Raises CannotMeasure."""

    def serve(self, policy: Policy, folder: Path) -> AbstractContextManager[Serving]:
        """Run it with a policy, on the first core, with its files in a new folder.
        Raises CannotMeasure.
        """
