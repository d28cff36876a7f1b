"""Servers as the runbook finds them: at work, in an outage of the directory, after a mistake."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import pytest

from queuegate import Client, Retry, Unavailable, UnknownPartition
from tests.e2e.documentation.directories import openldap
from tests.e2e.documentation.environments import CERTIFICATES
from tests.e2e.documentation.reader import Reader
from tests.support.servers.queuegate_server import running_server
from tests.support.servers.webhook import running_webhook

_SETTINGS: Final = """\
listen:
  - 127.0.0.1:50051
  - address: 127.0.0.1:50052
    tls:
      certificate_file: /etc/queuegate/tls/tls.crt
      key_file: /etc/queuegate/tls/tls.key
policy: {path: /etc/queuegate/queues.yaml}
callers:
  loopback: {roles: [check, read, admin]}
  token_file: /etc/queuegate/tokens
audit: {path: /var/log/queuegate/audit.log}
ops: {listen: "127.0.0.1:9464"}
"""
_DIRECTORY: Final = """\
resolvers:
  corp:
    type: ldap
    preset: openldap
    urls: ["ldaps://ldap1.example.com:636"]
    ca_file: /etc/queuegate/ca.pem
    bind_dn: cn=queuegate,dc=example,dc=com
    bind_password_file: /etc/queuegate/ldap-password
    user_base: ou=people,dc=example,dc=com
    group_base: ou=groups,dc=example,dc=com
partitions:
  default: {resolver: corp}
"""

_REVIEW: Final = {
    "apiVersion": "admission.k8s.io/v1",
    "kind": "AdmissionReview",
    "request": {
        "uid": "1",
        "kind": {"group": "", "version": "v1", "kind": "Pod"},
        "operation": "CREATE",
        "namespace": "default",
        "userInfo": {"username": "alice"},
        "object": {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {}},
    },
}


@contextmanager
def at_work(reader: Reader, more_settings: str = "") -> Iterator[None]:
    """A server on 127.0.0.1:50051 with all of /etc/queuegate, the operations port, an audit log and
    a listener with TLS. One question could not be decided.
    """
    folder = reader.folder / "etc/queuegate"
    shutil.copy("examples/queues.yaml", folder)
    (folder / "tokens").touch()
    (folder / "tls").mkdir()
    for name, copied in (("server.pem", "tls.crt"), ("server.key", "tls.key")):
        shutil.copy(CERTIFICATES / name, folder / "tls" / copied)
    reader.write("/etc/queuegate/queuegate.yaml", _SETTINGS + more_settings)
    with running_server("--config", str(folder / "queuegate.yaml"), listen=()):
        with (
            Client(reader.variables["QUEUEGATE_ADDRESS"], timeout=60) as client,
            pytest.raises(UnknownPartition),
        ):
            client.check("sue", "root", partition="no")
        yield


@contextmanager
def with_directory(reader: Reader) -> Iterator[None]:
    """Like `at_work`; with the directory that `directories.openldap` runs."""
    with at_work(reader, _DIRECTORY):
        yield


@contextmanager
def in_an_outage(reader: Reader) -> Iterator[None]:
    """The same after that directory has ended. Five users were asked about in vain."""
    with openldap(reader):
        pass
    with (
        at_work(reader, _DIRECTORY),
        Client(reader.variables["QUEUEGATE_ADDRESS"], timeout=60, retry=Retry(1)) as client,
    ):
        for number in range(5):
            with pytest.raises(Unavailable):
                client.check(f"user{number}", "root")
        yield


@contextmanager
def after_a_mistake(reader: Reader) -> Iterator[None]:
    """Like `at_work`; the policy has been replaced by one that is not valid."""
    with at_work(reader):
        wrong = "partitions:\n  - name: default\n    queue: []\n"
        reader.write("/etc/queuegate/queues.yaml", wrong)
        yield


@contextmanager
def with_workers(reader: Reader) -> Iterator[None]:
    """Like `at_work`, with two workers."""
    with at_work(reader, "workers: 2\n"):
        yield


@contextmanager
def webhook(reader: Reader) -> Iterator[None]:
    """The admission webhook, with its operations port on 127.0.0.1:9465. It was asked once."""
    with running_webhook(reader.folder / "etc/queuegate") as running:
        reader.port(9465, int(running.ops.rpartition(":")[2]))
        running.review("/mutate", _REVIEW)
        yield
