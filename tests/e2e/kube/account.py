"""The service account of a server that follows a cluster: its rights and its tokens."""

import base64
import json
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import padding, rsa

from tests.e2e.kube.cluster import ISSUER, ApiServer
from tests.e2e.kube.reviews import created

NAME: Final = "queuegate"
"""The name of the account, and of its namespace, as in deploy/rbac/rights.yaml."""
RBAC: Final = "/apis/rbac.authorization.k8s.io/v1"
RIGHTS: Final = Path("deploy/rbac/rights.yaml")
_ACCOUNTS: Final = f"/api/v1/namespaces/{NAME}/serviceaccounts"


@dataclass(frozen=True, slots=True)
class WatcherAccount:
    """The account, with a kubeconfig that names the file with its token."""

    cluster: ApiServer
    folder: Path
    uid: str

    @property
    def kubeconfig(self) -> Path:
        """The kubeconfig."""
        return self.folder / "kubeconfig"

    def grant(self) -> None:
        """Give the rights that the project's file gives."""
        for each in yaml.safe_load_all(RIGHTS.read_text(encoding="utf-8")):
            path = f"{RBAC}/{each['kind'].lower()}s"
            assert self.cluster.ask("admin", "POST", path, each).status_code in {201, 409}

    def revoke(self) -> None:
        """Take the rights away."""
        created(self.cluster.ask("admin", "DELETE", f"{RBAC}/clusterrolebindings/queuegate-rbac"))

    def renew_token(self) -> None:
        """Replace the token by one that the API server issues."""
        issued = self.cluster.ask("admin", "POST", f"{_ACCOUNTS}/{NAME}/token", {"spec": {}})
        self._write_token(created(issued)["status"]["token"])

    def expire_token(self, account_key: Path) -> None:
        """Replace the token by one that expires in a few seconds.

        The API server issues none that is valid for less than ten minutes, so it is signed here. It
        accepts a token until a minute after its end.
        """
        now = int(time.time())
        account = {"name": NAME, "uid": self.uid}
        claims = {
            "aud": [ISSUER],
            "exp": now - 50,
            "iat": now - 600,
            "iss": ISSUER,
            "kubernetes.io": {"namespace": NAME, "serviceaccount": account},
            "nbf": now - 600,
            "sub": f"system:serviceaccount:{NAME}:{NAME}",
        }
        key = serialization.load_pem_private_key(account_key.read_bytes(), None)
        assert isinstance(key, rsa.RSAPrivateKey)
        signed = b".".join(map(_encoded, ({"alg": "RS256", "typ": "JWT"}, claims)))
        signature = key.sign(signed, padding.PKCS1v15(), hashes.SHA256())
        self._write_token(f"{signed.decode()}.{_base64(signature).decode()}")

    def _write_token(self, token: str) -> None:
        new = self.folder / "token.new"
        new.write_text(token)
        new.replace(self.folder / "token")


def watcher_account(cluster: ApiServer, folder: Path) -> WatcherAccount:
    """Return a new account with its rights and a token."""
    namespace = {"metadata": {"name": NAME}}
    created(cluster.ask("admin", "POST", "/api/v1/namespaces", namespace))
    made = created(cluster.ask("admin", "POST", _ACCOUNTS, {"metadata": {"name": NAME}}))
    account = WatcherAccount(cluster, folder, made["metadata"]["uid"])
    account.grant()
    account.renew_token()
    content = json.loads(cluster.kubeconfig())
    content["users"][0]["user"] = {"tokenFile": "token"}
    account.kubeconfig.write_text(json.dumps(content))
    return account


def _encoded(part: Any) -> bytes:
    return _base64(json.dumps(part).encode())


def _base64(data: bytes) -> bytes:
    return base64.urlsafe_b64encode(data).rstrip(b"=")
