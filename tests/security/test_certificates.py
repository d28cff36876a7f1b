"""Certificates of the server: what is wrong with them at the start, and how they are renewed."""

import datetime as dt
import os
import shutil
import ssl
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
import trustme
import yaml
from click.testing import CliRunner
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

import queuegate
from queuegate_server.cli.group import group
from queuegate_server.files.followed_files import BadFile
from queuegate_server.settings.listeners import Tls
from queuegate_server.transports.certificates import FollowedCertificate
from tests.running import RunningServer, server_command
from tests.security.authorities import Authority, client, configured, dns, with_tls
from tests.waiting import eventually


@pytest.fixture
def ours(tmp_path: Path) -> Authority:
    folder = tmp_path / "authority"
    folder.mkdir()
    return Authority(folder, trustme.CA())


def mount(folder: Path, files: dict[str, bytes]) -> None:
    """Put files into a folder as Kubernetes does: links to a link that is swapped."""
    number = len(list(folder.iterdir()))
    content = folder / f"..{number}"
    content.mkdir()
    for name, data in files.items():
        (content / name).write_bytes(data)
        if not (folder / name).is_symlink():
            (folder / name).symlink_to(f"..data/{name}")
    new = folder / "..new"
    new.symlink_to(content.name)
    new.replace(folder / "..data")


def issued(authority: Authority) -> dict[str, bytes]:
    certificate, key = authority.server()
    return {
        "tls.crt": certificate.read_bytes(),
        "tls.key": key.read_bytes(),
        "ca.crt": authority.file.read_bytes(),
    }


def listener(folder: Path) -> dict[str, object]:
    tls = {
        "certificate_file": str(folder / "tls.crt"),
        "key_file": str(folder / "tls.key"),
        "client_ca_file": str(folder / "ca.crt"),
    }
    return {"address": "127.0.0.1:0", "tls": tls}


def served(server: RunningServer) -> str:
    host, port = server.address.rsplit(":", 1)
    return ssl.get_server_certificate((host, int(port)), timeout=60)


def leaf(files: dict[str, bytes]) -> str:
    end = b"-----END CERTIFICATE-----\n"
    return (files["tls.crt"].partition(end)[0] + end).decode()


CALLERS = {"certificates": {"dns:caller.example.org": {"roles": ["check"]}}}


def test_renewed_under_load_without_a_failed_call(tmp_path: Path, ours: Authority) -> None:
    """Old connections go on, new ones get the new certificate; no call fails."""
    mounted = tmp_path / "mounted"
    mounted.mkdir()
    mount(mounted, issued(ours))
    shown = ours.client("caller", dns("caller.example.org"))
    answered, failed, ended = [0], list[Exception](), threading.Event()

    def ask(keep: bool) -> None:
        asking = client(address, shown)
        while not ended.is_set():
            try:
                answered[0] += bool(asking.check("alice", "root.open"))
                if not keep:
                    asking.close()
                    asking = client(address, shown)
            except Exception as error:
                failed.append(error)
        asking.close()

    with configured(tmp_path, [listener(mounted)], callers=CALLERS) as server:
        address = server.address
        threads = [threading.Thread(target=ask, args=(keep,)) for keep in (True, True, False)]
        for thread in threads:
            thread.start()
        try:
            for _ in range(3):
                renewed = issued(ours)
                mount(mounted, renewed)
                eventually(lambda: served(server), leaf(renewed))
        finally:
            ended.set()
            for thread in threads:
                thread.join(60)
    assert not failed
    assert answered[0] > 0


def test_another_authority_of_callers_is_taken_over(
    tmp_path: Path, ours: Authority, stranger: Authority
) -> None:
    mounted = tmp_path / "mounted"
    mounted.mkdir()
    files = issued(ours)
    mount(mounted, files)
    old = ours.client("old", dns("caller.example.org"))
    new = stranger.client("new", dns("caller.example.org"))
    new = queuegate.Tls(ours.file, new.certificate_file, new.key_file)

    def accepted() -> list[bool]:
        found = []
        for shown in (old, new):
            with client(server.address, shown) as asking:
                try:
                    found.append(bool(asking.check("alice", "root.open")))
                except queuegate.ServerUnavailable:
                    found.append(False)
        return found

    with configured(tmp_path, [listener(mounted)], callers=CALLERS) as server:
        assert accepted() == [True, False]
        mount(mounted, {**files, "ca.crt": stranger.file.read_bytes()})
        eventually(accepted, [False, True])


def test_what_is_not_usable_keeps_the_old_certificate(tmp_path: Path, ours: Authority) -> None:
    mounted = tmp_path / "mounted"
    mounted.mkdir()
    before = issued(ours)
    mount(mounted, before)
    other = issued(ours)
    shown = ours.client("caller", dns("caller.example.org"))
    broken: list[tuple[dict[str, bytes], str]] = [
        ({**before, "tls.key": other["tls.key"]}, "not that of"),
        ({**before, "tls.crt": before["tls.crt"][:300]}, "tls.crt: certificate_file has no PEM"),
        ({**before, "ca.crt": b"-"}, "ca.crt: client_ca_file has no PEM certificate"),
    ]
    with configured(tmp_path, [listener(mounted)], callers=CALLERS) as server:
        for count, (files, fault) in enumerate(broken, start=1):
            mount(mounted, files)
            entry = server.wait_for_log("a changed file is not used", count=count)
            assert fault in entry["error"]
            assert served(server) == leaf(before)
            with client(server.address, shown) as asking:
                assert asking.check("alice", "root.open")
        mount(mounted, other)
        server.wait_for_log("changed files are used")
        eventually(lambda: served(server), leaf(other))


def test_a_file_that_hangs_holds_up_nothing(tmp_path: Path, ours: Authority) -> None:
    """A pipe in place of the key: it is not opened as a file would be."""
    mounted = tmp_path / "mounted"
    mounted.mkdir()
    mount(mounted, issued(ours))
    shown = ours.client("caller", dns("caller.example.org"))
    with configured(tmp_path, [listener(mounted)], callers=CALLERS) as server:
        (mounted / "tls.key").unlink()
        os.mkfifo(mounted / "tls.key")
        entry = server.wait_for_log("a changed file is not used")
        assert entry["error"] == f"{mounted}/tls.key: not a regular file"
        with client(server.address, shown) as asking:
            assert asking.check("alice", "root.open")


def with_passphrase(folder: Path) -> None:
    key = serialization.load_pem_private_key((folder / "tls.key").read_bytes(), None)
    (folder / "tls.key").write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.BestAvailableEncryption(b"secret"),
        )
    )


def on_another_curve(folder: Path) -> None:
    """Write a certificate that OpenSSL takes and gRPC does not."""
    key = ec.generate_private_key(ec.BrainpoolP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "localhost")])
    now = dt.datetime.now(dt.UTC)
    made = x509.CertificateBuilder(name, name, key.public_key(), 1, now, now + dt.timedelta(1))
    pem = serialization.Encoding.PEM
    (folder / "tls.crt").write_bytes(made.sign(key, hashes.SHA256()).public_bytes(pem))
    (folder / "tls.key").write_bytes(
        key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )


def test_an_expired_certificate_is_told(
    tmp_path: Path, ours: Authority, caplog: pytest.LogCaptureFixture
) -> None:
    yesterday = dt.datetime.now(dt.UTC) - dt.timedelta(1)
    expired = ours.made.issue_cert("localhost", not_after=yesterday)
    files = {**issued(ours), "tls.key": expired.private_key_pem.bytes()}
    files["tls.crt"] = expired.cert_chain_pems[0].bytes()
    for name, content in files.items():
        (tmp_path / name).write_bytes(content)
    FollowedCertificate(Tls.model_validate(listener(tmp_path)["tls"]), "127.0.0.1:0").close()
    (told,) = caplog.records
    assert told.getMessage() == "the certificate has expired: clients refuse to connect"
    assert told.__dict__["file"] == f"{tmp_path}/tls.crt"


@pytest.mark.parametrize(
    ("spoil", "fault"),
    [
        (lambda folder: (folder / "tls.crt").unlink(), "tls.crt: No such file or directory"),
        (lambda folder: (folder / "tls.key").unlink(), "tls.key: No such file or directory"),
        (lambda folder: (folder / "ca.crt").unlink(), "ca.crt: No such file or directory"),
        (
            lambda folder: (folder / "tls.crt").write_text("x"),
            "tls.crt: certificate_file has no PEM certificate",
        ),
        (
            lambda folder: (folder / "tls.key").write_text(""),
            "tls.key: key_file is no PEM private key",
        ),
        (
            lambda folder: (folder / "ca.crt").write_text("x"),
            "ca.crt: client_ca_file has no PEM certificate",
        ),
        (with_passphrase, "tls.key: key_file is no PEM private key without a passphrase"),
        (
            lambda folder: shutil.copy(folder / "other.key", folder / "tls.key"),
            "(KEY_VALUES_MISMATCH)",
        ),
        (on_another_curve, "tls.crt: certificate_file is for a key of a type that gRPC cannot use"),
        (
            lambda folder: (folder / "tls.crt").write_bytes(b"x" * 2_000_000),
            "tls.crt: is larger than 1048576 bytes",
        ),
    ],
    ids=[
        *("no certificate", "no key", "no authorities", "bad certificate"),
        *("empty key", "bad authorities"),
        *("passphrase", "key of another", "another curve", "too large"),
    ],
)
def test_faults_at_the_start_name_the_file(
    tmp_path: Path, ours: Authority, spoil: Callable[[Path], object], fault: str
) -> None:
    (tmp_path / "other.key").write_bytes(issued(ours)["tls.key"])
    for name, content in issued(ours).items():
        (tmp_path / name).write_bytes(content)
    spoil(tmp_path)
    tls = Tls.model_validate(listener(tmp_path)["tls"])
    with pytest.raises(BadFile) as caught:
        FollowedCertificate(tls, "127.0.0.1:0")
    assert str(caught.value).startswith(f"{tmp_path}/")
    assert fault in str(caught.value)


def test_a_certificate_with_a_fault_is_told_in_one_line(tmp_path: Path, ours: Authority) -> None:
    for name, content in issued(ours).items():
        (tmp_path / name).write_bytes(content)
    (tmp_path / "tls.crt").write_text("x")
    config = tmp_path / "queuegate.yaml"
    config.write_text(yaml.safe_dump({"listen": [listener(tmp_path)]}))
    fault = f"'127.0.0.1:0': {tmp_path}/tls.crt: certificate_file has no PEM certificate"
    assert fault in failing_start(config)


def test_a_token_file_with_a_fault(tmp_path: Path) -> None:
    (tmp_path / "tokens").write_text("nonsense")
    config = tmp_path / "queuegate.yaml"
    callers = {"token_file": str(tmp_path / "tokens")}
    config.write_text(yaml.safe_dump({"listen": "127.0.0.1:0", "callers": callers}))
    said = f"Error: callers.token_file: {tmp_path}/tokens:1: not of the form"
    assert said in failing_start(config)


def test_the_settings_are_validated_with_their_files(tmp_path: Path, ours: Authority) -> None:
    for name, content in issued(ours).items():
        (tmp_path / name).write_bytes(content)
    (tmp_path / "tokens").write_text("")
    config = tmp_path / "queuegate.yaml"
    callers = {"token_file": str(tmp_path / "tokens")}
    config.write_text(yaml.safe_dump({"listen": [listener(tmp_path)], "callers": callers}))
    command = ["validate", "--settings", str(config)]
    assert CliRunner().invoke(group, command).exit_code == 0
    (tmp_path / "tls.key").unlink()
    (tmp_path / "tokens").write_text("nonsense")
    result = CliRunner().invoke(group, command)
    assert result.exit_code == 1
    assert "tls.key: No such file or directory" in result.output
    assert "tokens:1: not of the form" in result.output


def failing_start(config: Path) -> str:
    outcome = subprocess.run(
        server_command("serve", "--config", str(config)),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert outcome.returncode == 2
    assert outcome.stdout == ""
    # One line, no traceback.
    assert len(outcome.stderr.strip().splitlines()) == 1, outcome.stderr
    return outcome.stderr


def test_one_server_has_listeners_of_all_kinds(tmp_path: Path, authority: Authority) -> None:
    listen = [
        "127.0.0.1:0",
        with_tls(authority, mutual=False),
        with_tls(authority),
        f"unix:{tmp_path}/q.sock",
    ]
    shown = authority.client("caller", dns("caller.example.org"))
    with configured(tmp_path, listen, callers=CALLERS) as server:
        plain, one_sided, mutual, unix = server.address.split(", ")
        for address, tls in (
            (plain, None),
            (one_sided, authority.tls()),
            (mutual, shown),
            (unix, None),
        ):
            with client(address, tls) as asking:
                assert asking.check("alice", "root.open")
