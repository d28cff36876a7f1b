"""As whom the API server is asked: what a kubeconfig and a pod's account may contain."""

import base64
import json
import ssl
from pathlib import Path
from typing import Any

import pytest
import trustme

from queuegate_server.policystore.kubernetes.account import CannotAsk, Kubeconfig, PodAccount
from tests.support.fakes.rbac_api import kubeconfig_of

SERVER = "https://127.0.0.1:6443"
TOKEN = {"token": "secret"}


@pytest.fixture(scope="module")
def ca() -> trustme.CA:
    return trustme.CA()


def encoded(data: bytes) -> str:
    return base64.b64encode(data).decode()


class Written:
    """A kubeconfig that a test changes."""

    def __init__(self, folder: Path, ca: trustme.CA) -> None:
        self.path = folder / "kubeconfig"
        self.folder = folder
        self.content: dict[str, Any] = json.loads(kubeconfig_of(SERVER, **TOKEN))
        self.cluster["certificate-authority-data"] = encoded(ca.cert_pem.bytes())
        self.account = Kubeconfig(self.path)

    @property
    def cluster(self) -> dict[str, Any]:
        cluster: dict[str, Any] = self.content["clusters"][0]["cluster"]
        return cluster

    def use(self, **user: Any) -> None:
        self.content["users"][0]["user"] = user

    def credentials(self) -> Any:
        self.path.write_text(json.dumps(self.content))
        return self.account.credentials()

    def fault(self) -> str:
        with pytest.raises(CannotAsk) as raised:
            self.credentials()
        return str(raised.value)


@pytest.fixture
def written(tmp_path: Path, ca: trustme.CA) -> Written:
    return Written(tmp_path, ca)


def test_a_token(written: Written) -> None:
    found = written.credentials()
    assert (str(found.url), found.token) == (SERVER, "secret")
    assert found.tls.verify_mode is ssl.CERT_REQUIRED
    assert found.tls.check_hostname
    assert len(found.tls.get_ca_certs()) == 1
    assert written.credentials().tls is found.tls  # not built again


def test_files_are_read_again(written: Written, ca: trustme.CA) -> None:
    (written.folder / "token").write_text("first\n")
    (written.folder / "ca.crt").write_bytes(ca.cert_pem.bytes())
    del written.cluster["certificate-authority-data"]
    written.cluster["certificate-authority"] = "ca.crt"
    written.use(tokenFile="token")
    before = written.credentials()
    assert before.token == "first"
    (written.folder / "token").write_text("second\n")
    (written.folder / "ca.crt").write_bytes(trustme.CA().cert_pem.bytes())
    after = written.credentials()
    assert after.token == "second"
    assert after.tls is not before.tls


def test_a_certificate(written: Written, ca: trustme.CA) -> None:
    issued = ca.issue_cert("ann@example.com")
    certificate = issued.cert_chain_pems[0].bytes()
    key = issued.private_key_pem.bytes()
    written.use(
        **{"client-certificate-data": encoded(certificate), "client-key-data": encoded(key)}
    )
    assert written.credentials().token == ""
    (written.folder / "tls.crt").write_bytes(certificate)
    (written.folder / "tls.key").write_bytes(key)
    written.use(**{"client-certificate": "tls.crt", "client-key": "tls.key"})
    assert written.credentials().tls is not None
    written.use(**{"client-certificate": "tls.crt"})
    assert "has no usable credentials" in written.fault()
    written.use(**{"client-certificate": "tls.crt", "client-key": "tls.crt"})
    assert "is not valid PEM" in written.fault()


@pytest.mark.parametrize(
    ("user", "what"),
    [
        ({"exec": {"command": "aws"}}, "has a program that prints credentials (exec)"),
        ({**TOKEN, "exec": {"command": "aws"}}, "has a program that prints credentials (exec)"),
        ({"auth-provider": {"name": "oidc"}}, "has an auth-provider"),
        ({"username": "ann", "password": "x"}, "has a user name and password"),
        ({**TOKEN, "as": "ann"}, "has impersonation"),
        ({}, "has no usable credentials: use a token, tokenFile, or client-certificate"),
        ({"token": [5]}, "token is not text"),
        ({"token": "a\r\nX: b"}, "characters that a token cannot contain"),
        ({"tokenFile": "missing"}, "missing cannot be read: No such file"),
        ({"tokenFile": "/dev/zero"}, "/dev/zero cannot be read: not a regular file"),
        ({"client-certificate-data": "?", "client-key-data": "?"}, "is not base64"),
    ],
)
def test_users_that_are_refused(written: Written, user: dict[str, Any], what: str) -> None:
    written.use(**user)
    assert what in written.fault()


@pytest.mark.parametrize(
    ("cluster", "what"),
    [
        ({"server": "http://10.0.0.1:8080"}, "must be an https:// address"),
        ({"server": "https://"}, "must be an https:// address"),
        ({"server": "ftp://10.0.0.1"}, "must be an https:// address"),
        ({"server": ["a"]}, "server is not text"),
        ({"server": SERVER, "insecure-skip-tls-verify": True}, "lets anyone impersonate"),
        ({"server": SERVER, "proxy-url": "http://proxy"}, "proxy-url is not supported"),
        ({"server": SERVER, "certificate-authority-data": "eA=="}, "is not valid PEM"),
    ],
)
def test_clusters_that_are_refused(written: Written, cluster: dict[str, Any], what: str) -> None:
    written.content["clusters"][0]["cluster"] = cluster
    assert what in written.fault()


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("", "is not a kubeconfig"),
        ("- a", "is not a kubeconfig"),
        ("{", "is not a kubeconfig"),
        ("a: !!python/object:os.system {}", "is not a kubeconfig"),
        ("[" * 100_000, "is not a kubeconfig"),
        ("current-context: x", "there is no context 'x'"),
        ("{current-context: x, contexts: 5}", "there is no context 'x'"),
        ("{current-context: x, contexts: [{name: x}]}", "there is no context 'x'"),
    ],
)
def test_texts_that_are_no_kubeconfig(tmp_path: Path, text: str, what: str) -> None:
    path = tmp_path / "kubeconfig"
    path.write_text(text)
    with pytest.raises(CannotAsk) as raised:
        Kubeconfig(path).credentials()
    assert what in str(raised.value)


def test_loopback_needs_no_tls_and_gets_no_token(written: Written) -> None:
    written.cluster["server"] = "http://127.0.0.1:8001"
    found = written.credentials()
    assert (found.token, found.tls) == ("", None)


@pytest.mark.parametrize(
    ("host", "url"), [("10.0.0.1", "https://10.0.0.1:444"), ("fd00::1", "https://[fd00::1]:444")]
)
def test_the_account_of_a_pod(tmp_path: Path, ca: trustme.CA, host: str, url: str) -> None:
    (tmp_path / "token").write_text("mounted\n")
    (tmp_path / "ca.crt").write_bytes(ca.cert_pem.bytes())
    environment = {"KUBERNETES_SERVICE_HOST": host, "KUBERNETES_SERVICE_PORT": "444"}
    found = PodAccount(environment, tmp_path).credentials()
    assert (str(found.url), found.token) == (url, "mounted")
    with pytest.raises(CannotAsk, match="is not running in a pod"):
        PodAccount({}, tmp_path).credentials()
