"""A real slapd for tests: a private folder and free ports, stopped by its PID."""

import contextlib
import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import trustme

from tests.support.servers.free_ports import free_port
from tests.support.servers.processes import ServerProcess, running

SUFFIX = "dc=lab,dc=test"
ADMIN = f"cn=admin,{SUFFIX}"
SERVICE = f"cn=svc,{SUFFIX}"
PASSWORD = "svc pass#1"
ADMIN_PASSWORD = "adminpw"
PEOPLE = f"ou=people,{SUFFIX}"
GROUPS = f"ou=groups,{SUFFIX}"
POSIX = f"ou=posix,{SUFFIX}"

CONFIG = """\
include /etc/ldap/schema/core.schema
include /etc/ldap/schema/cosine.schema
include /etc/ldap/schema/nis.schema
include /etc/ldap/schema/inetorgperson.schema
modulepath /usr/lib/ldap
moduleload back_mdb
moduleload memberof
moduleload ppolicy
pidfile {folder}/slapd.pid
TLSCACertificateFile {folder}/ca.pem
TLSCertificateFile {folder}/server.pem
TLSCertificateKeyFile {folder}/server.pem
{globals}
database mdb
suffix {suffix}
rootdn {admin}
rootpw {admin_password}
directory {folder}/db
dbnosync
maxsize 1073741824
index objectClass,uid,cn,member,uniqueMember,memberUid,gidNumber eq
access to attrs=userPassword by anonymous auth by * none
{first_access}
access to dn.subtree=ou=hidden,{suffix} by * none
access to * by dn.exact={service} read by dn.subtree=ou=machines,{suffix} read by * none
overlay memberof
overlay ppolicy
{database}
"""


def program(name: str) -> str:
    return shutil.which(name, path=f"{os.environ['PATH']}:/usr/sbin:/usr/libexec") or name


class Slapd(ServerProcess):
    """A directory server on 127.0.0.1 with ldap:// and ldaps://."""

    stop_seconds = 5

    def __init__(
        self,
        folder: Path,
        ca: trustme.CA,
        *,
        certificate: trustme.LeafCert | None = None,
        more_globals: str = "",
        more_database: str = "",
        first_access: str = "",
        tls: bool = True,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self.environment = environment or {}
        self.folder = folder
        self.port, self.tls_port = free_port(), free_port()
        (folder / "db").mkdir(parents=True)
        ca.cert_pem.write_to_path(str(folder / "ca.pem"))
        leaf = certificate or ca.issue_cert("127.0.0.1")
        leaf.private_key_and_cert_chain_pem.write_to_path(str(folder / "server.pem"))
        config = CONFIG.format(
            folder=folder,
            suffix=SUFFIX,
            admin=ADMIN,
            admin_password=ADMIN_PASSWORD,
            service=SERVICE,
            globals=more_globals,
            database=more_database,
            first_access=first_access,
        )
        if not tls:
            config = "\n".join(line for line in config.splitlines() if not line.startswith("TLSC"))
        (folder / "slapd.conf").write_text(config)
        (folder / "password").write_text(f"{PASSWORD}\n")
        self.tls = tls

    @property
    def url(self) -> str:
        return f"ldap://127.0.0.1:{self.port}"

    @property
    def tls_url(self) -> str:
        return f"ldaps://127.0.0.1:{self.tls_port}"

    def start(self) -> None:
        urls = f"{self.url} {self.tls_url}" if self.tls else self.url
        with (self.folder / "slapd.log").open("ab") as log:
            self.process = subprocess.Popen(
                [
                    program("slapd"),
                    "-f", str(self.folder / "slapd.conf"), "-h", urls, "-d", "0",
                ],
                stdout=log,
                stderr=log,
                env={**os.environ, **self.environment},
            )  # fmt: skip
        end = time.monotonic() + 60
        ports = (self.port, self.tls_port) if self.tls else (self.port,)
        while True:
            try:
                for port in ports:
                    socket.create_connection(("127.0.0.1", port), 10).close()
            except OSError:
                if self.process.poll() is not None or time.monotonic() > end:
                    raise AssertionError((self.folder / "slapd.log").read_text()) from None
                time.sleep(0.01)
            else:
                return

    def load(self, ldif: str) -> None:
        file = self.folder / "entries.ldif"
        file.write_text(ldif)
        done = subprocess.run(
            [program("slapadd"), "-q", "-f", str(self.folder / "slapd.conf"), "-l", str(file)],
            capture_output=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr.decode()

    def add(self, ldif: str) -> None:
        self._tool("ldapadd", ldif)

    def modify(self, ldif: str) -> None:
        self._tool("ldapmodify", ldif)

    def _tool(self, tool: str, ldif: str) -> None:
        done = subprocess.run(
            [tool, "-x", "-H", self.url, "-D", ADMIN, "-w", ADMIN_PASSWORD],
            input=ldif.encode(),
            capture_output=True,
            check=False,
            env={**os.environ, "LDAPNOINIT": "1"},
        )
        assert done.returncode == 0, done.stderr.decode()


@contextlib.contextmanager
def running_slapd(
    folder: Path,
    ca: trustme.CA,
    ldif: str,
    *,
    certificate: trustme.LeafCert | None = None,
    more_globals: str = "",
    more_database: str = "",
    first_access: str = "",
    tls: bool = True,
    load: str = "",
    environment: Mapping[str, str] | None = None,
) -> Iterator[Slapd]:
    """Run a slapd with these entries, and stop it at the end in any case.

    `load` is imported before startup, which is fast but does not set memberOf.
    """

    def build(own: Path) -> Slapd:
        slapd = Slapd(
            own,
            ca,
            certificate=certificate,
            more_globals=more_globals,
            more_database=more_database,
            first_access=first_access,
            tls=tls,
            environment=environment,
        )
        if load:
            slapd.load(load)
        return slapd

    with running(build, folder) as slapd:
        if ldif:
            slapd.add(ldif)
        yield slapd
