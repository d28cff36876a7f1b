"""`bind: gssapi` against a real KDC, and with a KDC that hangs."""

import contextlib
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import trustme

from queuegate import Client
from queuegate.exceptions import GroupsUnavailable
from tests.support.servers import ldap_entries as entries
from tests.support.servers.kdc import OURS, REALM, Kdc, running_kdc
from tests.support.servers.queuegate_server import run, running_server
from tests.support.servers.slapd import GROUPS, PEOPLE, SERVICE, Slapd, running_slapd

Configure = Callable[..., Path]
HOST = f"ldap/127.0.0.1@{REALM}"
POLICY = """\
partitions:
  - name: default
    queues:
      - name: root
        queues: [{name: team, submitacl: " analytics"}, {name: open, submitacl: "*"}]
"""


@pytest.fixture(scope="module")
def shared_kdc(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kdc]:
    with running_kdc(tmp_path_factory.mktemp("realm") / "kdc") as running:
        yield running


@pytest.fixture(scope="module")
def our_keytab(shared_kdc: Kdc) -> Path:
    return shared_kdc.keytab(OURS)


@pytest.fixture
def kdc(shared_kdc: Kdc) -> Iterator[Kdc]:
    """A KDC that the test may freeze or stop."""
    yield shared_kdc
    shared_kdc.repair()


@pytest.fixture(scope="module")
def slapd(
    shared_kdc: Kdc, ca: trustme.CA, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Slapd]:
    """A directory that knows the account `queuegate` of the realm as its service account."""
    more = (
        f"sasl-host 127.0.0.1\nsasl-realm {REALM}\n"
        f"authz-regexp uid=queuegate,cn={REALM},cn=gssapi,cn=auth {SERVICE}\n"
    )
    environment = {**shared_kdc.environment, "KRB5_KTNAME": str(shared_kdc.keytab(HOST))}
    folder = tmp_path_factory.mktemp("directory") / "slapd"
    with running_slapd(
        folder, ca, entries.standard(), more_globals=more, environment=environment
    ) as running:
        yield running


@pytest.fixture
def configure(slapd: Slapd, our_keytab: Path, ca_file: Path, tmp_path: Path) -> Configure:
    def write(
        url: str = slapd.url, *, keytab: Path = our_keytab, connect_timeout: str = "30s"
    ) -> Path:
        policy = tmp_path / "queues.yaml"
        policy.write_text(POLICY)
        file = tmp_path / "queuegate.yaml"
        file.write_text(f"""\
policy: {{path: {policy}}}
resolvers:
  corp:
    type: ldap
    urls: ["{url}"]
    ca_file: {ca_file}
    bind: gssapi
    keytab_file: {keytab}
    user_base: {PEOPLE}
    group_base: {GROUPS}
    # A busy machine must not decide the outcome.
    lookup_timeout: 60s
    connect_timeout: {connect_timeout}
partitions:
  default: {{resolver: corp, cache: {{failure_ttl: 100ms}}}}
""")
        return file

    return write


def check(kdc: Kdc, config: Path) -> tuple[int, str]:
    command = ("source-check", "--config", str(config), "corp", "bob")
    done = run(*command, environment=kdc.environment)
    return done.returncode, done.stdout + done.stderr


@pytest.mark.parametrize("encryption", ["ldaps", "starttls"])
def test_bind_with_a_keytab(kdc: Kdc, slapd: Slapd, configure: Configure, encryption: str) -> None:
    url = slapd.tls_url if encryption == "ldaps" else slapd.url
    status, output = check(kdc, configure(url))
    assert status == 0, output
    assert "groups (1): analytics" in output


def test_failures_come_with_advice(kdc: Kdc, configure: Configure) -> None:
    unknown = kdc.keytab(f"stranger@{REALM}")
    status, output = check(kdc, configure(keytab=unknown))
    # The KDC knows it, the directory lets it see nothing.
    assert status == 1
    assert "lookup failed: the search base does not exist or is not visible" in output

    kdc.stop()
    status, output = check(kdc, configure())
    assert status == 1
    assert "FAIL  bind" in output
    assert "cannot get a Kerberos ticket" in output
    assert "advice: check keytab_file" in output


def test_a_server_without_gssapi(
    kdc: Kdc, configure: Configure, ca: trustme.CA, tmp_path: Path
) -> None:
    with running_slapd(tmp_path / "other", ca, entries.base()) as without:
        status, output = check(kdc, configure(without.url))
    assert status == 1
    assert "FAIL  bind" in output
    assert "advice: " in output


def test_a_hung_kdc_blocks_no_other_call(kdc: Kdc, configure: Configure) -> None:
    kdc.freeze()
    config = configure(connect_timeout="5s")
    with (
        running_server("--config", str(config), environment=kdc.environment) as server,
        Client(server.address, timeout=60) as client,
    ):
        assert client.check("bob", "root.open")
        with pytest.raises(GroupsUnavailable):
            client.check("bob", "root.team")
        assert "took longer than" in client.resolve("bob").detail
        descriptors = len(list(Path(f"/proc/{server.pid}/fd").iterdir()))
        # Attempts to connect follow each other, and none leaves a process or a descriptor.
        seen: set[int] = set()
        end = time.monotonic() + 60
        while len(seen) < 2:
            binding = children(server.pid)
            assert len(binding) <= 1
            seen.update(binding)
            assert time.monotonic() < end
            time.sleep(0.01)
        assert len(list(Path(f"/proc/{server.pid}/fd").iterdir())) <= descriptors + 10
        assert client.check("bob", "root.open")
        kdc.thaw()
        wait_until_allowed(client, "bob", "root.team")


def test_the_process_ends_while_a_kdc_hangs(kdc: Kdc, configure: Configure) -> None:
    kdc.freeze()
    config = configure(connect_timeout="60s")
    with running_server("--config", str(config), environment=kdc.environment) as server:
        end = time.monotonic() + 60
        while not (binding := children(server.pid)):
            assert time.monotonic() < end
            time.sleep(0.01)
        assert server.stop(50) == 0
    end = time.monotonic() + 60
    while any(map(is_running, binding)):
        assert time.monotonic() < end
        time.sleep(0.01)


def children(pid: int) -> list[int]:
    found = []
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        # A thread may end meanwhile.
        with contextlib.suppress(OSError):
            found += [int(child) for child in task.read_text().split()]
    return [child for child in found if is_running(child)]


def is_running(pid: int) -> bool:
    """Return whether a process exists and is more than a zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def wait_until_allowed(client: Client, user: str, queue: str) -> None:
    end = time.monotonic() + 60
    while True:
        try:
            assert client.check(user, queue)
        except GroupsUnavailable:
            assert time.monotonic() < end
            time.sleep(0.05)
        else:
            return
