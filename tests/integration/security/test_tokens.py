"""Bearer tokens: whom they let in, and the file of their hashes."""

import hashlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest
from click.testing import CliRunner

import queuegate
from queuegate._channel import TOKEN_CHECK_SECONDS, BearerToken
from queuegate.cli import main
from queuegate_server.cli.main import command_group
from queuegate_server.files.watcher import MAX_BYTES, BadFile
from queuegate_server.rpc.tokens import GRACE_SECONDS, MAX_TOKENS, TokenFile
from tests.integration.security.authorities import (
    Authority,
    channel,
    client,
    configured,
    reveals_nothing,
    with_tls,
)
from tests.support.eventually import eventually
from tests.support.rows import rows
from tests.support.servers.queuegate_server import RunningServer

CI = "qg_" + "c" * 43
OTHER = "qg_" + "o" * 43
ROLELESS = "qg_" + "r" * 43
SHORT = "c" * 31


def line(name: str, token: str) -> str:
    return f"{name}:{hashlib.sha256(token.encode()).hexdigest()}\n"


def replace(file: Path, text: str) -> None:
    new = file.with_suffix(".new")
    new.write_text(text)
    new.replace(file)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tokens")
    (folder / "tokens").write_text(
        "# who calls\n\n" + line("ci", CI) + line("roleless", ROLELESS) + line("ci", SHORT)
    )
    return folder


@pytest.fixture(scope="module")
def server(folder: Path, authority: Authority) -> Iterator[RunningServer]:
    callers = {
        "loopback": {"roles": ["read"]},
        "token_file": str(folder / "tokens"),
        "tokens": {"ci": {"roles": ["check"]}, "nobody": {"roles": ["admin"]}},
    }
    with configured(folder, [with_tls(authority, mutual=False)], callers=callers) as started:
        yield started


def token_file(folder: Path, token: str) -> Path:
    file = folder / "token"
    file.write_text(token + "\n")
    return file


@rows
def test_a_token_decides(
    server: RunningServer, authority: Authority, tmp_path: Path, token: str, code: str
) -> None:
    file = token_file(tmp_path, token)
    with client(server.address, authority.tls(), token_file=file) as asking:
        if not code:
            assert asking.check("alice", "root.open")
            # Not also what loopback may: a token is not taken for less.
            with pytest.raises(queuegate.NotPermitted) as caught:
                asking.get_policy()
            assert caught.value.message == (
                "this call needs the read role, which token:ci does not have: add it to"
                " callers.tokens.ci.roles, now [check], in the server's settings"
            )
            return
        with pytest.raises(queuegate.NotPermitted) as caught:
            asking.check("alice", "root.open")
    assert caught.value.code == code
    assert reveals_nothing(caught.value)
    assert token not in str(caught.value)
    if token == SHORT:
        assert "is too short: it must have at least 32 characters" in caught.value.message
    if token == ROLELESS:
        message = "the bearer token has no role: give roleless one in callers.tokens"
        assert caught.value.message == message


@pytest.mark.parametrize(
    "sent",
    [
        [("authorization", "Basic " + CI)],
        [("authorization", CI)],
        [("authorization", "Bearer")],
        [("authorization", "Bearer ")],
        [("authorization", f"Bearer {CI}"), ("authorization", f"Bearer {CI}")],
        [("authorization", "Bearer " + "x" * 5000)],
    ],
)
def test_malformed_credentials(
    server: RunningServer, authority: Authority, sent: list[tuple[str, str]]
) -> None:
    with channel(server.address, authority.tls()) as asking:
        call: Any = asking.unary_unary("/queuegate.v1.PolicyService/GetPolicy")
        call(b"", timeout=60)
        with pytest.raises(grpc.RpcError) as caught:
            call(b"", timeout=60, metadata=sent)
    assert caught.value.code() is grpc.StatusCode.UNAUTHENTICATED


def test_tokens_are_followed_and_a_bad_file_changes_nothing(
    tmp_path: Path, authority: Authority
) -> None:
    tokens = tmp_path / "tokens"
    tokens.write_text(line("ci", CI))
    callers = {"token_file": str(tokens), "tokens": {"ci": {"roles": ["check"]}}}
    with (
        configured(tmp_path, [with_tls(authority, mutual=False)], callers=callers) as server,
        client(server.address, authority.tls(), token_file=token_file(tmp_path, CI)) as asking,
    ):

        def allowed() -> bool:
            try:
                return bool(asking.check("alice", "root.open"))
            except queuegate.NotPermitted:
                return False

        assert allowed()
        replace(tokens, line("ci", CI) + "qg_not-a-hash\n")
        fault = server.wait_for_log("cannot use the changed file")
        assert f"{tokens}:2: not of the form name:sha256" in fault["error"]
        assert "qg_not" not in fault["error"]
        assert allowed()
        replace(tokens, line("ci", OTHER))
        eventually(allowed, expected=False)
        # The client also follows its file.
        token_file(tmp_path, OTHER)
        eventually(allowed, expected=True)
        tokens.unlink()
        server.wait_for_log("cannot use the changed file", count=2)
        assert allowed()
        replace(tokens, "")
        eventually(allowed, expected=False)


def test_the_command_makes_a_token_that_works(
    server: RunningServer,
    folder: Path,
    authority: Authority,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    result = CliRunner().invoke(command_group(), ["token", "ci"])
    token, entry = (printed.rpartition(": ")[2] for printed in result.output.splitlines())
    assert token not in entry
    before = (folder / "tokens").read_text()
    replace(folder / "tokens", f"{before}{entry}\n")
    options = [
        *("--address", server.address, "--tls-ca", str(authority.file), "--timeout", "10"),
        *("--token-file", str(token_file(tmp_path, token))),
    ]
    eventually(lambda: main([*options, "check", "alice", "root.open"]), 0)
    capsys.readouterr()
    assert main([*options, "policy"]) == 2
    assert "the read role, which token:ci does not have" in capsys.readouterr().err


def test_every_token_is_another() -> None:
    made = {CliRunner().invoke(command_group(), ["token", "ci"]).output for _ in range(20)}
    assert len(made) == 20


@pytest.mark.parametrize("name", ["", "a b", "a:b", "-a", "ä", "a\n", "a" * 65])
def test_names_that_no_token_can_have(name: str) -> None:
    result = CliRunner().invoke(command_group(), ["token", "--", name])
    assert result.exit_code == 2


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("ci", "t:1: not of the form"),
        ("ci:abc", "t:1: not of the form"),
        (line("a", CI).upper(), "t:1: not of the form"),
        (line("a b", CI), "t:1: not of the form"),
        ("\n#\n:" + "0" * 64, "t:3: not of the form"),
        (line("a", CI) + line("b", CI), "t:2: an earlier line has this token"),
        ("".join(line("a", str(each)) for each in range(MAX_TOKENS + 1)), "there are more than"),
        (line("a", CI) + "#" * MAX_BYTES, "t: is larger than 1048576 bytes"),
    ],
)
def test_faults_of_the_file(tmp_path: Path, text: str, fault: str) -> None:
    (tmp_path / "t").write_text(text)
    with pytest.raises(BadFile, match=fault):
        TokenFile(tmp_path / "t")


async def test_a_file_that_is_rewritten_in_place(tmp_path: Path) -> None:
    """Whoever reads it meanwhile finds it empty or incomplete."""
    file, now = tmp_path / "tokens", 0.0
    complete = line("ci", CI) + line("other", OTHER)
    file.write_text(complete)
    tokens = TokenFile(file, lambda: now)
    versions = {tokens.version}

    async def owners(text: str) -> list[str | None]:
        file.write_text(text)
        await tokens.reload()
        versions.add(tokens.version)
        return [tokens.name_of(each) for each in (CI, OTHER, ROLELESS)]

    for length in (0, 10, len(complete) // 2, len(complete) - 1, len(complete)):
        assert await owners(complete[:length]) == ["ci", "other", None], length
        now += GRACE_SECONDS / 10
    now += 100
    assert await owners(complete) == ["ci", "other", None]
    # The time begins when the line is gone, however often the file changes then.
    for text in ("", "# \n", "x"):
        assert await owners(text) == ["ci", "other", None]
        now += GRACE_SECONDS / 3
    now += 0.01
    before = tokens.version
    assert await owners("y") == [None, None, None]
    assert tokens.version != before
    # What was removed does not come back before the file has no fault.
    assert await owners(line("ci", CI) + "y") == [None, None, None]
    assert await owners(line("ci", CI)) == ["ci", None, None]


@pytest.mark.parametrize("fault", ["fault\n", line("third", OTHER), "\0", "#" * MAX_BYTES])
async def test_a_removed_token_is_refused_even_if_the_file_has_a_fault(
    tmp_path: Path, fault: str
) -> None:
    file, now = tmp_path / "tokens", 0.0
    file.write_text(line("ci", CI) + line("other", OTHER))
    tokens = TokenFile(file, lambda: now)
    file.write_text(line("other", OTHER) + line("new", ROLELESS) + fault)
    await tokens.reload()
    assert tokens.has_fault
    assert tokens.name_of(CI) == "ci"
    before = tokens.version
    now += GRACE_SECONDS
    assert [tokens.name_of(each) for each in (CI, OTHER, ROLELESS)] == [None, "other", None]
    assert tokens.version != before
    # A token that gets another owner has only that one.
    file.write_text(line("third", OTHER))
    await tokens.reload()
    assert tokens.name_of(OTHER) == "third"


async def test_a_reload_of_the_settings_while_the_file_is_written(tmp_path: Path) -> None:
    file, complete = tmp_path / "tokens", line("ci", CI) + line("other", OTHER)
    file.write_text(complete)
    tokens = TokenFile(file, lambda: 0.0)
    file.write_text(complete[: len(line("ci", CI)) + 10])
    await tokens.reload()
    tokens.end_grace()
    assert tokens.name_of(OTHER) == "other"
    file.write_text(line("ci", CI))
    await tokens.reload()
    assert tokens.name_of(OTHER) == "other"
    tokens.end_grace()
    assert tokens.name_of(OTHER) is None


def test_a_byte_order_mark_and_other_line_ends(tmp_path: Path) -> None:
    text = "\ufeff# tokens\r\n\r\n" + line("a", CI).replace("\n", "\r\n")
    (tmp_path / "t").write_bytes(text.encode())
    assert TokenFile(tmp_path / "t").names == {"a"}


def test_two_tokens_of_one_name_while_one_takes_over(tmp_path: Path) -> None:
    file = tmp_path / "tokens"
    file.write_text(line("ci", CI) + line("ci", OTHER))
    tokens = TokenFile(file)
    assert [tokens.name_of(each) for each in (CI, OTHER, ROLELESS, "")] == ["ci", "ci", None, None]


def test_a_token_is_not_sent_without_encryption(tmp_path: Path) -> None:
    file = token_file(tmp_path, CI)
    for address in ("example.org:1", "10.0.0.1:1", "[2001:db8::1]:1", "localhost.example.org:1"):
        with pytest.raises(ValueError, match=r"send the token to .* unencrypted") as caught:
            client(address, token_file=file)
        assert CI not in str(caught.value)
    for address in ("127.0.0.1:1", "[::1]:1", "localhost:1", f"unix:{tmp_path}/q.sock"):
        client(address, token_file=file).close()
    client("example.org:1", queuegate.Tls(), token_file=file).close()


@pytest.mark.parametrize("content", [b"", b"two words", b"\xff", b"a\nb", b"x" * 5000])
def test_files_that_hold_no_token(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "token"
    file.write_bytes(content)
    with pytest.raises(ValueError, match="must contain exactly one ASCII token"):
        client("localhost:1", token_file=file)


def test_a_token_file_that_is_no_regular_file(tmp_path: Path) -> None:
    """Opening the pipe would block: nobody writes to it."""
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ValueError, match="must be a regular file"):
        client("localhost:1", token_file=tmp_path / "pipe")
    with pytest.raises(IsADirectoryError):
        client("localhost:1", token_file=tmp_path)


def test_a_token_file_that_becomes_unreadable_is_logged_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file, now = token_file(tmp_path, CI), 0.0
    token = BearerToken(file, lambda: now)

    def faults() -> list[str]:
        nonlocal now
        now += TOKEN_CHECK_SECONDS
        assert token.metadata == (("authorization", f"Bearer {CI}"),)
        return [record.getMessage() for record in caplog.records]

    file.unlink()
    faults()
    assert len(faults()) == 1
    os.mkfifo(file)
    assert "must be a regular file" in faults()[1]
    file.unlink()
    token_file(tmp_path, CI)
    assert len(faults()) == 2
    file.unlink()
    assert len(faults()) == 3
    assert CI not in str(faults())


async def test_the_client_for_asyncio_sends_it_as_well(
    server: RunningServer, authority: Authority, tmp_path: Path
) -> None:
    make: Callable[..., queuegate.aio.Client] = queuegate.aio.Client
    file = token_file(tmp_path, CI)
    async with make(server.address, timeout=60, tls=authority.tls(), token_file=file) as asking:
        assert await asking.check("alice", "root.open")
