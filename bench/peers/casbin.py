"""Casbin's server: a rule for each name of each list, with groups and the tree as stored roles."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import grpc

from bench import processes
from bench.peers import install
from bench.peers.peer import GrpcWire, Serving
from bench.peers.policy import Policy
from bench.peers.questions import Question
from bench.peers.reflection import Contract

SERVICE: Final = "proto.Casbin"
MODEL: Final = """\
[request_definition]
r = sub, obj, act

[policy_definition]
p = sub, obj, act

[role_definition]
g = _, _
g2 = _, _

[policy_effect]
e = some(where (p.eft == allow))

[matchers]
m = (r.act == p.act || p.act == "admin") && g2(r.obj, p.obj) \
&& (p.sub == "*" || g(r.sub, p.sub))
"""

_MODULE: Final = "github.com/casbin/casbin-server"

Line = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Casbin:
    """casbin-server, which stores groups itself, because questions have no field for them."""

    name: str = "Casbin server"
    how: str = "RBAC model, a rule for each name in a list; groups stored"
    remembers: bool = False

    def install(self) -> str:
        """See Peer."""
        install.own_go_program("casbin")
        return install.module_version("casbin", _MODULE)

    @contextmanager
    def serve(self, policy: Policy, folder: Path) -> Iterator[Serving]:
        """See Peer."""
        folder.mkdir()
        file = folder / "policy.csv"
        file.write_text("".join(f"{', '.join(line)}\n" for line in lines(policy)))
        # By default it looks for its own configuration beside the program.
        config = folder / "connection.json"
        config.write_text("{}")
        with (
            processes.running(
                [str(install.own_go_program("casbin"))],
                folder / "run",
                on_own_core=True,
                extra_environment={"CONNECTION_CONFIG_PATH": os.fspath(config)},
            ) as running,
            grpc.insecure_channel(running.address) as channel,
        ):
            yield Serving(running, _load(file, Contract(channel, SERVICE)))


def lines(policy: Policy) -> list[Line]:
    """Return the rules and roles."""
    lines: list[Line] = []
    for queue in policy.queues:
        if queue.parent >= 0:
            lines.append(("g2", queue.path, policy.queues[queue.parent].path))
        if queue.open_to_all:
            lines.append(("p", "*", queue.path, "submit"))
        for action, names in (
            ("submit", queue.users + queue.groups),
            ("admin", queue.admin_users + queue.admin_groups),
        ):
            lines += [("p", name, queue.path, action) for name in names]
    for user, groups in policy.members.items():
        lines += [("g", user, group) for group in groups]
    return lines


def question(asked: Question) -> Line:
    """Return the parameters of a question."""
    return asked.user, asked.queue, asked.action


def _load(file: Path, contract: Contract) -> GrpcWire:
    adapter = contract.call("NewAdapter", {"driverName": "file", "connectString": str(file)})
    enforcer = contract.call(
        "NewEnforcer", {"modelText": MODEL, "adapterHandle": adapter.handler}
    ).handler
    request = contract.request("Enforce")
    response = contract.response("Enforce")

    def decode(answer: bytes) -> bool:
        message: Any = response(answer)
        return bool(message.res)

    return GrpcWire(
        f"{SERVICE}/Enforce",
        contract.files,
        lambda asked: request({"enforcerHandler": enforcer, "params": question(asked)}),
        decode,
    )
