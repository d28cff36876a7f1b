"""An API server that presents a certificate to the webhook, which asks a real slapd for groups."""

import json
import ssl
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx2
import pytest
import trustme
import yaml

from tests.e2e.kube.cluster import ApiServer, program, running_cluster
from tests.e2e.kube.queue_checks import (
    JOBS,
    KUEUE,
    QueueWebhook,
    enforced_by,
    job,
    serving,
    submit,
    write_settings,
)
from tests.e2e.kube.reviews import created
from tests.support.rows import rows, table
from tests.support.servers import ldap_entries as entries
from tests.support.servers.slapd import GROUPS, PASSWORD, PEOPLE, SERVICE, Slapd, running_slapd

POLICY: str = table(__file__, "POLICY")
PEER = "kube-apiserver"


@dataclass(frozen=True, slots=True)
class Verified:
    """A cluster whose API server has a client certificate, and the webhook that it asks."""

    cluster: ApiServer
    webhook: QueueWebhook


@contextmanager
def directory(folder: Path, ca: trustme.CA) -> Iterator[Slapd]:
    """Run a slapd where bob is in a group of the policy that the API server does not know."""
    people = (entries.person(uid) for uid in ("bob", "alice"))
    groups = (
        entries.group("research", entries.dn("bob")),
        entries.group("finance", entries.dn("alice")),
    )
    ldif = "".join((entries.base(), *people, *groups))
    with running_slapd(folder, ca, ldif) as slapd:
        yield slapd


def write_webhook_settings(folder: Path, slapd: Slapd) -> tuple[Path, trustme.CA]:
    """Write the settings of a webhook that requires a certificate and asks the directory."""
    flat = {name: {"below": f"root.{name}"} for name in ("kai", "volcano")}
    queues = {"mode": "deny", "schedulers": {"kueue": {}, **flat}}
    config, ca = write_settings(folder, queues, POLICY)
    ca.cert_pem.write_to_path(str(folder / "ca.crt"))
    password = folder / "password"
    password.write_text(PASSWORD)
    password.chmod(0o600)
    settings = yaml.safe_load(config.read_text())
    settings["resolvers"] = {
        "corp": {
            "type": "ldap",
            "urls": [slapd.tls_url],
            "ca_file": str(folder / "ldap-ca.crt"),
            "bind_dn": SERVICE,
            "bind_password_file": str(password),
            "user_base": PEOPLE,
            "group_base": GROUPS,
        }
    }
    settings["partitions"]["default"]["resolver"] = "corp"
    settings["admission"]["queues"]["groups"] = "directory"
    settings["admission"]["tls"] |= {
        "client_ca_file": str(folder / "ca.crt"),
        "client_names": [f"dns:{PEER}"],
    }
    config.write_text(yaml.safe_dump(settings))
    return config, ca


def write_admission_configuration(folder: Path, webhook: QueueWebhook) -> Path:
    """Write the file of --admission-control-config-file, and the kubeconfig that it names."""
    certificate = folder / "client.pem"
    issued = webhook.ca.issue_cert(PEER)
    issued.private_key_and_cert_chain_pem.write_to_path(str(certificate))
    user = {"client-certificate": str(certificate), "client-key": str(certificate)}
    kubeconfig = {
        "apiVersion": "v1",
        "kind": "Config",
        "users": [{"name": webhook.address, "user": user}],
    }
    (folder / "kubeconfig.json").write_text(json.dumps(kubeconfig))
    group = "apiserver.config.k8s.io/v1"
    plugin = {
        "name": "ValidatingAdmissionWebhook",
        "configuration": {
            "apiVersion": group,
            "kind": "WebhookAdmissionConfiguration",
            "kubeConfigFile": str(folder / "kubeconfig.json"),
        },
    }
    file = folder / "admission.json"
    file.write_text(
        json.dumps({"apiVersion": group, "kind": "AdmissionConfiguration", "plugins": [plugin]})
    )
    return file


@pytest.fixture(scope="module")
def verified(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Verified]:
    etcd, kube_apiserver = program("etcd"), program("kube-apiserver")
    if etcd is None or kube_apiserver is None or program("kubectl") is None:
        pytest.skip("no API server and kubectl here: `make kube-tools` builds them (Go, 15 min)")
    folder = tmp_path_factory.mktemp("verified")
    own, ldap_ca = folder / "webhook", trustme.CA()
    own.mkdir()
    ldap_ca.cert_pem.write_to_path(str(own / "ldap-ca.crt"))
    with directory(folder / "slapd", ldap_ca) as slapd:
        config, ca = write_webhook_settings(own, slapd)
        with serving(config, ca) as webhook:
            file = write_admission_configuration(folder, webhook)
            options = {"admission-control-config-file": file}
            with running_cluster(folder, etcd, kube_apiserver, options) as cluster:
                for name in ("dev", "other"):
                    created(
                        cluster.ask(
                            "admin", "POST", "/api/v1/namespaces", {"metadata": {"name": name}}
                        )
                    )
                with enforced_by(cluster, config, ca, webhook.address):
                    yield Verified(cluster, webhook)


def kubectl_create(
    api: ApiServer, folder: Path, user: str, queue: str, key: str = KUEUE
) -> tuple[int, str]:
    """Create a Job as a user, and return the status of kubectl with what it prints."""
    kubectl = program("kubectl")
    assert kubectl is not None
    kubeconfig = folder / f"{user}.json"
    kubeconfig.write_text(api.kubeconfig(user))
    manifest = json.dumps(job(f"{user}-{queue}", {key: queue}))
    command = [kubectl, f"--kubeconfig={kubeconfig}", f"--cache-dir={folder / 'cache'}"]
    done = subprocess.run(
        [*command, "create", "--namespace=dev", "--filename=-"],
        input=manifest,
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout + done.stderr


def test_a_group_of_the_directory_admits(verified: Verified, tmp_path: Path) -> None:
    status, printed = kubectl_create(verified.cluster, tmp_path, "bob", "team-open")
    assert (status, printed) == (0, "job.batch/bob-team-open created\n")


def test_kubectl_prints_the_queues_that_the_directory_opens(
    verified: Verified, tmp_path: Path
) -> None:
    """The webhook lists them, because it has verified the API server's certificate."""
    status, printed = kubectl_create(verified.cluster, tmp_path, "bob", "team-closed")
    assert status == 1
    assert "bob may not submit to root.namespaces.dev.team-closed" in printed
    assert f'metadata.labels["{KUEUE}"]' in printed
    assert "or above lists bob or any of bob's groups" in printed
    # For Kueue, these are LocalQueues of the namespace.
    assert "Queues you may use: team-open. To see why: " in printed
    assert "finance" not in printed
    assert "research" not in printed


@rows
def test_usable_queues_are_those_of_the_scheduler(
    verified: Verified, tmp_path: Path, scheduler: str, key: str, usable: str
) -> None:
    """As the user would write them into the label: flat names, none of another scheduler."""
    status, printed = kubectl_create(verified.cluster, tmp_path, "bob", "team-closed", key)
    assert status == 1
    assert f"bob may not submit to root.{scheduler}.team-closed" in printed
    assert f'(set in metadata.labels["{key}"])' in printed
    assert f"Queues you may use: {usable}. To see why: " in printed


def test_groups_of_the_api_server_do_not_count(verified: Verified) -> None:
    """`dev` is a Kubernetes group of bob, and the ACL lists it, but the directory lacks it."""
    assert submit(verified.cluster, "x", "team-closed").status_code == 403
    allowed = job("alice", {KUEUE: "team-closed"})
    assert verified.cluster.ask("alice", "POST", f"{JOBS}?dryRun=All", allowed).status_code == 201


def test_others_cannot_ask_the_webhook(verified: Verified, tmp_path: Path) -> None:
    """Without a certificate, and with one that bears another name."""
    webhook = verified.webhook
    trusted = webhook.config.parent / "ca.crt"
    issued = webhook.ca.issue_cert("somebody-else")
    issued.private_key_and_cert_chain_pem.write_to_path(str(tmp_path / "other.pem"))
    url = f"https://{webhook.address}/queues"
    context = ssl.create_default_context(cafile=str(trusted))
    with pytest.raises(httpx2.TransportError):
        httpx2.post(url, content="{}", verify=context)
    context.load_cert_chain(str(tmp_path / "other.pem"))
    headers = {"Content-Type": "application/json"}
    answer = httpx2.post(url, content="{}", headers=headers, verify=context)
    assert answer.status_code == 403
