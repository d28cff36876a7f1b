"""Output of `queuegate-server serve` at the start."""

import json
from typing import Any

import pytest

from queuegate.policy.acl import Acl, parse
from queuegate.policy.queue import QueueAcls
from queuegate.policy.tree import PartitionBuilder, Policy
from queuegate_server.cli.serve import EXAMPLE_QUEUES, _announcement, _example
from queuegate_server.formats.registry import load_policy
from queuegate_server.settings.load import load_settings

TLS = {"certificate_file": "c.pem", "key_file": "k.pem"}
MTLS = TLS | {"client_ca_file": "ca.pem"}
CHECK = {"roles": ["check"]}
CERTIFICATES = {"certificates": {"dns:scheduler.example.org": CHECK}}
TOKENS = {"token_file": "tokens", "tokens": {"scheduler": CHECK}}
NO_ROLES: dict[str, Any] = {"loopback": {"roles": []}}

CA = "--tls-ca CA_FILE"
CERTIFICATE = "--tls-cert CERTIFICATE_FILE --tls-key KEY_FILE"


def listener(address: str, tls: dict[str, str]) -> dict[str, Any]:
    return {"address": address, "tls": tls}


@pytest.mark.parametrize(
    ("listen", "callers", "options"),
    [
        (["localhost:1"], {}, "--address localhost:1"),
        (["unix:/q.sock"], NO_ROLES, "--address unix:/q.sock"),
        ([listener("localhost:1", TLS)], {}, f"--address localhost:1 {CA}"),
        (
            [listener("0.0.0.0:1", MTLS)],
            CERTIFICATES,
            f"--address 0.0.0.0:1 {CA} --tls-server-name NAME {CERTIFICATE}",
        ),
        (
            [listener("localhost:1", MTLS)],
            TOKENS,
            f"--address localhost:1 {CA} {CERTIFICATE} --token-file TOKEN_FILE",
        ),
        (
            [listener("10.0.0.1:1", TLS)],
            TOKENS,
            f"--address 10.0.0.1:1 {CA} --token-file TOKEN_FILE",
        ),
        (["localhost:1"], NO_ROLES | TOKENS, "--address localhost:1 --token-file TOKEN_FILE"),
        ([listener("localhost:1", MTLS), "localhost:2"], CERTIFICATES, "--address localhost:2"),
    ],
)
def test_the_command_has_the_options_that_a_caller_needs(
    listen: list[Any], callers: dict[str, Any], options: str
) -> None:
    _, ask = announced(listen, callers)
    assert ask.startswith("ask it: ")
    assert ask.endswith(f"queuegate {options} check alice root")


@pytest.mark.parametrize(
    ("listen", "callers"),
    [
        (["localhost:1"], NO_ROLES),
        ([listener("localhost:1", MTLS)], {}),
        ([listener("10.0.0.1:1", TLS)], {}),
    ],
)
def test_without_a_caller_there_is_no_command(listen: list[Any], callers: dict[str, Any]) -> None:
    _, ask = announced(listen, callers)
    assert (
        ask == "no caller has the check role on these addresses: grant it to a caller under callers"
    )


@pytest.mark.parametrize(
    ("acl", "user", "queue"),
    [("bob ops", "bob", "root.a"), ("'*'", "alice", "root.a"), ("' ops'", "USER", "root.a")],
)
def test_the_example_is_granted_as_far_as_the_acls_say(acl: str, user: str, queue: str) -> None:
    queues = f"[{{name: root, queues: [{{name: a, submitacl: {acl}}}]}}]"
    text = f"partitions: [{{name: default, queues: {queues}}}]"
    policy = Policy(load_policy("yunikorn", text.encode(), "queues.yaml").partitions or {})
    assert _example(policy, "default") == (user, queue)


@pytest.mark.parametrize(("acl", "queues"), [("bob", 1), (" ops", EXAMPLE_QUEUES)])
def test_the_example_does_not_read_the_acls_of_a_large_policy(
    acl: str, queues: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    parsed = []

    def spy(text: str) -> Acl:
        parsed.append(text)
        return parse(text)

    monkeypatch.setattr("queuegate.policy.tree.yunikorn_grammar", lambda _: spy)
    builder = PartitionBuilder("default")
    builder.add([QueueAcls("root", "", "")])
    builder.add(
        QueueAcls(f"root.q{each}", f"{acl}{each}", "") for each in range(2 * EXAMPLE_QUEUES)
    )
    user, queue = _example(Policy({"default": builder.build()}), "default")
    assert (user, queue) == ("bob0" if acl == "bob" else "USER", "root.q0")
    assert len([text for text in parsed if text]) <= queues


def announced(listen: list[Any], callers: dict[str, Any]) -> list[str]:
    options = [f"listen={json.dumps(listen)}", f"callers={json.dumps(callers)}"]
    settings = load_settings(None, {}, options)
    addresses = [each.address for each in settings.listen]
    return _announcement(addresses, Policy({}), settings.listen, settings.callers)
