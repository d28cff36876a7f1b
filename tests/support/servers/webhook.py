"""A real webhook process for tests: HTTPS on a free port, with its ConfigMaps in folders."""

import base64
import itertools
import json
import re
import ssl
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx2
import trustme

from tests.support.eventually import eventually
from tests.support.servers.queuegate_server import Process, RunningServer, start


class MountedConfigMap:
    """A folder as maintained by the kubelet: `..data` is a link that is swapped in one step."""

    def __init__(self, parent: Path, name: str) -> None:
        self.folder = parent / name
        self._versions = parent / f"{name}-versions"
        self.folder.mkdir(parents=True)
        self._versions.mkdir()
        self._number = itertools.count()
        self.values: Mapping[str, str | bytes]
        self.write({})

    def write(self, values: Mapping[str, str | bytes]) -> None:
        self.values = dict(values)
        version = self._versions / str(next(self._number))
        version.mkdir()
        for key, value in values.items():
            content = value.encode() if isinstance(value, str) else value
            (version / key).write_bytes(content)
        new = self._versions / "new"
        new.symlink_to(version)
        for key in values:
            if not (self.folder / key).is_symlink():
                (self.folder / key).symlink_to(Path("..data") / key)
        new.rename(self.folder / "..data")
        for link in self.folder.iterdir():
            if link.name != "..data" and link.name not in values:
                link.unlink()


@dataclass
class Webhook:
    """A running webhook."""

    server: RunningServer
    address: str
    ops: str
    ca: trustme.CA
    files: Path
    defaults: MountedConfigMap
    configs: MountedConfigMap
    http: httpx2.Client = field(init=False)
    plain: httpx2.Client = field(init=False)

    def __post_init__(self) -> None:
        self.http = httpx2.Client(
            base_url=f"https://{self.address}", verify=self.client_context(), timeout=60
        )
        self.plain = httpx2.Client(base_url=f"http://{self.ops}", timeout=60)

    def client_context(self) -> ssl.SSLContext:
        context = ssl.create_default_context()
        self.ca.configure_trust(context)
        return context

    def review(self, path: str, body: bytes | dict[str, Any]) -> dict[str, Any]:
        """Post a review, and return the response in the answer."""
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        answer = self.http.post(path, content=content, headers={"Content-Type": "application/json"})
        assert answer.status_code == 200, answer.text
        review: dict[str, Any] = answer.json()
        assert (review["apiVersion"], review["kind"]) == ("admission.k8s.io/v1", "AdmissionReview")
        response: dict[str, Any] = review["response"]
        return response

    def metric(self, name: str, labels: str = "") -> float:
        text = self.plain.get("/metrics").text
        values = re.findall(rf"^{name}(?:\{{{labels}\}})? (\S+)$", text, re.MULTILINE)
        return float(values[0]) if values else 0.0

    def reloads(self) -> float:
        name = "queuegate_admission_settings_reloads_total"
        return sum(self.metric(name, f'result="{result}"') for result in ("success", "failure"))

    def configure(self, values: Mapping[str, str]) -> None:
        """Replace yunikorn-configs, and wait until it has been read.

        A text is counted once, however many changes in the folder make up the swap.
        """
        if values == self.configs.values:
            return
        before = self.reloads()
        self.configs.write(values)
        eventually(lambda: self.reloads() > before, True)

    def renew(self) -> str:
        """Install a new certificate and key, and return the serial number."""
        return write_certificate(self.ca, self.files)

    def served_serial(self) -> str:
        host, port = self.address.rsplit(":", 1)
        pem = ssl.get_server_certificate((host, int(port)))
        return serial_number(pem.encode())


def write_certificate(ca: trustme.CA, folder: Path) -> str:
    issued = ca.issue_cert("localhost", "127.0.0.1")
    chain = b"".join(blob.bytes() for blob in issued.cert_chain_pems)
    for name, content in (("tls.key", issued.private_key_pem.bytes()), ("tls.crt", chain)):
        new = folder / f".{name}"
        new.write_bytes(content)
        new.rename(folder / name)
    return serial_number(chain)


def serial_number(pem: bytes) -> str:
    from cryptography import x509

    return f"{x509.load_pem_x509_certificates(pem)[0].serial_number:x}"


def patch_of(response: Mapping[str, Any]) -> list[Any]:
    if "patch" not in response:
        assert "patchType" not in response
        return []
    assert response["patchType"] == "JSONPatch"
    patch: list[Any] = json.loads(base64.b64decode(response["patch"]))
    return patch


@contextmanager
def running_webhook(
    folder: Path, *arguments: str, environment: Mapping[str, str] | None = None
) -> Iterator[Webhook]:
    """Run `queuegate-server admission` and yield it once it serves. Stop it at the end."""
    ca = trustme.CA()
    files = folder / "tls"
    files.mkdir()
    write_certificate(ca, files)
    defaults = MountedConfigMap(folder, "yunikorn-defaults")
    configs = MountedConfigMap(folder, "yunikorn-configs")
    process = start(
        "admission",
        *listening(files),
        *("--defaults", str(defaults.folder), "--configs", str(configs.folder)),
        *arguments,
        environment=environment,
    )
    with announced(process) as (server, line):
        match = re.fullmatch(r"serving health on http://(\S+), reviews on https://(\S+)\n", line)
        assert match, line
        webhook = Webhook(server, match[2], match[1], ca, files, defaults, configs)
        with webhook.http, webhook.plain:
            yield webhook


def listening(files: Path) -> list[str]:
    """Return the options for free ports and the certificate in a folder."""
    values = {
        "admission.listen": "127.0.0.1:0",
        "admission.tls.certificate_file": files / "tls.crt",
        "admission.tls.key_file": files / "tls.key",
        "ops.listen": "127.0.0.1:0",
    }
    return [f"--set={key}={value}" for key, value in values.items()]


@contextmanager
def announced(
    process: Process, before: Callable[[RunningServer], None] | None = None
) -> Iterator[tuple[RunningServer, str]]:
    """Stop a process at the end of the block. Yields its first line on stdout.

    Args:
        process: The process.
        before: Called while that line is not expected yet.
    """
    server = RunningServer(process)
    try:
        if before is not None:
            before(server)
        line = server.address = server.announcement()
        yield server, line
    finally:
        server.stop()
