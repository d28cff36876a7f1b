"""A real domain controller of Active Directory: Samba, in a network namespace of its own.

A domain controller has fixed ports, among them that of DNS, so it gets an address of its own. The
namespace is reached over a pair of virtual Ethernet devices; nothing leaves the machine.
"""

import base64
import contextlib
import itertools
import os
import re
import shutil
import subprocess
import time
from collections.abc import Iterator
from ipaddress import IPv4Address
from pathlib import Path
from typing import Any, Final

import pytest
import trustme

from tests.support.servers.ldap_entries import change, entry
from tests.support.servers.processes import ServerProcess
from tests.support.servers.slapd import program

DOMAIN: Final = "ad.test"
SUFFIX: Final = "DC=ad,DC=test"
STAFF: Final = f"OU=Staff,{SUFFIX}"
"""Where the tests have users and groups."""
SERVICE: Final = "queuegate"
PASSWORD: Final = "svc Pass#1"
_HOST: Final = "dc1"
ADMIN: Final = f"administrator@{DOMAIN}"
ADMIN_PASSWORD: Final = "admin Pass#1"
_SETUP: Final = Path("/usr/share/samba/setup")
_START_SECONDS: Final = 60
_FIRST_ADDRESS: Final = IPv4Address("198.18.0.0")
"""Of the range for tests of networks (RFC 2544)."""
_NUMBERS: Final = itertools.count()

NORMAL: Final = 0x200
PASSWORD_NOT_REQUIRED: Final = 0x20
DISABLED: Final = 0x2
"""Flags of userAccountControl (MS-ADTS 2.2.16)."""

_CONFIG: Final = """\
[global]
netbios name = {host}
realm = {realm}
workgroup = AD
server role = active directory domain controller
server services = ldap, dns
interfaces = {address}
bind interfaces only = yes
dns forwarder =
private dir = {folder}/private
lock directory = {folder}
state directory = {folder}/state
cache directory = {folder}/cache
binddns dir = {folder}/bind-dns
pid directory = {folder}/run
ncalrpc dir = {folder}/ncalrpc
log file = {folder}/log.samba
tls keyfile = {folder}/key.pem
tls certfile = {folder}/certificate.pem
tls cafile = {folder}/ca.pem

[sysvol]
path = {folder}/state/sysvol
"""


class Samba(ServerProcess):
    """A domain controller with LDAP, LDAPS and DNS, but without Kerberos and file shares."""

    def __init__(self, folder: Path, ca: trustme.CA, number: int) -> None:
        self._folder = folder
        for name in ("run", "ncalrpc"):
            (folder / name).mkdir(parents=True)
        self.namespace = f"qg-samba-{os.getpid()}-{number}"
        network = _FIRST_ADDRESS + 4 * (os.getpid() % 2**14 + 2**14 * (number % 2))
        self._near, self.address = str(network + 1), str(network + 2)
        certificate = ca.issue_cert(f"{_HOST}.{DOMAIN}", self.address)
        ca.cert_pem.write_to_path(str(folder / "ca.pem"))
        certificate.cert_chain_pems[0].write_to_path(str(folder / "certificate.pem"))
        key = folder / "key.pem"
        certificate.private_key_pem.write_to_path(str(key))
        key.chmod(0o600)
        (folder / "resolv.conf").write_text(f"nameserver {self.address}\n")
        self._config = folder / "smb.conf"

    @property
    def url(self) -> str:
        return f"ldaps://{self.address}"

    @property
    def start_tls_url(self) -> str:
        return f"ldap://{self.address}"

    @property
    def ca_file(self) -> str:
        return str(self._folder / "ca.pem")

    def create(self) -> None:
        """Create the namespace and the domain. Skips the test where a namespace is forbidden."""
        device = f"qg{os.getpid() % 10**7}x{self.namespace[-1]}"
        try:
            _run("ip", "netns", "add", self.namespace)
            _run("ip", "link", "add", device, "type", "veth", "peer", "eth0", "netns",
                 self.namespace)  # fmt: skip
            _run(*self.inside("true"))
        except AssertionError as error:
            pytest.skip(f"no network namespace can be created: {error}")
        _run("ip", "address", "add", f"{self._near}/30", "dev", device)
        _run("ip", "link", "set", device, "up")
        _run(*self.inside("ip", "address", "add", f"{self.address}/30", "dev", "eth0"))
        for each in ("lo", "eth0"):
            _run(*self.inside("ip", "link", "set", each, "up"))
        realm = DOMAIN.upper()
        _run(
            *self.inside("samba-tool", "domain", "provision"),
            f"--realm={realm}", "--domain=AD", "--server-role=dc", f"--host-name={_HOST}",
            "--dns-backend=SAMBA_INTERNAL", f"--host-ip={self.address}",
            f"--adminpass={ADMIN_PASSWORD}", f"--targetdir={self._folder}",
            "--configfile=/dev/null",
        )  # fmt: skip
        values = {"host": _HOST, "realm": realm, "address": self.address, "folder": self._folder}
        self._config.write_text(_CONFIG.format(**values))

    def inside(self, *command: str) -> list[str]:
        """Return a command that runs in the namespace, where the domain's DNS is asked."""
        script = 'mount --bind "$0" /etc/resolv.conf && exec "$@"'
        resolv_conf = str(self._folder / "resolv.conf")
        return ["ip", "netns", "exec", self.namespace, "sh", "-c", script, resolv_conf, *command]

    def start(self) -> None:
        command = [program("samba"), "--foreground", "--no-process-group", "--model=single",
                   "--debug-stdout", f"--configfile={self._config}"]  # fmt: skip
        with (self._folder / "output").open("ab") as output:
            self.process = subprocess.Popen(
                self.inside(*command), stdin=subprocess.DEVNULL, stdout=output, stderr=output
            )
        end = time.monotonic() + _START_SECONDS
        while self._tool("ldapsearch", "-b", "", "-s", "base").returncode != 0:
            if self.process.poll() is not None or time.monotonic() > end:
                raise AssertionError((self._folder / "output").read_text())
            time.sleep(0.1)

    def modify(self, ldif: str) -> None:
        """Apply changes, or add entries."""
        done = self._tool("ldapmodify", "-a", ldif=ldif)
        assert done.returncode == 0, done.stderr.decode()

    def rid(self, dn: str) -> int:
        """Return the last number of an entry's SID."""
        done = self._tool("ldapsearch", "-LLL", "-b", dn, "-s", "base", "objectSid")
        match = re.search(rb"^objectSid:: (.*)$", done.stdout, re.MULTILINE)
        assert match, done.stderr
        return int.from_bytes(base64.b64decode(match[1])[-4:], "little")

    def allow_following(self, name: str) -> None:
        """Give a user the right Replicating Directory Changes."""
        self._set_access(
            SUFFIX, "--action=allow", "--car=get-changes", f"--trusteedn={user_dn(name)}"
        )

    def hide(self, dn: str, attribute: str) -> None:
        """Deny everybody to read an attribute of an entry, given as its schemaIDGUID."""
        self._set_access(dn, f"--sddl=(OD;;RP;{attribute};;AU)")

    def _set_access(self, dn: str, *right: str) -> None:
        database = self._folder / "private" / "sam.ldb"
        _run(
            "samba-tool", "dsacl", "set", f"--configfile={self._config}", f"--URL={database}",
            f"--objectdn={dn}", *right,
        )  # fmt: skip

    def _tool(
        self, tool: str, *arguments: str, ldif: str = ""
    ) -> subprocess.CompletedProcess[bytes]:
        # The variable for the CA would be ignored if LDAPNOINIT were set.
        environment = {key: text for key, text in os.environ.items() if key != "LDAPNOINIT"}
        return subprocess.run(
            [tool, "-x", "-H", self.url, "-D", ADMIN, "-w", ADMIN_PASSWORD, *arguments],
            input=ldif.encode(),
            capture_output=True,
            check=False,
            env={**environment, "LDAPTLS_CACERT": self.ca_file},
        )


@contextlib.contextmanager
def running_samba(folder: Path, ca: trustme.CA) -> Iterator[Samba]:
    """Run a domain controller with the account `SERVICE`, and stop it at the end in any case.

    A test is skipped if the packages are not installed, or only root could run it.
    """
    if not _SETUP.exists() or shutil.which(program("samba")) is None:
        pytest.skip(
            "no Samba; on Debian: apt-get install samba samba-ad-dc samba-ad-provision "
            "samba-dsdb-modules"
        )
    if os.geteuid() != 0 or shutil.which("ip") is None:
        pytest.skip("Samba needs root, iproute2 and a network namespace")
    server = Samba(folder, ca, next(_NUMBERS))
    try:
        server.create()
        server.start()
        unit = entry(STAFF, ("objectClass", "organizationalUnit"), ("ou", "Staff"))
        server.modify(unit + user(SERVICE, DISABLED) + set_password(SERVICE, PASSWORD))
        yield server
    finally:
        server.kill()
        # The devices end with the namespace.
        subprocess.run(
            ["ip", "netns", "delete", server.namespace], capture_output=True, check=False
        )


def settings(folder: Path, server: Samba, *, as_admin: bool = False) -> dict[str, Any]:
    """Return settings of a resolver that asks a server, with its files in `folder`."""
    password = folder / "password"
    password.write_text(f"{ADMIN_PASSWORD if as_admin else PASSWORD}\n")
    password.chmod(0o600)
    return {
        "preset": "active_directory",
        "urls": [server.url],
        "ca_file": server.ca_file,
        "bind_dn": ADMIN if as_admin else f"{SERVICE}@{DOMAIN}",
        "bind_password_file": str(password),
        "user_base": SUFFIX,
        "group_base": SUFFIX,
        # A busy machine must not decide the outcome.
        "operation_timeout": 30,
        "connect_timeout": 30,
        "lookup_timeout": 60,
    }


def user_dn(name: str) -> str:
    return f"CN={name},{STAFF}"


def group_dn(name: str) -> str:
    return f"CN={name},{STAFF}"


def user(name: str, flags: int = 0, *lines: tuple[str, str]) -> str:
    """An entry of a user without a password. `flags` are those of userAccountControl."""
    return entry(
        user_dn(name),
        ("objectClass", "user"),
        ("sAMAccountName", name),
        ("userPrincipalName", f"{name}@{DOMAIN}"),
        ("userAccountControl", str(NORMAL | PASSWORD_NOT_REQUIRED | flags)),
        *lines,
    )


def group(name: str, *members: str) -> str:
    """An entry of a group with members, given as DNs."""
    return entry(
        group_dn(name),
        ("objectClass", "group"),
        ("sAMAccountName", name),
        *(("member", member) for member in members),
    )


def member(name: str, verb: str, *members: str) -> str:
    """A change of a group's members, given as DNs. `verb` is `add` or `delete`."""
    return change(group_dn(name), f"{verb}: member", *(f"member: {each}" for each in members))


def set_flags(name: str, flags: int) -> str:
    """A change of the flags of userAccountControl."""
    value = NORMAL | PASSWORD_NOT_REQUIRED | flags
    return change(user_dn(name), "replace: userAccountControl", f"userAccountControl: {value}")


def set_password(name: str, password: str) -> str:
    """A change that enables an account with a password."""
    encoded = base64.b64encode(f'"{password}"'.encode("utf-16-le")).decode()
    return change(
        user_dn(name),
        "replace: unicodePwd",
        f"unicodePwd:: {encoded}",
        "-",
        "replace: userAccountControl",
        f"userAccountControl: {NORMAL}",
    )


def _run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr + done.stdout
