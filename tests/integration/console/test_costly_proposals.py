"""Proposals and claims that are multiplied by aliases: neither the page nor the server grows."""

import socket
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Final

import pytest

from queuegate_server.console.forms import MAX_WAITING
from tests.support.console_http import FORM, Answer, Browser
from tests.support.fakes.scripted_directory import settings_file
from tests.support.servers.admin_port import ops_address
from tests.support.servers.queuegate_server import RunningServer, running_server

LONG: Final = "x" * 120_000
QUEUES: Final = """\
partitions:
  - name: default
    queues:
      - name: root
        submitacl: " ops"
        queues:
"""
MANY_QUEUES: Final = "".join(
    f"          - {{name: q{number}, submitacl: {'*a' if number else f'&a {LONG}'}}}\n"
    for number in range(150)
)


def listed(first: str) -> str:
    """A list of the most claims, of which all others are the first one again."""
    return f"claims:\n- &a {first}\n" + "- *a\n" * 199


CLAIMS: Final = {
    "refuted": listed(f'only group:"{LONG}" may submit root'),
    "of a queue that does not exist": listed(f"nobody may submit root.{LONG}"),
    "not a queue": listed(f'nobody may submit "{LONG}"'),
    "not a claim": listed(LONG),
    "compared with a file": listed(f"no new access compared with {LONG}"),
    "with notes": listed(f"never group:{LONG} submit root.missing"),
    "facts": f"facts:\n- &a {LONG} within {LONG}\n"
    + "- *a\n" * 199
    + "claims: [nobody may submit root]",
    "partition": f"partition: {LONG}\nclaims: [nobody may submit root]",
    "unknown keys": "claims: [nobody may submit root]\n"
    + "".join(
        f"? {{k{number}: {'*a' if number else f'&a {LONG}'}}}\n: 1\n" for number in range(150)
    ),
}
POLICIES: Final = {
    "long names": QUEUES + MANY_QUEUES,
    "long names of queues": QUEUES
    + "".join(f"          - name: {'*a' if n else f'&a {LONG}'}\n" for n in range(150)),
    "long partitions": "partitions:\n"
    + "".join(
        f"  - name: {'*a' if n else f'&a {LONG}'}\n    queues: [{{name: root}}]\n"
        for n in range(150)
    ),
    "long keys": QUEUES
    + "".join(
        f"          - {{name: q{n}, {'*a ' if n else f'&a {LONG}'}: 1}}\n" for n in range(150)
    ),
    "XML": "<allocations>" + f'<queue name="{LONG}"/>' * 15 + "</allocations>",
}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    folder = tmp_path_factory.mktemp("settings")
    (folder / "queues.yaml").write_text(QUEUES + "          - {name: q, submitacl: sue}\n")
    settings = {
        "policy": {"path": str(folder / "queues.yaml")},
        "ops": {"listen": "127.0.0.1:0"},
        "console": {"enabled": True},
    }
    with running_server("--config", settings_file(folder, settings)) as running:
        yield running


def proposed(server: RunningServer, policy: str, claims: str) -> Answer:
    browser = Browser(f"http://{ops_address(server)}/console/")
    form = {"policy": policy, "claims": claims, "form_token": browser.get("change").form_token}
    answer = browser.post("change", form)
    assert answer.status in {200, 422}
    # A text of the form is shown again.
    assert len(answer.text) < 2_000_000 + len(policy) + len(claims)
    return answer


def expect_little_memory(server: RunningServer, before: int) -> None:
    assert server.peak_memory() - before < 48 << 20


@pytest.mark.parametrize("claims", CLAIMS.values(), ids=CLAIMS)
def test_claims(server: RunningServer, claims: str) -> None:
    proposed(server, QUEUES, "claims: [nobody may submit root]")
    before = server.peak_memory()
    proposed(server, QUEUES, claims)
    expect_little_memory(server, before)


@pytest.mark.parametrize("policy", POLICIES.values(), ids=POLICIES)
def test_policies(server: RunningServer, policy: str) -> None:
    proposed(server, QUEUES, "claims: [nobody may submit root]")
    before = server.peak_memory()
    proposed(server, policy, "claims: [nobody may submit root]")
    expect_little_memory(server, before)


def test_slow_senders_refuse_no_other_proposal(server: RunningServer) -> None:
    host, _, port = ops_address(server).rpartition(":")
    head = (
        "POST /console/change HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\n"
        f"Content-Type: {FORM}\r\nContent-Length: 1000\r\n\r\npolicy="
    )
    with ExitStack() as stack:
        senders = [
            stack.enter_context(socket.create_connection((host, int(port)), 60))
            for _ in range(2 * MAX_WAITING)
        ]
        for sender in senders:
            sender.sendall(head.encode())
            assert sender.recv(1_024).startswith(b"HTTP/1.1 100 ")
        assert proposed(server, QUEUES, "claims: [nobody may submit root]").status == 200
