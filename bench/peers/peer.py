"""The interface of the compared servers: how to install, run and ask them."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from google.protobuf.descriptor_pb2 import FileDescriptorSet

from bench.peers.policy import Policy
from bench.peers.questions import Question
from bench.processes import Running


@dataclass(frozen=True, slots=True)
class GrpcWire:
    """How a server is asked over gRPC, with one unary call per question."""

    method: str
    """As `package.Service/Method`."""
    descriptors: FileDescriptorSet
    encode: Callable[[Question], bytes]
    decode: Callable[[bytes], bool] | None
    """Returns whether an answer grants access; None if all answers are the same."""


@dataclass(frozen=True, slots=True)
class RestWire:
    """How a server is asked over HTTP: with one GET per question over HTTP/2, or with a POST over
    HTTP/1.1 if there are bodies.
    """

    path: Callable[[Question], str]
    decode: Callable[[bytes], bool]
    body: Callable[[Question], bytes] | None = None


Wire = GrpcWire | RestWire


@dataclass(frozen=True, slots=True)
class Serving:
    """A server that serves the policy."""

    running: Running
    wire: Wire


class Peer(Protocol):
    """A server in the comparison."""

    @property
    def name(self) -> str:
        """The name in tables."""

    @property
    def how(self) -> str:
        """How it stores the policy, and what is sent with a question."""

    @property
    def remembers(self) -> bool:
        """Whether it caches decisions, and therefore answers a repeated question faster."""

    def install(self) -> str:
        """Build or install it if necessary, and return its version. Raises CannotMeasure."""

    def serve(self, policy: Policy, folder: Path) -> AbstractContextManager[Serving]:
        """Run it with a policy on the first core, with its files in a new folder."""
