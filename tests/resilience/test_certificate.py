"""The certificate of the server expires, and is renewed."""

import datetime as dt
from pathlib import Path

import pytest
import trustme

import queuegate
from tests.resilience.invariants import Record, is_serving, under_load
from tests.support.eventually import eventually
from tests.support.fakes.scripted_directory import settings_file
from tests.support.servers.queuegate_server import running_server


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


def test_expired_and_renewed(
    tmp_path: Path, policy_file: Path, record: Record, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Connected clients go on; new ones refuse the old certificate and take the new one."""
    ca = trustme.CA()
    ca.cert_pem.write_to_path(tmp_path / "ca.pem")
    monkeypatch.setenv("QUEUEGATE_CA_FILE", str(tmp_path / "ca.pem"))
    write(tmp_path, ca, dt.timedelta(days=1))
    pem = str(tmp_path / "server.pem")
    tls = {"certificate_file": pem, "key_file": pem}
    settings = {
        "listen": [{"address": "127.0.0.1:0", "tls": tls}],
        "policy": {"path": str(policy_file)},
    }
    config = settings_file(tmp_path, settings)
    with (
        running_server("--config", config, listen=()) as server,
        under_load(server, record) as fault,
    ):
        # It is read while it is valid: an expired certificate would not replace a valid one.
        write(tmp_path, ca, dt.timedelta(seconds=20))
        eventually(lambda: connects(server.address), expected=False)
        with fault.expected_to_serve():
            write(tmp_path, ca, dt.timedelta(days=1))
            eventually(lambda: connects(server.address), expected=True)
    assert set(fault.outcomes) == {"answered"}
