"""What Redis refuses a replica is named wherever operators look: by ACLs, renamed commands, a full
memory, a Redis that takes no writes, a cluster, and TLS on one side only.
"""

import contextlib
import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import trustme

import queuegate
from queuegate.cli import main
from tests.support.eventually import eventually
from tests.support.fakes.scripted_directory import ScriptedDirectory
from tests.support.servers.admin_port import LISTEN, get_json, ops_address
from tests.support.servers.fleet import STAFF, Fleet
from tests.support.servers.free_ports import free_port
from tests.support.servers.redis_server import RedisServer, running_redis

GUIDE = Path("docs/how-to/run-a-fleet.md")


def rights() -> list[str]:
    """Return the rights in the guide's ACL rule."""
    [rule] = re.findall(r"^user queuegate on >PASSWORD (.*)$", GUIDE.read_text(), re.MULTILINE)
    words: list[str] = rule.split()
    return words


def grant(redis: RedisServer, *more: str) -> None:
    answer = redis.command("ACL", "SETUSER", "queuegate", "reset", "on", ">p", *rights(), *more)
    assert answer == b"+OK\r\n", answer


@contextlib.contextmanager
def fleet_on(redis: RedisServer, folder: Path) -> Iterator[Fleet]:
    fleet = Fleet(folder, redis, ScriptedDirectory(folder))
    try:
        yield fleet
    finally:
        fleet.close()


@pytest.fixture(scope="module")
def with_account(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    """Two replicas with the account of the guide."""
    folder = tmp_path_factory.mktemp("fleet")
    (folder / "password").write_text("p")
    (folder / "password").chmod(0o600)
    account: dict[str, Any] = {"username": "queuegate", "password_file": str(folder / "password")}
    with running_redis(folder / "redis") as redis, fleet_on(redis, folder) as fleet:
        grant(redis)
        for name in ("a", "b"):
            fleet.start(name, *LISTEN, **account)
        yield fleet


def problems(fleet: Fleet, name: str) -> str:
    return "; ".join(fleet.clients[name].get_fleet().problems)


def names_it(fleet: Fleet, name: str, text: str) -> bool:
    """Have a replica use all that it needs; return whether it then names a problem."""
    with contextlib.suppress(queuegate.ServerUnavailable):
        fleet.clients[name].invalidate(["sam"])
    with contextlib.suppress(queuegate.QueuegateError):
        fleet.may(name)
    return text in problems(fleet, name)


@pytest.mark.parametrize(
    "command",
    ["xread", "xrange", "xadd", "hset", "hrandfield", "set", "get", "strlen", "time", "eval"],
)
def test_a_command_that_the_account_may_not_run(
    with_account: Fleet, command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    fleet = with_account
    fleet.directory.reset({"sam": dict(STAFF)})
    eventually(lambda: problems(fleet, "a") + problems(fleet, "b"), "")
    denied = ["-eval", "-evalsha"] if command == "eval" else [f"-{command}"]
    name = "EVALSHA" if command == "eval" else command.upper()
    sentence = f"Redis refuses {name} ("
    try:
        grant(fleet.redis, *denied)
        for each in ("a", "b"):
            eventually(lambda each=each: names_it(fleet, each, sentence), True)  # type: ignore[misc]
        remedy = "grant the account in fleet.username the rights listed in the fleet guide"
        assert remedy in problems(fleet, "a")
        assert main(["fleet", "--address", fleet.servers["a"].address]) == 1
        assert sentence in " ".join(capsys.readouterr().err.split())
        assert any(sentence in each["event"] for each in fleet.servers["a"].logs)
        shown = get_json(ops_address(fleet.servers["a"]), "/readyz")[1]["fleet"]["problems"]
        assert sentence in "; ".join(shown)
    finally:
        grant(fleet.redis)
    eventually(lambda: problems(fleet, "a") + problems(fleet, "b"), "")


def commands_of_the_guide() -> list[str]:
    """Return the commands in the guide's ACL rule, except those of the driver in a cluster."""
    words = [
        each[1:] for each in rights() if each[0] == "+" and "@" not in each and "|" not in each
    ]
    return [word for word in words if word != "command"]


@pytest.mark.parametrize("command", commands_of_the_guide())
def test_it_is_named_before_anybody_needs_the_command(with_account: Fleet, command: str) -> None:
    """Many commands are needed only by an invalidation, a lookup or a cleanup."""
    fleet = with_account
    eventually(lambda: problems(fleet, "a") + problems(fleet, "b"), "")
    sentence = f"Redis refuses {command.upper()} ("
    try:
        grant(fleet.redis, f"-{command}")
        for each in ("a", "b"):
            eventually(lambda each=each: sentence in problems(fleet, each), True)  # type: ignore[misc]
    finally:
        grant(fleet.redis)
    eventually(lambda: problems(fleet, "a") + problems(fleet, "b"), "")


@pytest.mark.parametrize("cluster", [False, True], ids=["one server", "a cluster"])
def test_all_commands_that_only_changes_need_are_named_when_a_replica_joins(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], *, cluster: bool
) -> None:
    more = ["--rename-command", "XADD", "", "--rename-command", "HDEL", "hidden"]
    with (
        running_redis(tmp_path / "redis", cluster=cluster, more=more) as redis,
        fleet_on(redis, tmp_path) as fleet,
    ):
        url = redis.url
        if cluster:
            assert redis.command("CLUSTER", "ADDSLOTSRANGE", "0", "16383") == b"+OK\r\n"
            eventually(lambda: b"cluster_state:ok" in redis.command("CLUSTER", "INFO"), True)
            url = url.replace("redis:", "redis+cluster:")
        server = fleet.start("a", url=url)
        assert main(["fleet", "--address", server.address]) == 1
        printed = " ".join(capsys.readouterr().err.split())
        for command in ("XADD", "HDEL"):
            assert f"Redis refuses {command} (" in printed
            assert any(f"Redis refuses {command} (" in each["event"] for each in server.logs)
        assert "without renamed commands" in printed


def test_trying_commands_leaves_nothing_in_redis(tmp_path: Path) -> None:
    with running_redis(tmp_path / "redis") as redis, fleet_on(redis, tmp_path) as fleet:
        redis.command("XADD", "{queuegate}:absent", "*", "of", "others")
        fleet.start("a")
        assert redis.command("EXISTS", "{queuegate}:absent") == b":0\r\n"
        assert redis.command("KEYS", "{queuegate}:absent*") == b"*0\r\n"
        assert not problems(fleet, "a")


def test_a_replica_shows_what_another_one_is_refused(tmp_path: Path) -> None:
    (tmp_path / "password").write_text("p")
    account: dict[str, Any] = {"username": "queuegate", "password_file": str(tmp_path / "password")}
    with running_redis(tmp_path / "redis") as redis, fleet_on(redis, tmp_path) as fleet:
        grant(redis, "-xread")
        fleet.start("a", *LISTEN)
        fleet.start("b", *LISTEN, **account)
        eventually(lambda: "replica b: Redis refuses XREAD (" in problems(fleet, "a"), True)


def test_without_xread_events_are_still_followed(tmp_path: Path) -> None:
    with (
        running_redis(tmp_path / "redis", more=["--rename-command", "XREAD", ""]) as redis,
        fleet_on(redis, tmp_path) as fleet,
    ):
        fleet.directory.answer({"sam": dict(STAFF)})
        for name in ("a", "b"):
            fleet.start(name, *LISTEN)
        eventually(lambda: "Redis refuses XREAD (" in problems(fleet, "a"), True)
        assert "without renamed commands" in problems(fleet, "a")
        assert fleet.may("b")
        fleet.directory.answer({"sam": {"groups": ["others"]}})
        fleet.clients["a"].invalidate(["sam"])
        eventually(lambda: fleet.may("b"), False)


def alone(fleet: Fleet, text: str, **options: Any) -> None:
    """Expect that a replica works alone, and names a cause in its log and in what it shows."""
    server = fleet.start("alone", *LISTEN, follows=False, **options)
    eventually(lambda: text in problems(fleet, "alone"), True)
    assert "replica alone cannot use Redis and works alone: " in problems(fleet, "alone")
    eventually(lambda: any(text in each["event"] for each in server.logs), True)


@pytest.mark.parametrize(
    ("more", "text"),
    [
        (["--rename-command", "EVALSHA", ""], "Redis refuses EVALSHA ("),
        (["--rename-command", "HSET", "hidden"], "a fleet needs Redis 6.2 or newer"),
        (["--maxmemory", "1"], "give Redis more memory"),
        (["--min-replicas-to-write", "1"], "start the Redis replicas"),
        (["--replicaof", "127.0.0.1", str(free_port())], "fleet.url must name the master"),
    ],
)
def test_a_redis_that_refuses_everything(tmp_path: Path, more: list[str], text: str) -> None:
    with running_redis(tmp_path / "redis", more=more) as redis, fleet_on(redis, tmp_path) as fleet:
        alone(fleet, text)


def test_a_node_of_a_cluster(tmp_path: Path) -> None:
    with (
        running_redis(tmp_path / "redis", cluster=True) as redis,
        fleet_on(redis, tmp_path) as fleet,
    ):
        alone(fleet, "fleet.url must begin with redis+cluster://")


def test_a_password_that_is_wrong(tmp_path: Path) -> None:
    (tmp_path / "password").write_text("wrong")
    account: dict[str, Any] = {"password_file": str(tmp_path / "password")}
    with (
        running_redis(tmp_path / "redis", password="right") as redis,
        fleet_on(redis, tmp_path) as fleet,
    ):
        alone(fleet, "correct fleet.username and fleet.password_file", **account)


def test_a_password_that_is_not_set(tmp_path: Path) -> None:
    with (
        running_redis(tmp_path / "redis", password="right") as redis,
        fleet_on(redis, tmp_path) as fleet,
    ):
        alone(fleet, "Redis requires a password: set fleet.password_file")


def test_a_password_file_that_cannot_be_used(tmp_path: Path) -> None:
    """The cause names the file, and no byte of it."""
    password = tmp_path / "password"
    password.write_bytes(b"\xffsecret")
    with running_redis(tmp_path / "redis") as redis, fleet_on(redis, tmp_path) as fleet:
        alone(fleet, f"{password} is not UTF-8", password_file=str(password))
        assert "0xff" not in problems(fleet, "alone")


def test_a_redis_that_does_not_answer(tmp_path: Path) -> None:
    with running_redis(tmp_path / "redis") as redis, fleet_on(redis, tmp_path) as fleet:
        redis.freeze()
        alone(fleet, "no answer within 1 s")
        redis.thaw()


def without_scheme(url: str) -> str:
    return url.partition("://")[2]


@pytest.mark.parametrize("kind", ["", "+cluster"])
def test_tls_for_a_redis_without_it(tmp_path: Path, kind: str) -> None:
    with running_redis(tmp_path / "redis") as redis, fleet_on(redis, tmp_path) as fleet:
        url = f"rediss{kind}://{without_scheme(redis.url)}"
        alone(fleet, "does not speak TLS: fleet.url must begin with redis", url=url)


@pytest.mark.parametrize("clients", ["no", "yes"], ids=["", "with client certificates"])
def test_no_tls_for_a_redis_that_expects_it(tmp_path: Path, clients: str) -> None:
    more = ["--tls-auth-clients", clients]
    with (
        running_redis(tmp_path / "redis", ca=trustme.CA(), more=more) as redis,
        fleet_on(redis, tmp_path) as fleet,
    ):
        url = f"redis://{without_scheme(redis.url)}"
        alone(fleet, "expects TLS: fleet.url must begin with rediss", url=url)


YESTERDAY = datetime.now(UTC) - timedelta(days=1)


@pytest.mark.parametrize(
    ("of_redis", "of_replica", "text"),
    [
        (YESTERDAY, None, "renew the certificate of Redis, or the CA's in fleet.ca_file"),
        (None, YESTERDAY, "renew the certificate in fleet.cert_file, which has expired"),
    ],
    ids=["of Redis", "of the replica"],
)
def test_an_expired_certificate(
    tmp_path: Path, of_redis: datetime | None, of_replica: datetime | None, text: str
) -> None:
    ca = trustme.CA()
    leaf = ca.issue_cert("replica", not_after=of_replica)
    leaf.cert_chain_pems[0].write_to_path(str(tmp_path / "cert.pem"))
    leaf.private_key_pem.write_to_path(str(tmp_path / "key.pem"))
    (tmp_path / "key.pem").chmod(0o600)
    files = {"cert_file": str(tmp_path / "cert.pem"), "key_file": str(tmp_path / "key.pem")}
    more = ["--tls-auth-clients", "yes"]
    with (
        running_redis(tmp_path / "redis", ca=ca, not_after=of_redis, more=more) as redis,
        fleet_on(redis, tmp_path) as fleet,
    ):
        alone(fleet, text, ca_file=str(redis.folder / "ca.pem"), **files)
