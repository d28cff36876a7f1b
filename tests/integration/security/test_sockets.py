"""Unix sockets, and what is not encrypted."""

import grp
import json
import logging
import os
import pwd
import socket
import stat
from pathlib import Path

import pytest

from queuegate_server.runtime.tcp import CannotListen
from queuegate_server.server.listeners import Listeners
from queuegate_server.settings.listeners import parse_address
from queuegate_server.settings.load import load_settings
from queuegate_server.transports.sockets import bind
from tests.integration.security.authorities import client, configured
from tests.support.servers.queuegate_server import run


def test_each_socket_has_its_own_mode_and_accounts(tmp_path: Path) -> None:
    group = grp.getgrgid(os.getgid()).gr_name
    listen = [
        {"address": f"unix:{tmp_path}/a.sock", "mode": "0600", "owner": os.getuid()},
        {"address": f"unix:{tmp_path}/b.sock", "mode": "0666", "group": group},
    ]
    with configured(tmp_path, listen) as server:
        first, second = (tmp_path / name for name in ("a.sock", "b.sock"))
        assert stat.S_IMODE(first.stat().st_mode) == 0o600
        assert stat.S_IMODE(second.stat().st_mode) == 0o666
        assert first.stat().st_uid == os.getuid()
        assert second.stat().st_gid == os.getgid()
        for address in server.address.split(", "):
            with client(address) as asking:
                assert asking.check("alice", "root.open")


class BindsSocket:
    """Binds a Unix socket as gRPC does, and returns its mode before anything else happened."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.mode_at_first = -1

    def add_insecure_port(self, address: str) -> int:
        with socket.socket(socket.AF_UNIX) as opened:
            opened.bind(str(self.path))
        self.mode_at_first = stat.S_IMODE(self.path.stat().st_mode)
        return 1


def test_nobody_may_connect_before_the_socket_has_its_owner(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "q.sock"
    given: list[tuple[int, int, int]] = []
    monkeypatch.setattr(
        os,
        "chown",
        lambda path, user, group: given.append(
            (user, group, stat.S_IMODE(os.stat(path).st_mode))  # noqa: PTH116
        ),
    )
    server = BindsSocket(path)
    root = pwd.getpwuid(0)
    add_port = server.add_insecure_port
    bind(add_port, parse_address(f"unix:{path}"), 0o660, owner=root.pw_name, group="7")
    assert server.mode_at_first == 0
    assert given == [(0, 7, 0)]
    assert stat.S_IMODE(path.stat().st_mode) == 0o660


@pytest.mark.parametrize(
    ("accounts", "fault"),
    [
        ({"owner": "no-such-user"}, "there is no user 'no-such-user'"),
        ({"group": "no-such-group"}, "there is no group 'no-such-group'"),
    ],
)
def test_accounts_that_are_not_there(tmp_path: Path, accounts: dict[str, str], fault: str) -> None:
    path = tmp_path / "q.sock"
    with pytest.raises(CannotListen, match=fault):
        bind(BindsSocket(path).add_insecure_port, parse_address(f"unix:{path}"), 0o660, **accounts)
    assert not path.exists()


def test_a_socket_that_may_not_be_given_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "chown", refuse)
    path = tmp_path / "q.sock"
    with pytest.raises(CannotListen, match="cannot be given to 0:: Operation not permitted"):
        bind(BindsSocket(path).add_insecure_port, parse_address(f"unix:{path}"), 0o660, owner="0")
    assert not path.exists()


def test_plaintext_beyond_this_machine_is_refused_at_the_start() -> None:
    outcome = run("serve", "--listen", "0.0.0.0:0")
    assert outcome.returncode == 2
    assert "0.0.0.0:0 can be reached from other machines: set tls" in outcome.stderr
    assert "insecure: true" in outcome.stderr


def test_insecure_settings_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    settings = load_settings(None, {}, ['listen=[{"address": "0.0.0.0:1", "insecure": true}]'])
    with caplog.at_level(logging.WARNING):
        Listeners(settings, lambda: 0.0, lambda: 0.0).warn()
    assert [record.getMessage().partition(":")[0] for record in caplog.records] == [
        "listening in plaintext beyond this machine",
        "callers on other machines may only call the health service",
    ]


async def test_tokens_without_a_line_are_warned_of(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "tokens"
    file.touch(0o600)
    file.write_text(f"ci:{'0' * 64}\n")
    tokens = {name: {"roles": ["read"]} for name in ("ci", "dashboard", "ops")}
    options = [f"callers.token_file={file}", f"callers.tokens={json.dumps(tokens)}"]
    settings = load_settings(None, {}, options)
    listeners = Listeners(settings, lambda: 0.0, lambda: 0.0)
    listeners.warn()
    file.write_text("".join(f"{name}:{n}{'0' * 63}\n" for n, name in enumerate(("ci", "ops"))))
    await listeners.reconfigure(settings.callers)
    about = [record for record in caplog.records if record.levelno >= logging.WARNING]
    assert all("have no line in token_file" in record.getMessage() for record in about)
    assert [record.__dict__["names"] for record in about] == [["dashboard", "ops"], ["dashboard"]]


def test_files_that_everyone_may_read_or_change_are_warned_of(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    files = {name: tmp_path / name for name in ("c", "k", "a", "t")}
    keys = zip(("certificate_file", "key_file", "client_ca_file"), "cka", strict=True)
    tls = {key: str(files[name]) for key, name in keys}
    settings = load_settings(
        None,
        {},
        [
            f"listen={json.dumps([{'address': '[::1]:1', 'tls': tls}])}",
            f"callers.token_file={files['t']}",
        ],
    )
    for mode, warned in ((0o640, ""), (0o644, "k"), (0o666, "kat")):
        for file in files.values():
            file.touch()
            file.chmod(mode)
        caplog.clear()
        listeners = Listeners(settings, lambda: 0.0, lambda: 0.0)
        listeners.warn()
        logged = [Path(record.__dict__["file"]).name for record in caplog.records]
        assert "".join(logged) == warned
