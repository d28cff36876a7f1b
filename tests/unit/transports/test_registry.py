"""Which transport serves given settings, and why not the native one."""

import importlib.util
import socket
import tempfile
from pathlib import Path
from typing import Any

import pytest

from queuegate_server.runtime.tcp import CannotListen
from queuegate_server.settings.limits import Connections
from queuegate_server.settings.listeners import Listener
from queuegate_server.transports.registry import choose
from tests.support.rows import rows

HERE = {"address": "127.0.0.1:1"}
TLS = {"certificate_file": "a", "key_file": "b"}
ONLY_HERE = "'0.0.0.0:1': transport native serves only loopback addresses"


@rows
def test_native_serves_settings_that_it_supports(
    listeners: list[dict[str, Any]], connections: dict[str, Any], against: str
) -> None:
    asked = [Listener.model_validate(one) for one in listeners], Connections(**connections)
    assert choose("grpcio", *asked) == ("grpcio", "not requested")
    found, why = choose("auto", *asked)
    assert found == ("grpcio" if against else "native")
    assert against in why
    assert bool(against) is bool(why)
    if against:
        with pytest.raises(CannotListen, match=r"; use transport: grpcio$"):
            choose("native", *asked)
    else:
        assert choose("native", *asked) == ("native", "")


def test_every_reason_is_reported() -> None:
    listeners = [{"address": "unix:/x"}, {"address": "0.0.0.0:1", "tls": TLS}]
    asked = [Listener.model_validate(one) for one in listeners], Connections(max_age=60)
    with pytest.raises(CannotListen) as caught:
        choose("native", *asked)
    assert str(caught.value).split("; ") == [
        "'unix:/x': transport native does not support Unix sockets",
        "'0.0.0.0:1': transport native does not support TLS",
        ONLY_HERE,
        "'0.0.0.0:1': transport native serves only one address",
        "'unix:/x': transport native does not support limits.connections.max_age",
        "use transport: grpcio",
    ]


@rows
def test_a_name_with_several_addresses(
    hosts: list[str], against: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def resolve(name: str, _port: None, **_: object) -> list[tuple[object, ...]]:
        assert name == "localhost"
        return [(0, 0, 0, "", (host, 0)) for host in hosts]

    monkeypatch.setattr(socket, "getaddrinfo", resolve)
    named = [Listener.model_validate({"address": "localhost:1"})]
    assert choose("auto", named, Connections()) == ("grpcio" if against else "native", against)


def test_a_folder_for_the_socket_of_streams(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = [Listener.model_validate(HERE)], Connections()
    for length, serves in ((75, "native"), (76, "grpcio")):
        monkeypatch.setattr(tempfile, "tempdir", "/".ljust(length, "a"))
        assert choose("auto", *here)[0] == serves
    monkeypatch.setattr(tempfile, "tempdir", None)
    monkeypatch.setattr(tempfile, "_candidate_tempdir_list", lambda: [str(tmp_path / "absent")])
    found, why = choose("auto", *here)
    assert found == "grpcio"
    assert why.endswith("for a socket: set TMPDIR")


def test_without_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda _name: None)
    here = [Listener.model_validate(HERE)]
    found, why = choose("auto", here, Connections())
    assert found == "grpcio"
    assert "pip install 'queuegate[server,native]'" in why
    with pytest.raises(CannotListen, match="not installed"):
        choose("native", here, Connections())
