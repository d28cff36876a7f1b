"""Cerbos: a resource policy for each queue, scoped by the queue's path; groups are roles.

Cerbos looks from the scope of a question up to its parents until a rule grants, just as access to a
queue works. With one policy per queue that repeats the rules of all its ancestors, it would take
about a fifth less time, but nobody maintains such policies by hand.
"""

import json
from collections.abc import Iterator, Mapping
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
from bench.policies import QueueSpec

SERVICE: Final = "cerbos.svc.v1.CerbosService"

_VERSION: Final = "0.55.0"
_RESOURCE: Final = "queue"
_POLICY_VERSION: Final = "default"


@dataclass(frozen=True, slots=True)
class Cerbos:
    """Cerbos from its npm package."""

    name: str = "Cerbos"
    how: str = "a scoped resource policy for each queue; groups sent as roles"
    remembers: bool = False

    def install(self) -> str:
        """See Peer."""
        self._program()
        return _VERSION

    @contextmanager
    def serve(self, policy: Policy, folder: Path) -> Iterator[Serving]:
        """See Peer."""
        files = folder / "policies"
        files.mkdir(parents=True)
        for number, content in enumerate(policies(policy)):
            (files / f"policy{number}.json").write_text(json.dumps(content))
        address = processes.free_address()
        config = {
            "server": {
                "httpListenAddr": processes.free_address(),
                "grpcListenAddr": address,
            },
            "storage": {
                "driver": "disk",
                "disk": {"directory": str(files), "watchForChanges": False},
            },
            "telemetry": {"disabled": True},
        }
        (folder / "config.json").write_text(json.dumps(config))
        command = [str(self._program()), "server", f"--config={folder / 'config.json'}"]
        command.append("--log-level=error")
        with (
            processes.running(command, folder / "run", on_own_core=True, listen=address) as running,
            grpc.insecure_channel(address) as channel,
        ):
            yield Serving(running, _wire(channel))

    def _program(self) -> Path:
        return install.npm_program("@cerbos/cerbos-linux-x64", _VERSION, "cerbos-linux-x64")


def policies(policy: Policy) -> list[dict[str, Any]]:
    """Return the policies: an empty one that Cerbos requires at the top, and one per queue."""
    return [_policy("", []), *(_policy(queue.path, _rules(queue)) for queue in policy.queues)]


def question(asked: Question) -> dict[str, Any]:
    """Return the request of a question as JSON."""
    return {
        "principal": {"id": asked.user, "policyVersion": _POLICY_VERSION, "roles": asked.groups},
        "resources": [
            {
                "actions": [asked.action],
                "resource": {
                    "kind": _RESOURCE,
                    "policyVersion": _POLICY_VERSION,
                    "id": asked.queue,
                    "scope": asked.queue,
                },
            }
        ],
    }


def _policy(scope: str, rules: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "apiVersion": "api.cerbos.dev/v1",
        "resourcePolicy": {
            "resource": _RESOURCE,
            "version": _POLICY_VERSION,
            "scope": scope,
            "rules": rules,
        },
    }


def _rules(queue: QueueSpec) -> list[dict[str, Any]]:
    rules: list[dict[str, Any]] = []
    if queue.open_to_all:
        rules.append(_rule(["submit"], ["*"]))
    else:
        rules += _grants(["submit"], queue.users, queue.groups)
    return rules + _grants(["submit", "admin"], queue.admin_users, queue.admin_groups)


def _grants(
    actions: list[str], users: tuple[str, ...], groups: tuple[str, ...]
) -> list[dict[str, Any]]:
    listed = {"match": {"expr": f"P.id in {json.dumps(users)}"}}
    return [_rule(actions, list(groups)), _rule(actions, ["*"], condition=listed)]


def _rule(actions: list[str], roles: list[str], **more: Mapping[str, Any]) -> dict[str, Any]:
    return {"actions": actions, "effect": "EFFECT_ALLOW", "roles": roles, **more}


def _wire(channel: grpc.Channel) -> GrpcWire:
    contract = Contract(channel, SERVICE)
    request = contract.request("CheckResources")
    response = contract.response("CheckResources")

    def decode(answer: bytes) -> bool:
        message: Any = response(answer)
        (effect,) = message.results[0].actions.values()
        return bool(effect == 1)

    return GrpcWire(
        f"{SERVICE}/CheckResources",
        contract.files,
        lambda asked: request(question(asked)),
        decode,
    )
