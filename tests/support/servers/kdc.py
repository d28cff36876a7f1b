"""A real KDC for tests: a private realm on a free port, stopped by its PID."""

import os
import subprocess
import time
from contextlib import AbstractContextManager
from pathlib import Path

from tests.support.servers.free_ports import free_port
from tests.support.servers.processes import ServerProcess, running
from tests.support.servers.slapd import program

REALM = "LAB.TEST"
OURS = f"queuegate@{REALM}"
_MASTER = "master-key"
_READY = "commencing operation"
_KDC = """\
[realms]
{realm} = {{
    database_name = {folder}/principal
    key_stash_file = {folder}/stash
    acl_file = {folder}/acl
    kdc_listen = 127.0.0.1:{port}
    kdc_tcp_listen = 127.0.0.1:{port}
}}
"""
_CLIENTS = """\
[libdefaults]
default_realm = {realm}
dns_lookup_kdc = false
dns_lookup_realm = false
dns_canonicalize_hostname = false
rdns = false
[realms]
{realm} = {{
    kdc = 127.0.0.1:{port}
}}
[logging]
kdc = FILE:{folder}/kdc.log
"""


class Kdc(ServerProcess):
    """A Kerberos realm with its KDC on 127.0.0.1."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.port = free_port()
        folder.mkdir(parents=True)
        values = {"folder": folder, "port": self.port, "realm": REALM}
        (folder / "kdc.conf").write_text(_KDC.format(**values))
        (folder / "krb5.conf").write_text(_CLIENTS.format(**values))
        self._run("kdb5_util", "create", "-s", "-r", REALM, "-P", _MASTER)

    @property
    def environment(self) -> dict[str, str]:
        """Variables that make Kerberos use this realm."""
        return {
            "KRB5_CONFIG": str(self.folder / "krb5.conf"),
            "KRB5_KDC_PROFILE": str(self.folder / "kdc.conf"),
        }

    def keytab(self, principal: str) -> Path:
        """Create a principal with a random key, and return a keytab file for it."""
        file = self.folder / f"{principal.replace('/', '_')}.keytab"
        self._run("kadmin.local", "-r", REALM, "addprinc", "-randkey", principal)
        self._run("kadmin.local", "-r", REALM, "ktadd", "-k", str(file), principal)
        return file

    def start(self) -> None:
        starts = self.log().count(_READY)
        with (self.folder / "kdc.out").open("ab") as log:
            self.process = subprocess.Popen(
                [program("krb5kdc"), "-n", "-r", REALM, "-P", str(self.folder / "kdc.pid")],
                env=os.environ | self.environment,
                stdout=log,
                stderr=log,
            )
        end = time.monotonic() + 60
        while self.log().count(_READY) == starts:
            if self.process.poll() is not None or time.monotonic() > end:
                raise AssertionError(self.log() + (self.folder / "kdc.out").read_text())
            time.sleep(0.01)

    def log(self) -> str:
        file = self.folder / "kdc.log"
        return file.read_text() if file.exists() else ""

    def repair(self) -> None:
        """Have the KDC run and answer again."""
        if self.process is None:
            self.start()
        else:
            self.thaw()

    def _run(self, *command: str) -> None:
        done = subprocess.run(
            [program(command[0]), *command[1:]],
            env=os.environ | self.environment,
            capture_output=True,
            check=False,
            timeout=60,
        )
        assert done.returncode == 0, done.stderr.decode()


def running_kdc(folder: Path) -> AbstractContextManager[Kdc]:
    """Run a KDC, and stop it at the end in any case."""
    return running(Kdc, folder)
