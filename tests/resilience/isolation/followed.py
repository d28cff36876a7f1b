"""A real directory that reports its changes, and a server that follows it."""

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import trustme

from tests.resilience.isolation.new_users import POLICY
from tests.support.eventually import eventually
from tests.support.servers import ldap_entries as entries
from tests.support.servers.admin_port import LISTEN, get_json, ops_address
from tests.support.servers.queuegate_server import RunningServer, running_server
from tests.support.servers.slapd import GROUPS, PEOPLE, SERVICE, Slapd, running_slapd

SYNCPROV: Final = f"""\
overlay syncprov
limits dn.exact="{SERVICE}" size=unlimited
"""
MAX_MEMORY: Final = 384 << 20
SECONDS: Final = 300.0
"""How long a change may take to be noticed, on a busy machine."""


def unit(dn: str) -> str:
    return entries.entry(dn, ("objectClass", "organizationalUnit"))


@contextlib.contextmanager
def following_server(folder: Path, more: str, text: str) -> Iterator[tuple[RunningServer, Slapd]]:
    """Run a directory with these entries, and a server that follows it."""
    ca = trustme.CA()
    with running_slapd(
        folder / "slapd", ca, "", load=text, more_globals="moduleload syncprov\nsortvals member",
        more_database=SYNCPROV,
    ) as slapd:  # fmt: skip
        (folder / "queues.yaml").write_text(POLICY)
        config = folder / "queuegate.yaml"
        (slapd.folder / "password").chmod(0o600)
        config.write_text(
            f"""\
policy: {{path: {folder}/queues.yaml}}
resolvers:
  corp:
    type: ldap
    preset: openldap
    urls: ["{slapd.url}"]
    ca_file: {slapd.folder}/ca.pem
    bind_dn: "{SERVICE}"
    bind_password_file: {slapd.folder}/password
    user_base: "{PEOPLE}"
    group_base: "{GROUPS}"
    changes: syncrepl
{more}
partitions:
  default: {{resolver: corp}}
"""
        )
        with running_server("--config", str(config), *LISTEN) as server:
            yield server, slapd


def expect_state(server: RunningServer, expected: str) -> None:
    """Wait until the directory is followed, or cannot be."""
    eventually(lambda: state(server), expected, SECONDS)


def state(server: RunningServer) -> str:
    [changes] = get_json(ops_address(server), "/readyz")[1]["resolvers"]["changes"]
    return str(changes["state"])
