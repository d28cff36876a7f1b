"""The certificate of the server expires, and is renewed."""

import datetime as dt
from collections.abc import Iterator
from pathlib import Path

import pytest
import trustme

import queuegate
from tests.resilience.invariants import Record, is_serving, under_load
from tests.support.eventually import eventually
from tests.support.fakes.scripted_directory import settings_file
from tests.support.servers.queuegate_server import RunningServer, running_server

DAY = dt.timedelta(days=1)


def write(folder: Path, ca: trustme.CA, lifetime: dt.timedelta) -> None:
    """Write a certificate that is good from now on."""
    issued = ca.issue_cert("127.0.0.1", not_after=dt.datetime.now(dt.UTC) + lifetime)
    new = folder / "new.pem"
    issued.private_key_and_cert_chain_pem.write_to_path(new)
    new.replace(folder / "server.pem")


def connects(address: str) -> bool:
    """Say whether a client that was not there before can connect."""
    with queuegate.Client(address, timeout=60, retry=queuegate.Retry(attempts=1)) as client:
        return is_serving(client)


@pytest.fixture
def ca(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> trustme.CA:
    """The authority that all clients trust."""
    ca = trustme.CA()
    ca.cert_pem.write_to_path(tmp_path / "ca.pem")
    monkeypatch.setenv("QUEUEGATE_CA_FILE", str(tmp_path / "ca.pem"))
    return ca


@pytest.fixture
def server(tmp_path: Path, policy_file: Path, ca: trustme.CA) -> Iterator[RunningServer]:
    """A server whose certificate is valid for a day."""
    write(tmp_path, ca, DAY)
    pem = str(tmp_path / "server.pem")
    tls = {"certificate_file": pem, "key_file": pem}
    settings = {
        "listen": [{"address": "127.0.0.1:0", "tls": tls}],
        "policy": {"path": str(policy_file)},
    }
    with running_server("--config", settings_file(tmp_path, settings), listen=()) as started:
        yield started


def test_expired_and_renewed(
    tmp_path: Path, server: RunningServer, ca: trustme.CA, record: Record
) -> None:
    """Connected clients go on; new ones refuse the old certificate and take the new one."""
    with under_load(server, record) as fault:
        # It is read while it is valid: an expired certificate would not replace a valid one.
        write(tmp_path, ca, dt.timedelta(seconds=20))
        eventually(lambda: connects(server.address), expected=False)
        with fault.expected_to_serve():
            write(tmp_path, ca, DAY)
            eventually(lambda: connects(server.address), expected=True)
    assert set(fault.outcomes) == {"answered"}


def test_replaced_by_an_expired_one(
    tmp_path: Path, server: RunningServer, ca: trustme.CA, record: Record
) -> None:
    """The valid one stays in use, for connected clients and for new ones."""
    with under_load(server, record) as fault:
        write(tmp_path, ca, -DAY)
        entry = server.wait_for_log("cannot use the changed file")
        assert "server.pem: the new certificate expired on " in entry["error"]
        assert connects(server.address)
        with fault.expected_to_serve():
            write(tmp_path, ca, DAY)
            server.wait_for_log("reloaded a changed file")
            assert connects(server.address)
    assert set(fault.outcomes) == {"answered"}
