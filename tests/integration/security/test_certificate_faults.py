"""Faults in certificates and other files of the listeners are reported at the start."""

import datetime as dt
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from queuegate_server.cli.main import command_group
from queuegate_server.files.watcher import BadFile
from queuegate_server.settings.listeners import ListenerTls
from queuegate_server.transports.credentials import ReloadingCredentials
from tests.integration.security.authorities import Authority, issued, listener
from tests.support.servers.queuegate_server import run


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


@pytest.mark.parametrize(
    ("begin", "end", "fault"), [(-2, -1, "has expired"), (1, 2, "is not valid yet")]
)
def test_a_certificate_that_is_not_valid_now_is_reported(
    tmp_path: Path,
    ours: Authority,
    caplog: pytest.LogCaptureFixture,
    begin: int,
    end: int,
    fault: str,
) -> None:
    at = [dt.datetime.now(dt.UTC) + dt.timedelta(days) for days in (begin, end)]
    made = ours.made.issue_cert("localhost", not_before=at[0], not_after=at[1])
    files = {**issued(ours), "tls.key": made.private_key_pem.bytes()}
    files["tls.crt"] = made.cert_chain_pems[0].bytes()
    for name, content in files.items():
        (tmp_path / name).write_bytes(content)
    ReloadingCredentials(ListenerTls.model_validate(listener(tmp_path)["tls"]), "127.0.0.1:0")
    (record,) = caplog.records
    assert record.getMessage() == f"the certificate {fault}: clients refuse to connect"
    assert record.__dict__["file"] == f"{tmp_path}/tls.crt"


@pytest.mark.parametrize(("begin", "end"), [(-2, -1), (1, 2)])
def test_authorities_that_are_not_valid_now_are_reported(
    tmp_path: Path, ours: Authority, caplog: pytest.LogCaptureFixture, begin: int, end: int
) -> None:
    for name, content in (issued(ours) | {"ca.crt": ours.renewed(begin, end)}).items():
        (tmp_path / name).write_bytes(content)
    config = tmp_path / "queuegate.yaml"
    config.write_text(yaml.safe_dump({"listen": [listener(tmp_path)]}))
    fault = "no authority in it is valid now: client certificates are refused"
    ReloadingCredentials(ListenerTls.model_validate(listener(tmp_path)["tls"]), "127.0.0.1:0")
    (record,) = caplog.records
    assert (record.getMessage(), record.__dict__["file"]) == (fault, f"{tmp_path}/ca.crt")
    done = CliRunner().invoke(command_group(), ["validate", "--settings", str(config)])
    assert f"warning: listen[0].tls.client_ca_file: {tmp_path}/ca.crt: {fault}" in done.output
    assert done.exit_code == 0


@pytest.mark.parametrize(
    ("spoil", "fault"),
    [
        (lambda folder: (folder / "tls.crt").unlink(), "tls.crt: No such file or directory"),
        (lambda folder: (folder / "tls.key").unlink(), "tls.key: No such file or directory"),
        (lambda folder: (folder / "ca.crt").unlink(), "ca.crt: No such file or directory"),
        (
            lambda folder: (folder / "tls.crt").write_text("x"),
            "tls.crt: contains no readable PEM certificate",
        ),
        (
            lambda folder: (folder / "tls.key").write_text(""),
            "tls.key: is not a PEM private key",
        ),
        (
            lambda folder: (folder / "ca.crt").write_text("x"),
            "ca.crt: contains no readable PEM certificate",
        ),
        (with_passphrase, "tls.key: is not a PEM private key without a passphrase"),
        (
            lambda folder: shutil.copy(folder / "other.key", folder / "tls.key"),
            "(KEY_VALUES_MISMATCH)",
        ),
        (
            on_another_curve,
            "tls.crt: the certificate has a key of a type that gRPC does not support",
        ),
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
    tls = ListenerTls.model_validate(listener(tmp_path)["tls"])
    with pytest.raises(BadFile) as caught:
        ReloadingCredentials(tls, "127.0.0.1:0")
    assert str(caught.value).startswith(f"{tmp_path}/")
    assert fault in str(caught.value)


def test_a_faulty_certificate_is_reported_in_one_line(tmp_path: Path, ours: Authority) -> None:
    for name, content in issued(ours).items():
        (tmp_path / name).write_bytes(content)
    (tmp_path / "tls.crt").write_text("x")
    config = tmp_path / "queuegate.yaml"
    config.write_text(yaml.safe_dump({"listen": [listener(tmp_path)]}))
    fault = f"'127.0.0.1:0': {tmp_path}/tls.crt: contains no readable PEM certificate"
    assert fault in failing_start(config)


def test_a_token_file_with_a_fault(tmp_path: Path) -> None:
    (tmp_path / "tokens").write_text("nonsense")
    config = tmp_path / "queuegate.yaml"
    callers = {"token_file": str(tmp_path / "tokens")}
    config.write_text(yaml.safe_dump({"listen": "127.0.0.1:0", "callers": callers}))
    message = f"Error: callers.token_file: {tmp_path}/tokens:1: not of the form"
    assert message in failing_start(config)


def test_the_settings_are_validated_with_their_files(tmp_path: Path, ours: Authority) -> None:
    for name, content in issued(ours).items():
        (tmp_path / name).write_bytes(content)
    (tmp_path / "tokens").write_text("")
    config = tmp_path / "queuegate.yaml"
    callers = {"token_file": str(tmp_path / "tokens")}
    config.write_text(yaml.safe_dump({"listen": [listener(tmp_path)], "callers": callers}))
    command = ["validate", "--settings", str(config)]
    assert CliRunner().invoke(command_group(), command).exit_code == 0
    (tmp_path / "ca.crt").write_text("nonsense")
    (tmp_path / "tokens").write_text("nonsense")
    assert validated(config) == [
        (
            f"{config}:2:15: error: callers.token_file: {tmp_path}/tokens:1: not of the form"
            " name:sha256, with a hash of 64 lower-case hexadecimal digits, as printed by"
            " `queuegate-server token`"
        ),
        (
            f"{config}:7:21: error: listen[0].tls.client_ca_file: {tmp_path}/ca.crt: contains no"
            " readable PEM certificate"
        ),
    ]


def test_unreadable_files_are_reported_at_their_keys(tmp_path: Path) -> None:
    config = tmp_path / "queuegate.yaml"
    config.write_text(
        "policies: [{path: q.xml, yarn_site: site.xml}, {configs: maps, defaults: maps}]\n"
        "listen:\n"
        "  address: 0.0.0.0:1\n"
        "  tls: {certificate_file: tls.crt, key_file: tls.key, client_ca_file: /}\n"
        "callers: {token_file: tokens, tokens: {ci: {roles: check}}}\n"
        "ops: {listen: 0.0.0.0:2, tls: {certificate_file: ops.crt, key_file: tls.key}}\n"
    )
    missing = "cannot be read: No such file or directory (check the path)"
    expected = [
        f"1:19: error: policies[0].path: q.xml {missing}",
        f"1:37: error: policies[0].yarn_site: site.xml {missing}",
        f"1:58: error: policies[1].configs: maps {missing}",
        f"1:74: error: policies[1].defaults: maps {missing}",
        f"4:27: error: listen[0].tls.certificate_file: tls.crt {missing}",
        f"4:46: error: listen[0].tls.key_file: tls.key {missing}",
        (
            "4:71: error: listen[0].tls.client_ca_file: / cannot be read: Is a directory (name"
            " a file in it)"
        ),
        f"5:23: error: callers.token_file: tokens {missing}",
        f"6:50: error: ops.tls.certificate_file: ops.crt {missing}",
        f"6:69: error: ops.tls.key_file: tls.key {missing}",
    ]
    assert validated(config) == [f"{config}:{line}" for line in expected]
    started = CliRunner().invoke(command_group(), ["validate", "--config", str(config)])
    assert started.stdout.splitlines() == [f"{config}:{line}" for line in expected]


def test_a_caller_without_a_token_is_warned_of(tmp_path: Path) -> None:
    (tmp_path / "tokens").write_text(f"other:{'0' * 64}\n")
    config = tmp_path / "queuegate.yaml"
    callers = f"token_file: {tmp_path}/tokens, tokens: {{ci: {{roles: check}}}}"
    config.write_text(f"callers: {{{callers}}}\n")
    [warning] = validated(config, status=0)
    assert f": warning: callers.tokens.ci: {tmp_path}/tokens has no line for this name" in warning


def validated(config: Path, *, status: int = 1) -> list[str]:
    result = CliRunner().invoke(command_group(), ["validate", "--settings", str(config)])
    assert result.exit_code == status
    return result.stdout.splitlines()


def failing_start(config: Path) -> str:
    outcome = run("serve", "--config", str(config))
    assert outcome.returncode == 2
    assert outcome.stdout == ""
    # One line, no traceback.
    assert len(outcome.stderr.strip().splitlines()) == 1, outcome.stderr
    return outcome.stderr
