"""A real API server with etcd behind it: no nodes, and no controllers of its own."""

import base64
import json
import os
import shutil
import ssl
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

import httpx2
import trustme
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from tests.support.servers.free_ports import free_port

BUILT = Path(".tools/kube")
START_SECONDS = 600
ISSUER: Final = "https://kubernetes.default.svc"
NO_OPTIONS: Final[Mapping[str, Any]] = MappingProxyType({})
KUEUE_MANAGER = "system:serviceaccount:kueue-system:kueue-controller-manager"
CONTROLLER_MANAGER = "system:kube-controller-manager"
YUNIKORN_SCHEDULER = "system:serviceaccount:yunikorn:yunikorn-admin"
USERS = {
    "admin": "system:masters",
    "bob": "dev",
    "alice": "dev",
    "portal": "gateways",
    "system:serviceaccount:kube-system:replicaset-controller": "system:serviceaccounts",
    KUEUE_MANAGER: "system:serviceaccounts",
    YUNIKORN_SCHEDULER: "system:serviceaccounts",
    CONTROLLER_MANAGER: "system:authenticated",
}


def program(name: str) -> str | None:
    """Where `make kube-tools` has put it, or where the path has it."""
    built = BUILT / name
    return str(built) if os.access(built, os.X_OK) else shutil.which(name)


class ApiServer:
    """Speaks to the API server as one of the users."""

    def __init__(
        self,
        address: str,
        ca: trustme.CA,
        start: Callable[[], "subprocess.Popen[bytes]"],
        log: Path,
    ) -> None:
        context = ssl.create_default_context()
        ca.configure_trust(context)
        self._http = httpx2.Client(base_url=address, verify=context, timeout=60)
        self._address = address
        self._ca = ca
        self._start = start
        self.log = log
        self.process = start()

    def restart(self) -> None:
        """Kill the API server, and start another one with the same etcd."""
        self.process.kill()
        self.process.wait()
        self.process = self._start()
        wait_until_ready(self)

    def ask(
        self,
        user: str,
        method: str,
        path: str,
        content: Any = None,
        patch: str = "json-patch+json",
        *,
        impersonated: str = "",
        groups: Sequence[str] = (),
    ) -> httpx2.Response:
        """Make a request as a user, who may impersonate another one with groups."""
        kind = f"application/{patch if method == 'PATCH' else 'json'}"
        headers = [("Authorization", f"Bearer {token(user)}"), ("Content-Type", kind)]
        if impersonated:
            headers.append(("Impersonate-User", impersonated))
            headers += [("Impersonate-Group", each) for each in groups]
        return self._http.request(method, path, json=content, headers=headers)

    def kubeconfig(self, user: str = "admin") -> str:
        """Return a configuration for kubectl, Helm and controllers."""
        authority = base64.b64encode(self._ca.cert_pem.bytes()).decode()
        cluster = {"server": self._address, "certificate-authority-data": authority}
        content = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "test", "cluster": cluster}],
            "users": [{"name": user, "user": {"token": token(user)}}],
            "contexts": [{"name": "test", "context": {"cluster": "test", "user": user}}],
            "current-context": "test",
        }
        return json.dumps(content)

    def close(self) -> None:
        self._http.close()


def token(user: str) -> str:
    return f"token-{user.replace(':', '-')}"


@contextmanager
def running_cluster(
    folder: Path, etcd: str, kube_apiserver: str, options: Mapping[str, Any] = NO_OPTIONS
) -> Iterator[ApiServer]:
    """Run etcd and an API server with further or other options; None removes one."""
    client_port, peer_port, port = free_port(), free_port(), free_port()
    ca = trustme.CA()
    ca.issue_cert("127.0.0.1").private_key_and_cert_chain_pem.write_to_path(str(folder / "server"))
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    (folder / "account.key").write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    lines = [f'{token(user)},{user},{user},"{groups}"' for user, groups in USERS.items()]
    (folder / "tokens").write_text("\n".join(lines))
    peer, store = f"http://127.0.0.1:{peer_port}", f"http://127.0.0.1:{client_port}"
    with ExitStack() as stack:
        arguments = {
            "data-dir": folder / "etcd",
            "listen-client-urls": store,
            "advertise-client-urls": store,
            "listen-peer-urls": peer,
            "initial-advertise-peer-urls": peer,
            "initial-cluster": f"default={peer}",
            "unsafe-no-fsync": "true",
        }
        stack.enter_context(running(folder, etcd, arguments))
        arguments = {
            "etcd-servers": store,
            "bind-address": "127.0.0.1",
            "advertise-address": "127.0.0.1",
            "secure-port": port,
            "tls-cert-file": folder / "server",
            "tls-private-key-file": folder / "server",
            "service-account-issuer": ISSUER,
            "service-account-key-file": folder / "account.key",
            "service-account-signing-key-file": folder / "account.key",
            "service-cluster-ip-range": "10.0.0.0/24",
            "token-auth-file": folder / "tokens",
            "authorization-mode": "AlwaysAllow",
            # There is nobody who would make the accounts of namespaces.
            "disable-admission-plugins": "ServiceAccount",
            **options,
        }
        api = ApiServer(
            f"https://127.0.0.1:{port}",
            ca,
            lambda: stack.enter_context(running(folder, kube_apiserver, arguments)),
            folder / f"{Path(kube_apiserver).name}.log",
        )
        stack.callback(api.close)
        wait_until_ready(api)
        yield api


@contextmanager
def running(
    folder: Path, command: str, arguments: dict[str, Any]
) -> Iterator["subprocess.Popen[bytes]"]:
    with (folder / f"{Path(command).name}.log").open("ab") as log:
        options = [f"--{name}={value}" for name, value in arguments.items() if value is not None]
        process = subprocess.Popen([command, *options], stdout=log, stderr=log)
        try:
            yield process
        finally:
            process.terminate()
            try:
                process.wait(5)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def wait_until_ready(api: ApiServer) -> None:
    end = time.monotonic() + START_SECONDS
    while time.monotonic() < end and api.process.poll() is None:
        try:
            if api.ask("admin", "GET", "/readyz").status_code == 200:
                return
        except httpx2.TransportError:
            pass
        time.sleep(0.2)
    raise AssertionError(api.log.read_text()[-3000:])
