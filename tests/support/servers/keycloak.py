"""A real Keycloak, from its distribution in Maven, in a process of its own, with TLS.

The distribution (176 MB) is fetched and prepared once, into `.tools`. A test that may be the first
has a time limit of `BUILD_SECONDS`.
"""

import fcntl
import json
import os
import shutil
import signal
import ssl
import subprocess
import tempfile
import time
import urllib.error
import urllib.parse
import urllib.request
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import trustme

from tests.support.maven import BUILD_SECONDS, maven
from tests.support.servers.free_ports import free_port

RELEASE: Final = "26.7.3"
START_SECONDS: Final = 600
HEAP: Final = "-Xms64m -Xmx512m"

_TOOLS: Final = Path(__file__).parents[3] / ".tools"
_GET: Final = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy"
_ADMIN: Final = "temporary-admin"
_DATABASE_USER: Final = "keycloak"


class Keycloak:
    """A running server, and its administrator."""

    def __init__(self, url: str, ca: trustme.CA, database: str) -> None:
        self.url = url
        self._database = database
        self._context = ssl.create_default_context()
        ca.configure_trust(self._context)

    def add_realm(self, realm: Mapping[str, Any]) -> None:
        """Create a realm with its clients, groups and users."""
        self.admin("POST", "/admin/realms", realm)

    def admin(self, method: str, path: str, body: Any = None) -> Any:
        """Return the answer to a request of the administrator."""
        form = {
            "grant_type": "password",
            "client_id": "admin-cli",
            "username": _ADMIN,
            "password": _ADMIN,
        }
        token = self._send(
            "POST",
            "/realms/master/protocol/openid-connect/token",
            urllib.parse.urlencode(form).encode(),
            {},
        )["access_token"]
        headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
        data = None if body is None else json.dumps(body).encode()
        return self._send(method, path, data, headers)

    def change_database(self, statement: str) -> None:
        """Run a statement in the server's database, as no administrator can."""
        [driver] = (_distribution() / "lib" / "lib" / "main").glob("com.h2database.h2-*.jar")
        command = ["java", "-cp", str(driver), "org.h2.tools.Shell", "-url", self._database]
        command += ["-user", _DATABASE_USER, "-password", _DATABASE_USER, "-sql", statement]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
        assert done.returncode == 0, done.stdout + done.stderr

    def _send(self, method: str, path: str, data: bytes | None, headers: Mapping[str, str]) -> Any:
        request = urllib.request.Request(  # noqa: S310
            self.url + path, data, dict(headers), method=method
        )
        with urllib.request.urlopen(request, context=self._context, timeout=120) as response:  # noqa: S310
            content = response.read()
        return json.loads(content) if content else None

    def is_ready(self) -> bool:
        try:
            self._send("GET", "/realms/master", None, {})
        except (OSError, ValueError):
            return False
        return True


@contextmanager
def running_keycloak(folder: Path, ca: trustme.CA) -> Iterator[Keycloak]:
    """Run a server without users. The test is skipped if Java or Maven cannot provide it."""
    home = _distribution()
    folder.mkdir(parents=True, exist_ok=True)
    certificate = ca.issue_cert("127.0.0.1")
    chain, key = folder / "chain.pem", folder / "key.pem"
    certificate.private_key_pem.write_to_path(str(key))
    chain.write_bytes(b"".join(blob.bytes() for blob in certificate.cert_chain_pems))
    port, log = free_port(), folder / "keycloak.log"
    # A file, and not memory, so that another process can change the database.
    database = f"jdbc:h2:file:{folder}/database;AUTO_SERVER=TRUE;NON_KEYWORDS=VALUE"
    options = {
        "db-url": database,
        "db-username": _DATABASE_USER,
        "db-password": _DATABASE_USER,
        "https-certificate-file": chain,
        "https-certificate-key-file": key,
        "http-host": "127.0.0.1",
        "https-port": port,
        "hostname-strict": "false",
        "log-level": "warn",
    }
    environment = {
        **os.environ,
        "KC_BOOTSTRAP_ADMIN_USERNAME": _ADMIN,
        "KC_BOOTSTRAP_ADMIN_PASSWORD": _ADMIN,
        "JAVA_OPTS_KC_HEAP": HEAP,
    }
    command = [str(home / "bin" / "kc.sh"), "start", "--optimized"]
    command += [f"--{name}={value}" for name, value in options.items()]
    with (
        log.open("w") as output,
        subprocess.Popen(
            command, stdout=output, stderr=output, env=environment, start_new_session=True
        ) as process,
    ):
        try:
            server = Keycloak(f"https://127.0.0.1:{port}", ca, database)
            deadline = time.monotonic() + START_SECONDS
            while not server.is_ready():
                assert process.poll() is None, log.read_text()[-4000:]
                assert time.monotonic() < deadline, log.read_text()[-4000:]
                time.sleep(0.5)
            yield server
        finally:
            os.killpg(process.pid, signal.SIGKILL)


def _distribution() -> Path:
    """Return the folder of the prepared distribution."""
    home = _TOOLS / f"keycloak-{RELEASE}"
    _TOOLS.mkdir(exist_ok=True)
    with (_TOOLS / "keycloak.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not home.exists():
            with tempfile.TemporaryDirectory(dir=_TOOLS) as unfinished:
                _prepare(Path(unfinished))
                shutil.move(Path(unfinished) / home.name, home)
    return home


def _prepare(folder: Path) -> None:
    artifact = f"-Dartifact=org.keycloak:keycloak-quarkus-dist:{RELEASE}:zip"
    done = maven(folder, _GET, artifact, f"-DoutputDirectory={folder}")
    assert done.returncode == 0, done.stdout + done.stderr
    with zipfile.ZipFile(folder / f"keycloak-quarkus-dist-{RELEASE}.zip") as archive:
        archive.extractall(folder)
    program = folder / f"keycloak-{RELEASE}" / "bin" / "kc.sh"
    program.chmod(0o755)
    subprocess.run(
        ["nice", "-n", "19", str(program), "build", "--db=dev-mem", "--cache=local"],
        check=True,
        capture_output=True,
        timeout=BUILD_SECONDS,
    )
