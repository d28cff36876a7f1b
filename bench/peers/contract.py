"""Servers that implement our contract: our own, and the way all of them are asked."""

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Final

from bench import ghz, processes
from bench.command import CannotMeasure
from bench.peers.peer import GrpcWire, RestWire, Serving
from bench.peers.policy import Policy
from bench.peers.questions import Question
from bench.policies import to_yaml
from queuegate.v1 import access_pb2

METHOD: Final = "queuegate.v1.AccessService/CheckQueueAccess"

_DISTRIBUTIONS: Final = {"grpcio": "grpcio", "native": "pygrpc-native"}
_RESOLVER: Final = """\
import json
from pathlib import Path

from queuegate_server.identity.resolver import KnownUser, NoSuchUser
from queuegate_server.identity.options import ResolverOptions


class Options(ResolverOptions):
    path: str


class Members:
    Options = Options

    def __init__(self, options):
        self._path = options.path
        self._members = {}

    async def open(self):
        self._members = json.loads(Path(self._path).read_text())

    async def resolve(self, user):
        groups = self._members.get(user)
        return NoSuchUser("not in the file") if groups is None else KnownUser(tuple(groups))

    async def close(self):
        pass
"""


def wire(*, with_groups: bool = True, is_constant: bool = False) -> GrpcWire:
    """Return the way to ask such a server."""

    def encode(asked: Question) -> bytes:
        return asked.message(with_groups=with_groups).SerializeToString()

    def decode(answer: bytes) -> bool:
        return access_pb2.CheckQueueAccessResponse.FromString(answer).allowed

    files = ghz.descriptors(access_pb2.DESCRIPTOR)
    return GrpcWire(METHOD, files, encode, None if is_constant else decode)


@dataclass(frozen=True, slots=True)
class Queuegate:
    """Our server."""

    name: str
    transport: str
    """As in its settings."""
    sends_groups: bool = True
    remembers: bool = True

    @property
    def how(self) -> str:
        """See Peer."""
        if self.sends_groups:
            return "`queues.yaml`; groups sent with each question"
        return "`queues.yaml`; groups from a resolver, cached by the server"

    def install(self) -> str:
        """See Peer."""
        return f"this commit, {installed(self.transport)}"

    @contextmanager
    def serve(self, policy: Policy, folder: Path) -> Iterator[Serving]:
        """See Peer."""
        folder.mkdir()
        file = folder / "queues.yaml"
        file.write_text(to_yaml(policy.queues))
        command = processes.queuegate(file, self.transport)
        environment: Mapping[str, str] = {}
        if not self.sends_groups:
            environment = _with_resolver(policy, folder)
            command += ["--set", "partitions.default.resolver=members"]
            command += ["--set", "resolvers.members.type=bench-members"]
            command += ["--set", f"resolvers.members.path={folder / 'members.json'}"]
        with processes.running(
            command, folder / "run", on_own_core=True, extra_environment=environment
        ) as running:
            yield Serving(running, wire(with_groups=self.sends_groups))


@dataclass(frozen=True, slots=True)
class QueuegateOverHttp:
    """Our own server, asked by the AuthZEN standard."""

    name: str = "queuegate, HTTP"
    how: str = "`queues.yaml`; groups sent with each question"
    remembers: bool = False

    def install(self) -> str:
        """See Peer."""
        return f"this commit, aiohttp {version('aiohttp')}"

    @contextmanager
    def serve(self, policy: Policy, folder: Path) -> Iterator[Serving]:
        """See Peer."""
        folder.mkdir()
        file = folder / "queues.yaml"
        file.write_text(to_yaml(policy.queues))
        address = processes.free_address()
        command = [*processes.queuegate(file), "--set", f"http.listen={address}"]
        with processes.running(command, folder / "run", on_own_core=True) as running:
            over_http = processes.Running(running.pid, address)
            yield Serving(over_http, RestWire(_evaluation_path, _is_granted, _evaluation))


def _evaluation_path(_asked: Question) -> str:
    return "/access/v1/evaluation"


def _evaluation(asked: Question) -> bytes:
    properties = {"groups": list(asked.groups)}
    question = {
        "subject": {"type": "user", "id": asked.user, "properties": properties},
        "action": {"name": asked.action},
        "resource": {"type": "queue", "id": asked.queue},
    }
    return json.dumps(question).encode()


def _is_granted(answer: bytes) -> bool:
    return json.loads(answer)["decision"] is True


def installed(transport: str) -> str:
    """Return the distribution of a transport and its version. Raises CannotMeasure if it is
    missing.
    """
    distribution = _DISTRIBUTIONS[transport]
    try:
        return f"{distribution} {version(distribution)}"
    except PackageNotFoundError:
        raise CannotMeasure(f"{distribution} is not installed") from None


def _with_resolver(policy: Policy, folder: Path) -> Mapping[str, str]:
    """Install a resolver of another distribution beside the server, and return the environment in
    which the server finds it.
    """
    packages = folder / "packages"
    about = packages / "queuegate_bench_members-1.dist-info"
    about.mkdir(parents=True)
    (packages / "queuegate_bench_members.py").write_text(_RESOLVER)
    (about / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: queuegate-bench-members\nVersion: 1\n"
    )
    (about / "entry_points.txt").write_text(
        "[queuegate.resolvers]\nbench-members = queuegate_bench_members:Members\n"
    )
    (folder / "members.json").write_text(json.dumps(policy.members))
    path = [str(packages), *filter(None, [os.environ.get("PYTHONPATH")])]
    return {"PYTHONPATH": os.pathsep.join(path)}
