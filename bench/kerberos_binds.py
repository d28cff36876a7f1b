"""Kerberos binds during calls: no call waits for one, and none runs gRPC's fork handlers.

    python -m bench.kerberos_binds [BINDS]

The server has eight directories, all served by one slapd, whose connections are replaced ten times
per second. A child process binds each new connection.
"""

import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Final

import trustme

from queuegate import Client
from tests.support.servers import admin_port
from tests.support.servers import ldap_entries as entries
from tests.support.servers.kdc import OURS, REALM, running_kdc
from tests.support.servers.queuegate_server import RunningServer, running_server
from tests.support.servers.slapd import GROUPS, PEOPLE, SERVICE, running_slapd

_DIRECTORIES: Final = 8
_CALLERS: Final = 4


def _measure(binds: int, folder: Path) -> str:
    ca = trustme.CA()
    ca_file = folder / "ca.pem"
    ca.cert_pem.write_to_path(str(ca_file))
    mapping = f"authz-regexp uid=queuegate,cn={REALM},cn=gssapi,cn=auth {SERVICE}"
    globals_ = f"sasl-host 127.0.0.1\nsasl-realm {REALM}\n{mapping}\n"
    with running_kdc(folder / "kdc") as kdc:
        keytab = kdc.keytab(f"ldap/127.0.0.1@{REALM}")
        environment = {**kdc.environment, "KRB5_KTNAME": str(keytab)}
        with running_slapd(
            folder / "slapd", ca, entries.standard(), more_globals=globals_, environment=environment
        ) as slapd:
            config = _configure(folder, slapd.url, ca_file, kdc.keytab(OURS))
            with running_server(
                *("--config", str(config), *admin_port.LISTEN), environment=kdc.environment
            ) as server:
                return _ask(server, binds)


def _configure(folder: Path, url: str, ca_file: Path, keytab: Path) -> Path:
    policy = folder / "queues.yaml"
    queues = 'queues: [{name: root, queues: [{name: team, submitacl: " analytics"}]}]'
    numbers = range(_DIRECTORIES)
    policy.write_text("partitions:\n" + "".join(f"  - {{name: p{n}, {queues}}}\n" for n in numbers))
    directory = (
        f'{{type: ldap, urls: ["{url}"], ca_file: {ca_file}, bind: gssapi, keytab_file: {keytab}, '
        f"user_base: '{PEOPLE}', group_base: '{GROUPS}', connect_timeout: 30s, max_age: 100ms}}"
    )
    config = folder / "queuegate.yaml"
    config.write_text(
        f"policy: {{path: {policy}}}\nresolvers:\n"
        + "".join(f"  d{n}: {directory}\n" for n in numbers)
        + "partitions:\n"
        + "".join(f"  p{n}: {{resolver: d{n}}}\n" for n in numbers)
    )
    return config


def _partition(number: int) -> str:
    return f"p{number % _DIRECTORIES}"


def _ask(server: RunningServer, binds: int) -> str:
    """Call the server until it has bound often enough, and return the measurements."""
    address = admin_port.ops_address(server)
    slowest = [0.0] * _CALLERS
    answered = [0] * _CALLERS
    done = threading.Event()

    with Client(server.address, timeout=60) as client:
        for number in range(_DIRECTORIES):
            assert client.check("bob", "root.team", partition=_partition(number))

    def call(caller: int) -> None:
        with Client(server.address, timeout=60) as client:
            while not done.is_set():
                start = time.perf_counter()
                assert client.check("bob", "root.team", partition=_partition(answered[caller]))
                slowest[caller] = max(slowest[caller], time.perf_counter() - start)
                answered[caller] += 1

    threads = [threading.Thread(target=call, args=(caller,)) for caller in range(_CALLERS)]
    begin = time.monotonic()
    for thread in threads:
        thread.start()
    bound = 0
    while bound < binds and all(thread.is_alive() for thread in threads):
        time.sleep(1)
        bound = round(admin_port.value(address, "queuegate_ldap_steps_total", "bind", "success"))
    seconds = time.monotonic() - begin
    done.set()
    for thread in threads:
        thread.join()
    failed = round(admin_port.value(address, "queuegate_ldap_steps_total", "bind", "failure"))
    assert server.stop() == 0
    forks = sum("fork" in line for line in server.errors)
    return (
        f"{bound} binds, {failed} failed, in {seconds:.0f} s beside {sum(answered)} calls, the "
        f"longest of {max(slowest) * 1000:.0f} ms; {forks} lines about forks"
    )


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        print(_measure(int(sys.argv[1]) if len(sys.argv) > 1 else 2000, Path(folder)))
