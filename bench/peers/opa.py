"""OPA over REST: the queues as data, and a rule that walks up to the root.

OPA's gRPC interface is a separate program, opa-envoy-plugin, whose module Go's proxy does not
serve.
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from bench import processes
from bench.peers import install
from bench.peers.peer import RestWire, Serving
from bench.peers.policy import Policy
from bench.peers.questions import Question
from bench.policies import ancestry
from tests.support.go_toolchain import Program

_OPA: Final = Program("github.com/open-policy-agent/opa", "v1.22.3")
_RULES: Final = """\
package queuegate

default allow := false

allow if {
\tsome path in data.queues[input.queue].line
\tsome name in data.lists[input.action]
\tgrants(data.queues[path][name])
}

grants(list) if list.everyone

grants(list) if list.users[input.user]

grants(list) if {
\tsome group in input.groups
\tlist.groups[group]
}
"""


@dataclass(frozen=True, slots=True)
class Opa:
    """OPA's own server. All its answers come from `GET /v1/data`, over HTTP/2."""

    name: str = "OPA, REST"
    how: str = "queues as data, a Rego rule; groups sent with each question"
    remembers: bool = False

    def install(self) -> str:
        """See Peer."""
        _program()
        return _OPA.version

    @contextmanager
    def serve(self, policy: Policy, folder: Path) -> Iterator[Serving]:
        """See Peer."""
        folder.mkdir()
        (folder / "data.json").write_text(json.dumps(data(policy)))
        (folder / "rules.rego").write_text(_RULES)
        address = processes.free_address()
        command = [str(_program()), "run", "--server", "--h2c", f"--addr={address}"]
        command += ["--log-level=error", "--skip-version-check", "--optimize-store-for-read-speed"]
        command += [str(folder / "data.json"), str(folder / "rules.rego")]
        with processes.running(
            command, folder / "run", on_own_core=True, listen=address
        ) as running:
            yield Serving(running, RestWire(_path, _decode))


def data(policy: Policy) -> dict[str, Any]:
    """Return the queues as OPA stores them: sets are objects, so that it need not search."""
    queues: dict[str, Any] = {}
    for index, queue in enumerate(policy.queues):
        queues[queue.path] = {
            "line": [above.path for above in ancestry(policy.queues, index)],
            "submit": _list(queue.users, queue.groups, everyone=queue.open_to_all),
            "admin": _list(queue.admin_users, queue.admin_groups, everyone=False),
        }
    return {"queues": queues, "lists": {"submit": ["submit", "admin"], "admin": ["admin"]}}


def question(asked: Question) -> dict[str, Any]:
    """Return a question as OPA's input."""
    return {
        "user": asked.user,
        "groups": asked.groups,
        "queue": asked.queue,
        "action": asked.action,
    }


def _list(users: tuple[str, ...], groups: tuple[str, ...], *, everyone: bool) -> dict[str, Any]:
    return {
        "users": dict.fromkeys(users, True),
        "groups": dict.fromkeys(groups, True),
        "everyone": everyone,
    }


def _program() -> Path:
    return install.go_program(_OPA)


def _path(asked: Question) -> str:
    text = json.dumps(question(asked), separators=(",", ":"))
    return f"/v1/data/queuegate/allow?input={quote(text)}"


def _decode(answer: bytes) -> bool:
    return json.loads(answer).get("result") is True
