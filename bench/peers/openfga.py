"""OpenFGA with its memory store: queues, groups and their entries as relationship tuples."""

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
from tests.support.go_toolchain import Program

SERVICE: Final = "openfga.v1.OpenFGAService"

_OPENFGA: Final = Program("github.com/openfga/openfga", "v1.22.1", "cmd/openfga")
_TUPLES_AT_ONCE: Final = 1_000
_CACHED: Final = 1_000_000
_CACHED_FOR: Final = "300s"
"""As long as our server caches groups."""

Tuple = tuple[str, str, str]
"""User, relation, object."""


@dataclass(frozen=True, slots=True)
class OpenFga:
    """OpenFGA's server. It is several times slower with stored groups, because its memory store
    searches from end to end.
    """

    name: str = "OpenFGA"
    remembers: bool = False
    """Whether its cache of checks is enabled. Answers may then be outdated."""

    @property
    def how(self) -> str:
        """See Peer."""
        cache = ", check cache on" if self.remembers else ""
        return f"memory store{cache}; groups sent as contextual tuples"

    def install(self) -> str:
        """See Peer."""
        _program()
        return _OPENFGA.version

    @contextmanager
    def serve(self, policy: Policy, folder: Path) -> Iterator[Serving]:
        """See Peer."""
        folder.mkdir()
        address = processes.free_address()
        command = [str(_program()), "run", f"--grpc-addr={address}"]
        command += [f"--http-addr={processes.free_address()}", "--metrics-enabled=false"]
        command += ["--log-level=error", "--playground-enabled=false"]
        command.append(f"--max-tuples-per-write={_TUPLES_AT_ONCE}")
        if self.remembers:
            command += ["--check-query-cache-enabled", f"--check-query-cache-ttl={_CACHED_FOR}"]
            command.append(f"--check-cache-limit={_CACHED}")
        with (
            processes.running(command, folder / "run", on_own_core=True, listen=address) as running,
            grpc.insecure_channel(address) as channel,
        ):
            yield Serving(running, _load(policy, Contract(channel, SERVICE)))


def _load(policy: Policy, contract: Contract) -> GrpcWire:
    store = contract.call("CreateStore", {"name": "queues"}).id
    model = contract.call("WriteAuthorizationModel", {"store_id": store, **MODEL})
    place = {"store_id": store, "authorization_model_id": model.authorization_model_id}
    stored = tuples(policy)
    for start in range(0, len(stored), _TUPLES_AT_ONCE):
        keys = [_json(one) for one in stored[start : start + _TUPLES_AT_ONCE]]
        contract.call("Write", {**place, "writes": {"tuple_keys": keys}})
    request = contract.request("Check")
    response = contract.response("Check")

    def encode(asked: Question) -> bytes:
        sent = [_json(one) for one in membership(asked.user, asked.groups)]
        return request(
            {
                **place,
                "tuple_key": _json(question(asked)),
                "contextual_tuples": {"tuple_keys": sent},
            }
        )

    def decode(answer: bytes) -> bool:
        message: Any = response(answer)
        return bool(message.allowed)

    return GrpcWire(f"{SERVICE}/Check", contract.files, encode, decode)


def tuples(policy: Policy) -> list[Tuple]:
    """Return the queues and their ACLs."""
    tuples: list[Tuple] = []
    for queue in policy.queues:
        place = f"queue:{queue.path}"
        if queue.parent >= 0:
            tuples.append((f"queue:{policy.queues[queue.parent].path}", "parent", place))
        if queue.open_to_all:
            tuples.append(("user:*", "submitter", place))
        for relation, users, groups in (
            ("submitter", queue.users, queue.groups),
            ("administrator", queue.admin_users, queue.admin_groups),
        ):
            tuples += [(f"user:{user}", relation, place) for user in users]
            tuples += [(f"group:{group}#member", relation, place) for group in groups]
    return tuples


def membership(user: str, groups: tuple[str, ...]) -> list[Tuple]:
    """Return the tuples for a user as a member of groups."""
    return [(f"user:{user}", "member", f"group:{group}") for group in groups]


def question(asked: Question) -> Tuple:
    """Return a question as the tuple to check."""
    return f"user:{asked.user}", f"can_{asked.action}", f"queue:{asked.queue}"


def _program() -> Path:
    return install.go_program(_OPENFGA)


def _json(one: Tuple) -> dict[str, str]:
    return dict(zip(("user", "relation", "object"), one, strict=True))


def _computed(relation: str) -> dict[str, Any]:
    return {"computed_userset": {"relation": relation}}


def _from_parent(relation: str) -> dict[str, Any]:
    return {"tuple_to_userset": {"tupleset": {"relation": "parent"}, **_computed(relation)}}


def _any_of(*rewrites: dict[str, Any]) -> dict[str, Any]:
    return {"union": {"child": list(rewrites)}}


def _written_for(*types: dict[str, Any]) -> dict[str, Any]:
    return {"directly_related_user_types": list(types)}


_USER: Final = {"type": "user"}
_MEMBERS: Final = {"type": "group", "relation": "member"}

MODEL: Final[dict[str, Any]] = {
    "schema_version": "1.1",
    "type_definitions": [
        {"type": "user"},
        {
            "type": "group",
            "relations": {"member": {"this": {}}},
            "metadata": {"relations": {"member": _written_for(_USER)}},
        },
        {
            "type": "queue",
            "relations": {
                "parent": {"this": {}},
                "submitter": {"this": {}},
                "administrator": {"this": {}},
                "can_admin": _any_of(_computed("administrator"), _from_parent("can_admin")),
                "can_submit": _any_of(
                    _computed("submitter"), _computed("administrator"), _from_parent("can_submit")
                ),
            },
            "metadata": {
                "relations": {
                    "parent": _written_for({"type": "queue"}),
                    "submitter": _written_for(_USER, _MEMBERS, {"type": "user", "wildcard": {}}),
                    "administrator": _written_for(_USER, _MEMBERS),
                }
            },
        },
    ],
}
"""Who may submit to and administer a queue, in OpenFGA's terms."""
