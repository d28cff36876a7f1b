"""Streams of SyncService, message by message, against a real server."""

import hashlib
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest

import queuegate
from queuegate.policy.decision import RULES
from queuegate_server.identity.group_resolver import STALE_COPY_SECONDS
from tests.support.eventually import eventually
from tests.support.fakes.notify_socket import NotifySocket
from tests.support.fakes.scripted_directory import ScriptedDirectory, settings_file
from tests.support.servers.queuegate_server import RunningServer, running_server
from tests.support.servers.two_partitions import (
    DOWN,
    PEOPLE,
    POLICY,
    SharedServer,
    client_without_retries,
    two_partitions,
)
from tests.support.sync_stream import SyncStream, sync_streams

LEASE = 5.0
TOKENS = {"one": "qg_1" + "x" * 40, "two": "qg_2" + "x" * 40}


@pytest.fixture
def server(shared: SharedServer, directory: ScriptedDirectory) -> RunningServer:
    """The server that tests share which neither end it nor hold its lookups."""
    del directory  # both are as at their beginning
    return shared.server


@pytest.fixture
def own_directory(tmp_path: Path) -> ScriptedDirectory:
    return ScriptedDirectory(tmp_path)


@pytest.fixture
def own_server(own_directory: ScriptedDirectory) -> Iterator[RunningServer]:
    with two_partitions(own_directory) as running:
        yield running


@pytest.fixture
def opening(server: RunningServer) -> Iterator[Any]:
    with sync_streams(server.address) as opened:
        yield opened


@pytest.fixture
def own_opening(own_server: RunningServer) -> Iterator[Any]:
    with sync_streams(own_server.address) as opened:
        yield opened


INVALID: tuple[tuple[dict[str, Any], str], ...] = (
    ({"name": "x" * 257}, "open.name: is longer than 256 bytes"),
    ({"agent": "é" * 33}, "open.agent: is longer than 64 bytes"),
    ({"agent": "a\nb"}, "open.agent: has a control character"),
    ({"partitions": ["default", ""]}, "open.partitions[1]: is required"),
    ({"partitions": ["p" * 1_025]}, "open.partitions[0]: is longer than 1024 bytes"),
    ({"partitions": ["p"] * 10_001}, "open.partitions: has more than 10000 items"),
    (
        {"partitions": ["p" * 1_024] * 512, "held": [{"partition": "p" * 1_024}] * 513},
        "open: has partition names of more than 1048576 characters",
    ),
    ({"held": [{"partition": "a\nb"}]}, "open.held[0].partition: has a control character"),
    (
        {"held": [{"partition": "p", "checksum": bytes(65)}]},
        "open.held[0].checksum: is longer than 64 bytes",
    ),
    (
        {"held": [{"partition": "p", "resolver_fingerprint": bytes(65)}]},
        "open.held[0].resolver_fingerprint: is longer than 64 bytes",
    ),
    (
        {"fleet_cursor": {"epoch": bytes(65)}},
        "open.fleet_cursor.epoch: is longer than 64 bytes",
    ),
    ({"resume": {"epoch": bytes(17)}}, "open.resume.epoch: is longer than 16 bytes"),
    ({"instance": bytes(15)}, "open.instance: must have 16 bytes, or none"),
    ({"rules": [1] * 101}, "open.rules: has more than 100 items"),
)


def test_invalid_first_messages(opening: Any) -> None:
    for fields, fault in INVALID:
        stream = opening()
        stream.send("open", **fields)
        assert stream.status() == ("INVALID_ARGUMENT", fault)


def test_who_does_not_know_the_rules_must_ask(opening: Any) -> None:
    for rules, may in (([RULES, RULES + 1], True), ([RULES + 1], False), ([], False)):
        stream = opening()
        assert stream.open(rules=rules).local_decisions is may
        assert stream.until("policy").policy.rules == RULES


def test_groups_that_are_not_read_are_bounded(opening: Any, directory: ScriptedDirectory) -> None:
    groups = [f"{number:0250}" for number in range(400)]
    directory.answer({"*": {"groups": groups}})
    stream = opening()
    stream.open()
    users = [f"u{number}" for number in range(300)]
    stream.send("want", users=users)
    eventually(lambda: directory.asked() >= 10, expected=True)
    before = -1
    while before != (before := directory.asked()):
        time.sleep(1)
    assert before < 100
    answers = {stream.until("user_groups").user_groups.user for _ in users}
    assert answers == set(users)
    assert directory.asked() == len(users)


def test_groups_are_lent_for_longer_while_the_directory_is_down(
    tmp_path: Path,
) -> None:
    directory = ScriptedDirectory(tmp_path)
    directory.answer(PEOPLE)
    cache = {"positive_ttl": "1s", "failure_ttl": "100ms"}
    with (
        two_partitions(directory, cache=cache) as server,
        sync_streams(server.address) as opening,
    ):
        stream = opening()
        stream.open()

        def lent() -> tuple[list[str], bool]:
            stream.lease()
            stream.send("want", partition="default", users=["sam"])
            groups = stream.until("user_groups").user_groups
            assert groups.lifetime_millis <= STALE_COPY_SECONDS * 1_000
            return list(groups.groups), groups.lifetime_millis > 1_000

        assert lent() == (["sam", "staff"], False)
        directory.answer({"sam": DOWN})
        eventually(lent, (["sam", "staff"], True))
        directory.answer({"sam": {"groups": ["sam"]}})
        eventually(lent, (["sam"], False))
        stream.send("release")  # so that the server need not wait for the lease
        assert stream.status() == ("OK", "")


def test_names_that_wait_are_bounded(own_opening: Any, own_directory: ScriptedDirectory) -> None:
    own_directory.answer({"*": {"held": True, "groups": []}})
    stream = own_opening()
    stream.open()
    for start in (0, 1_000):
        stream.send("want", users=[f"u{start + number:01023}" for number in range(1_000)])
    code, details = stream.status()
    assert (code, "1048576 characters" in details) == ("RESOURCE_EXHAUSTED", True)
    own_directory.release()


@pytest.fixture
def tokens(tmp_path: Path) -> Path:
    path = tmp_path / "tokens"
    path.write_text("".join(_line(name) for name in TOKENS))
    return path


def _line(name: str) -> str:
    return f"{name}:{hashlib.sha256(TOKENS[name].encode()).hexdigest()}\n"


def bearer(name: str) -> tuple[tuple[str, str]]:
    return (("authorization", f"Bearer {TOKENS[name]}"),)


def settings(folder: Path, tokens: Path, *, assert_groups: bool = False, **more: Any) -> str:
    (folder / "queues.yaml").write_text(POLICY)
    rights = {"roles": ["check", "sync"], "assert_groups": assert_groups}
    callers = {"token_file": str(tokens), "tokens": dict.fromkeys(TOKENS, rights)}
    found = {"policy": {"path": str(folder / "queues.yaml")}, "callers": callers, **more}
    return settings_file(folder, found)


def test_one_caller_cannot_take_all_streams(tmp_path: Path, tokens: Path) -> None:
    config = settings(tmp_path, tokens, sync={"streams": 3, "streams_per_caller": 2})
    with (
        running_server("--config", config) as server,
        sync_streams(server.address) as opening,
    ):
        first = [opening(bearer("one")) for _ in range(2)]
        for stream in first:
            stream.open()
        third = opening(bearer("one"))
        code, details = third.status()
        assert code == "RESOURCE_EXHAUSTED"
        assert "token:one has 2 streams open" in details
        assert "sync.streams_per_caller" in details
        opening(bearer("two")).open()
        assert "3 streams are open" in opening(bearer("two")).status()[1]
        first[0].close()

        def opens() -> bool:
            stream: SyncStream = opening(bearer("one"))
            stream.send("open")
            try:
                stream.until("opened")
            except grpc.RpcError:
                return False
            return True

        eventually(opens, expected=True)


def test_reconnects_are_limited_to_the_rate_of_calls(tmp_path: Path, tokens: Path) -> None:
    limits = {"caller_rate": 0.001, "caller_burst": 3}
    with (
        running_server("--config", settings(tmp_path, tokens, limits=limits)) as server,
        sync_streams(server.address) as opening,
    ):
        for _ in range(3):
            stream = opening(bearer("one"))
            stream.open()
            for _ in range(10):  # what follows is not counted
                stream.lease()
            stream.close()
        code, details = opening(bearer("one")).status()
        assert (code, "limits.caller_rate" in details) == ("RESOURCE_EXHAUSTED", True)
        opening(bearer("two")).open()


def test_a_token_that_is_taken_away_ends_its_streams(tmp_path: Path, tokens: Path) -> None:
    file = tmp_path / "token"
    file.write_text(TOKENS["one"])
    with (
        running_server("--config", settings(tmp_path, tokens)) as server,
        sync_streams(server.address) as opening,
        queuegate.Gate(server.address, timeout=60, token_file=file, stale=600) as gate,
    ):
        eventually(lambda: gate.state, queuegate.GateState.LIVE)
        gate.check("alice", "root.work")
        kept, ended = opening(bearer("two")), opening(bearer("one"))
        for stream in (kept, ended):
            stream.open()
            stream.lease()
        tokens.write_text(_line("two"))
        eventually(lambda: _lease(ended), "UNAUTHENTICATED")
        # The gate has dropped its policy, whatever its lease and `stale` say.
        eventually(lambda: gate.state, queuegate.GateState.CONNECTING)
        with pytest.raises(queuegate.NotPermitted):
            gate.check("alice", "root.work")
        kept.lease()


def _lease(stream: SyncStream) -> str:
    """Return whether the server grants a lease, or how it has ended the stream."""
    try:
        stream.lease()
    except grpc.RpcError as error:
        return error.code().name
    return "OK"


def test_rights_that_change_end_streams(tmp_path: Path, tokens: Path) -> None:
    config = settings(tmp_path, tokens)
    with (
        NotifySocket(str(tmp_path / "notify")) as manager,
        running_server("--config", config, environment=manager.environment) as server,
        sync_streams(server.address) as opening,
    ):
        stream = opening(bearer("one"))
        assert not stream.open().assert_groups
        stream.lease()
        settings(tmp_path, tokens, assert_groups=True)
        server.process.send_signal(signal.SIGHUP)
        manager.wait_for("READY=1", count=2)
        stream.send("ping", id=99)
        code, details = stream.status()
        assert (code, "rights of the caller have changed" in details) == ("UNAVAILABLE", True)
        again = opening(bearer("one"))
        assert again.open().assert_groups
        again.lease()
        rights = {"one": {"roles": ["check"]}, "two": {"roles": ["sync"]}}
        callers = {"token_file": str(tokens), "tokens": rights}
        found = {"policy": {"path": str(tmp_path / "queues.yaml")}, "callers": callers}
        settings_file(tmp_path, found)
        server.process.send_signal(signal.SIGHUP)
        manager.wait_for("READY=1", count=3)
        again.send("ping", id=99)
        assert again.status()[0] == "PERMISSION_DENIED"


def test_a_server_that_drains_takes_its_leases_back(
    own_server: RunningServer, own_opening: Any
) -> None:
    streams = [own_opening() for _ in range(2)]
    for stream in streams:
        stream.open()
        stream.apply()
        stream.lease()
    own_server.process.send_signal(signal.SIGTERM)
    for stream in streams:
        stream.until("draining")
        stream.send("ping", id=99)
        stream.send("release")
        code, details = stream.status()
        assert (code, "draining" in details) == ("UNAVAILABLE", True)
    own_server.process.wait(60)
    assert not [each for each in own_server.logs if "waiting for gate leases" in each["event"]]


@pytest.mark.parametrize("way", ["silent", "gone"])
def test_a_server_waits_for_leases_that_nobody_gives_up(
    own_server: RunningServer, own_opening: Any, way: str
) -> None:
    stream = own_opening()
    stream.open()
    asked_at = stream.lease()
    if way == "gone":
        stream.close()
    own_server.process.send_signal(signal.SIGTERM)
    if way == "silent":
        stream.until("draining")
        assert stream.status()[0] == "UNAVAILABLE"
    own_server.process.wait(60)
    assert time.monotonic() >= asked_at + LEASE


def test_a_caller_that_gives_up_its_lease_is_not_waited_for(
    server: RunningServer, opening: Any
) -> None:
    with client_without_retries(server) as client:
        client.invalidate(wait=True)  # the leases of the process before
        stream = opening()
        stream.open()
        stream.apply()
        stream.lease()
        stream.send("release")
        assert stream.status() == ("OK", "")
        assert client.invalidate(["sam"], wait=True).waited_out == ()


def test_a_barrier_counts_the_next_stream_of_a_caller(server: RunningServer, opening: Any) -> None:
    with client_without_retries(server) as client:
        client.invalidate(wait=True)
        first, second = opening(), opening()
        opened = first.open(name="first", instance=b"1" * 16)
        applied = first.apply()
        first.lease()
        first.close()
        second.send(
            "open",
            instance=b"1" * 16,
            rules=[RULES],
            resume={"epoch": opened.epoch, "sequence": applied},
        )
        assert second.until("opened").opened.resumed
        second.send("applied", sequence=applied)
        found: list[Any] = []
        asking = threading.Thread(
            target=lambda: found.append(client.invalidate(["sam"], wait=True).waited_out)
        )
        asking.start()
        second.apply()
        asking.join(60)
        assert found == [()]
