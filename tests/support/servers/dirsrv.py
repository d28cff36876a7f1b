"""A real 389 Directory Server, set up like that of FreeIPA: a private folder and a free port.

The server is made from the package's template, with the plugins that FreeIPA enables, configured as
in `install/updates/20-syncrepl.update` of FreeIPA. Of FreeIPA's schema it has only what tests need.
"""

import contextlib
import getpass
import os
import re
import shutil
import subprocess
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import pytest

from tests.support.servers.free_ports import free_port
from tests.support.servers.ldap_entries import change, entry
from tests.support.servers.processes import ServerProcess
from tests.support.servers.slapd import program

SUFFIX: Final = "dc=ipa,dc=test"
ACCOUNTS: Final = f"cn=accounts,{SUFFIX}"
USERS: Final = f"cn=users,{ACCOUNTS}"
GROUPS: Final = f"cn=groups,{ACCOUNTS}"
SERVICE: Final = f"uid=queuegate,cn=sysaccounts,cn=etc,{SUFFIX}"
PASSWORD: Final = "svc pass#1"
ADMIN: Final = "cn=Directory Manager"
_ADMIN_PASSWORD: Final = "adminpw"
_START_SECONDS: Final = 120

_DEFAULTS: Final = Path("/usr/share/dirsrv/inf/defaults.inf")
_TEMPLATE: Final = Path("/usr/share/dirsrv/data/template-dse.ldif")
CONTENT_SYNC: Final = "Content Synchronization"
RETRO_CHANGELOG: Final = "Retro Changelog Plugin"
_PLUGINS: Final = {
    CONTENT_SYNC: "",
    RETRO_CHANGELOG: (
        "nsslapd-attribute: nsuniqueid:targetUniqueId\n"
        "nsslapd-changelogmaxage: 2d\n"
        f"nsslapd-include-suffix: cn=dns,{SUFFIX}\n"
    ),
    "MemberOf Plugin": (
        f"memberofentryscope: {SUFFIX}\n"
        f"memberofentryscopeexcludesubtree: cn=provisioning,{SUFFIX}\n"
    ),
    "referential integrity postoperation": (
        f"nsslapd-plugincontainerscope: {SUFFIX}\n"
        f"nsslapd-pluginentryscope: {SUFFIX}\n"
        f"nsslapd-pluginExcludeEntryScope: cn=provisioning,{SUFFIX}\n"
    ),
}
"""The plugins that FreeIPA enables, with the lines that it adds."""
_SCHEMA: Final = (
    "dn: cn=schema\n"
    "attributeTypes: ( 2.16.840.1.113719.1.301.4.37.1 NAME 'krbPrincipalExpiration' "
    "SYNTAX 1.3.6.1.4.1.1466.115.121.1.24 SINGLE-VALUE )\n"
    "objectClasses: ( 2.16.840.1.113730.3.8.4.2 NAME 'ipaUserGroup' SUP top AUXILIARY )\n"
    "objectClasses: ( 2.16.840.1.113719.1.301.6.8.1 NAME 'krbPrincipalAux' SUP top AUXILIARY "
    "MAY krbPrincipalExpiration )\n"
)
_DATABASE: Final = """
dn: cn=userRoot,cn=ldbm database,cn=plugins,cn=config
objectClass: extensibleObject
objectClass: nsBackendInstance
nsslapd-suffix: {suffix}
cn: userRoot

dn: cn="{suffix}",cn=mapping tree,cn=config
objectClass: extensibleObject
objectClass: nsMappingTree
cn: {suffix}
nsslapd-state: backend
nsslapd-backend: userRoot
"""
_TREE: Final = f'cn="{SUFFIX}",cn=mapping tree,cn=config'
_REPLICATOR: Final = "cn=replicator,cn=config"
_READ: Final = (
    '(targetattr != "userPassword")(version 3.0; acl "read"; allow (read, search) '
    f'userdn = "ldap:///{SERVICE}";)'
)


class Dirsrv(ServerProcess):
    """A server on 127.0.0.1, without encryption. To end, it takes seconds."""

    stop_seconds = _START_SECONDS

    def __init__(self, folder: Path, plugins: Sequence[str]) -> None:
        self.port = free_port()
        self._folder = folder
        self._config = folder / "config"
        for name in ("bak", "config/schema", "db", "inst", "ldif", "lock", "log", "run", "tmp"):
            (folder / name).mkdir(parents=True)
        (self._config / "dse.ldif").write_text(self._dse(plugins))
        (self._config / "schema" / "99user.ldif").write_text(_SCHEMA)
        (self._config / "slapd-collations.conf").touch()
        (self._config / "certmap.conf").write_text("certmap default default\n")

    def _dse(self, plugins: Sequence[str]) -> str:
        folder = self._folder
        hashed = subprocess.run(
            ["pwdhash", "-s", "SSHA512", _ADMIN_PASSWORD],
            capture_output=True, text=True, check=True,
        )  # fmt: skip
        release = re.search(r"^version = ([0-9]+)", _DEFAULTS.read_text(), re.MULTILINE)
        assert release
        values: dict[str, object] = {
            "config_dir": self._config,
            "cert_dir": self._config,
            "schema_dir": self._config / "schema",
            "db_home_dir": folder / "db",
            # As the package's own `dscreate`: LMDB is experimental before release 3.
            "db_lib": "mdb" if int(release[1]) >= 3 else "bdb",
            "ds_passwd": hashed.stdout.strip(),
            "ds_port": self.port,
            "ds_suffix": SUFFIX,
            "ds_user": getpass.getuser(),
            "fqdn": "localhost",
            "ldapi": folder / "ldapi",
            "ldapi_autobind": "off",
            "ldapi_enabled": "off",
            "rootdn": ADMIN,
        }
        text = re.sub(
            "%([a-z]+)_dir%", lambda m: str(values.get(f"{m[1]}_dir", folder / m[1])),
            _TEMPLATE.read_text(),
        )  # fmt: skip
        text = re.sub("%([a-z_]+)%", lambda m: str(values[m[1]]), text)
        text = text.replace(
            "cn: config\n",
            "cn: config\nnsslapd-listenhost: 127.0.0.1\nnsslapd-rootpwstoragescheme: SSHA512\n",
            1,
        )
        for name in plugins:
            head, found, tail = text.partition(f"\ndn: cn={name},cn=plugins,cn=config\n")
            assert found
            off, on = "nsslapd-pluginenabled: off\n", "nsslapd-pluginenabled: on\n"
            text = head + found + tail.replace(off, on + _PLUGINS[name], 1)
        return text.rstrip() + "\n" + _DATABASE.format(suffix=SUFFIX)

    @property
    def url(self) -> str:
        return f"ldap://127.0.0.1:{self.port}"

    def start(self) -> None:
        log = self._folder / "log" / "errors"
        pid_file = self._folder / "run" / "pid"
        self.process = subprocess.Popen(
            [program("ns-slapd"), "-D", str(self._config), "-i", str(pid_file), "-d", "0"],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        end = time.monotonic() + _START_SECONDS
        while self._tool("ldapwhoami").returncode != 0:
            if self.process.poll() is not None or time.monotonic() > end:
                raise AssertionError(log.read_text() if log.exists() else "no log")
            time.sleep(0.05)

    def modify(self, ldif: str) -> None:
        """Apply changes, or add entries."""
        done = self._tool("ldapmodify", "-a", ldif=ldif)
        assert done.returncode == 0, done.stderr.decode()

    def read(self, dn: str, attribute: str) -> str:
        """Return an attribute of an entry, as LDIF."""
        done = self._tool(
            "ldapsearch", "-LLL", "-b", dn, "-s", "base", "-o", "ldif-wrap=no", attribute
        )
        assert done.returncode == 0, done.stderr.decode()
        return done.stdout.decode()

    def manage(self, *command: str) -> None:
        """Run a command of `dsidm`, the tool of 389 Directory Server for users and groups."""
        done = subprocess.run(
            ["dsidm", "-D", ADMIN, "-w", _ADMIN_PASSWORD, "-b", SUFFIX, self.url, *command],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr

    def _tool(
        self, tool: str, *arguments: str, ldif: str = ""
    ) -> subprocess.CompletedProcess[bytes]:
        return subprocess.run(
            [tool, "-x", "-H", self.url, "-D", ADMIN, "-w", _ADMIN_PASSWORD, *arguments],
            input=ldif.encode(),
            capture_output=True,
            check=False,
            env={**os.environ, "LDAPNOINIT": "1"},
        )


def settings(folder: Path, server: Dirsrv) -> dict[str, Any]:
    """Return settings of a resolver that follows a server, with its password in `folder`."""
    password = folder / "password"
    password.write_text(f"{PASSWORD}\n")
    password.chmod(0o600)
    return {
        "preset": "freeipa",
        "urls": [server.url],
        "start_tls": False,
        "allow_plaintext_bind": True,
        "bind_dn": SERVICE,
        "bind_password_file": str(password),
        "user_base": USERS,
        "group_base": GROUPS,
        # A busy machine must not decide the outcome.
        "operation_timeout": 30,
        "connect_timeout": 30,
        "changes": "syncrepl",
        "repeat_after": 0,
    }


def member(name: str, verb: str, *members: str) -> str:
    """A change of a group's members, given as DNs. `verb` is `add` or `delete`."""
    return change(group_dn(name), f"{verb}: member", *(f"member: {each}" for each in members))


def user_dn(name: str) -> str:
    return f"uid={name},{USERS}"


def group_dn(name: str) -> str:
    return f"cn={name},{GROUPS}"


def user(name: str) -> str:
    """An entry of a user. `nsMemberOf` permits memberOf, as FreeIPA's classes do."""
    return entry(
        user_dn(name),
        *(("objectClass", each) for each in ("inetOrgPerson", "posixAccount", "nsMemberOf")),
        *((attribute, name) for attribute in ("uid", "cn", "sn")),
        ("uidNumber", "1000"),
        ("gidNumber", "1000"),
        ("homeDirectory", "/"),
    )


def group(name: str, *members: str) -> str:
    """An entry of a group with members, given as DNs."""
    return entry(
        group_dn(name),
        *(("objectClass", each) for each in ("groupOfNames", "ipaUserGroup", "nsMemberOf")),
        ("cn", name),
        *(("member", member) for member in members),
    )


def _base() -> str:
    containers = (f"cn=etc,{SUFFIX}", f"cn=sysaccounts,cn=etc,{SUFFIX}", ACCOUNTS, USERS, GROUPS)
    return (
        entry(
            SUFFIX,
            ("objectClass", "domain"),
            ("dc", "ipa"),
            ("aci", _READ),
        )
        + "".join(
            entry(dn, ("objectClass", "nsContainer"), ("cn", dn.partition(",")[0][3:]))
            for dn in containers
        )
        + entry(
            SERVICE,
            ("objectClass", "account"),
            ("objectClass", "simpleSecurityObject"),
            ("uid", "queuegate"),
            ("userPassword", PASSWORD),
        )
    )


@contextlib.contextmanager
def running_dirsrv(folder: Path, ldif: str, *, without: Sequence[str] = ()) -> Iterator[Dirsrv]:
    """Run a server with these entries, and stop it at the end in any case.

    A test is skipped if the package is not installed. `without` names plugins to leave off.
    """
    if not _TEMPLATE.exists() or shutil.which(program("ns-slapd")) is None:
        pytest.skip("no 389 Directory Server; on Debian: apt-get install 389-ds-base")
    server = Dirsrv(folder, [name for name in _PLUGINS if name not in without])
    try:
        server.start()
        server.modify(_base() + ldif)
        yield server
    finally:
        server.kill()


def replicate(first: Dirsrv, second: Dirsrv) -> None:
    """Replace the entries of the second server by those of the first, which then sends changes."""
    for number, server in enumerate((first, second), 1):
        server.modify(
            entry(
                _REPLICATOR,
                ("objectClass", "person"),
                ("cn", "replicator"),
                ("sn", "replicator"),
                ("userPassword", PASSWORD),
            )
            + entry(
                f"cn=replica,{_TREE}",
                ("objectClass", "nsds5replica"),
                ("cn", "replica"),
                ("nsDS5ReplicaRoot", SUFFIX),
                ("nsDS5ReplicaId", str(number)),
                ("nsDS5ReplicaType", "3"),
                ("nsDS5Flags", "1"),
                ("nsDS5ReplicaBindDN", _REPLICATOR),
            )
        )
    agreement = f"cn=agreement,cn=replica,{_TREE}"
    first.modify(
        entry(
            agreement,
            ("objectClass", "nsds5replicationagreement"),
            ("cn", "agreement"),
            ("nsDS5ReplicaRoot", SUFFIX),
            ("nsDS5ReplicaHost", "127.0.0.1"),
            ("nsDS5ReplicaPort", str(second.port)),
            ("nsDS5ReplicaTransportInfo", "LDAP"),
            ("nsDS5ReplicaBindMethod", "SIMPLE"),
            ("nsDS5ReplicaBindDN", _REPLICATOR),
            ("nsDS5ReplicaCredentials", PASSWORD),
            ("nsds5BeginReplicaRefresh", "start"),
        )
    )
    end = time.monotonic() + _START_SECONDS
    while "succeeded" not in (status := first.read(agreement, "nsds5replicaLastInitStatus")):
        assert time.monotonic() < end, status
        time.sleep(0.05)
