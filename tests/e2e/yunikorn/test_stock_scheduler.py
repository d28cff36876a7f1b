"""The scheduler as released, fed with annotations that the webhook writes from a real slapd."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import trustme

from queuegate import user_info
from tests.e2e.yunikorn.test_scheduler import BUILT, MODULE, running_scheduler
from tests.support import go_toolchain
from tests.support.admission_reviews import admission_review
from tests.support.eventually import eventually
from tests.support.go_toolchain import BUILD_SECONDS, GoError
from tests.support.servers import ldap_entries as entries
from tests.support.servers.slapd import GROUPS, PEOPLE, SERVICE, Slapd, running_slapd
from tests.support.servers.webhook import Webhook, patch_of, running_webhook

pytestmark = pytest.mark.timeout(BUILD_SECONDS)
QUEUES = """\
partitions:
  - name: default
    placementrules: [{name: provided}]
    queues:
      - name: root
        queues:
          - {name: science, submitacl: " data-science"}
          - {name: ops, submitacl: "carl"}
"""
MANY = 500


@pytest.fixture(scope="module")
def stock(go: Path) -> Path:
    """The scheduler, built without any change to yunikorn-core."""
    program = BUILT / "stock"
    try:
        go_toolchain.run("mod", "download", folder=MODULE)
        go_toolchain.run("build", "-o", str(program), "./scheduler", folder=MODULE)
    except GoError as error:
        pytest.skip(f"yunikorn-core cannot be built: {error}")
    return program


@pytest.fixture
def directory(tmp_path: Path) -> Iterator[Slapd]:
    """ann is in `data-science` and 500 other groups, some of them oddly named; bob in `staff`."""
    odd = ("Domain Users", "1st floor", "ümlaut")
    names = [*(f"group-{number}" for number in range(MANY)), *odd, "data-science"]
    ldif = (
        entries.base()
        + "".join(map(entries.person, ("ann", "bob", "carl")))
        + "".join(entries.group(name, entries.dn("ann")) for name in names)
        + entries.group("staff", entries.dn("bob"))
    )
    unlimited = "sizelimit unlimited\n"
    folder = tmp_path / "slapd"
    with running_slapd(folder, trustme.CA(), "", load=ldif, more_globals=unlimited) as slapd:
        yield slapd


@contextmanager
def webhook_for(slapd: Slapd, folder: Path, **user_info: str) -> Iterator[Webhook]:
    """Run the webhook with the scheduler's policy and the directory's groups."""
    (folder / "queues.yaml").write_text(QUEUES)
    resolver = {
        "type": "ldap",
        "preset": "openldap",
        "urls": [slapd.tls_url],
        "ca_file": str(slapd.folder / "ca.pem"),
        "bind_dn": SERVICE,
        "bind_password_file": str(slapd.folder / "password"),
        "user_base": PEOPLE,
        "group_base": GROUPS,
        "lookup_timeout": "30s",
        "operation_timeout": "20s",
    }
    settings = {
        "policy": {"path": str(folder / "queues.yaml")},
        "resolvers": {"corp": resolver},
        "partitions": {"default": {"resolver": "corp"}},
        "admission": {"user_info": {"groups": "directory", **user_info}},
    }
    file = folder / "queuegate.yaml"
    file.write_text(json.dumps(settings))
    with running_webhook(folder, "--config", str(file)) as webhook:
        yield webhook


def review(user: str, annotation: str | None = None) -> dict[str, Any]:
    annotations = {} if annotation is None else {user_info.ANNOTATION: annotation}
    return admission_review(user, {"metadata": {"name": "train", "annotations": annotations}})


def written_annotation(webhook: Webhook, user: str) -> str:
    """Return the annotation that the webhook writes into a pod."""
    response = webhook.review("/mutate", review(user))
    assert response["allowed"], response
    (operation,) = patch_of(response)
    written: str = operation["value"][user_info.ANNOTATION]
    return written


def annotation_of(webhook: Webhook, user: str) -> str:
    """Return the annotation that the webhook writes into a pod, which it accepts afterwards."""
    written = written_annotation(webhook, user)
    assert webhook.review("/validate", review(user, written))["allowed"]
    return written


def test_an_ldap_group_admits_its_members(stock: Path, directory: Slapd, tmp_path: Path) -> None:
    queues = tmp_path / "queues.yaml"
    with webhook_for(directory, tmp_path) as webhook:
        owners = {user: user_info.parse(annotation_of(webhook, user)) for user in ("ann", "bob")}
        assert owners["ann"].groups == ("data-science",)
        assert owners["bob"].groups == ()
        with running_scheduler("127.0.0.1:1", queues, tmp_path, stock) as scheduler:

            def submit(user: str, queue: str) -> str:
                return scheduler.submit(queue, owners[user].user, *owners[user].groups)

            assert submit("ann", "root.science") == "accepted"
            assert submit("bob", "root.science").startswith("rejected")
            assert submit("ann", "root.ops").startswith("rejected")
            # With the groups that are written without this setting, nobody gets in.
            refused = scheduler.submit("root.science", "dan", "system:authenticated")
            assert refused.startswith("rejected")


def test_annotations_of_others(directory: Slapd, tmp_path: Path) -> None:
    """A group that the requester does not have is refused, whoever wrote it."""
    with webhook_for(directory, tmp_path) as webhook:
        forged = '{"user":"bob","groups":["data-science"]}'
        refused = webhook.review("/validate", review("bob", forged))
        assert not refused["allowed"]
        message = refused["status"]["message"]
        assert "lists the group 'data-science', but user bob is not" in message
        assert "staff" not in message
        assert not webhook.review("/mutate", review("bob", forged))["allowed"]


def test_an_outage(directory: Slapd, tmp_path: Path) -> None:
    """Known users keep their groups, and others are refused."""
    with webhook_for(directory, tmp_path) as webhook:
        written = annotation_of(webhook, "ann")
        directory.stop()
        assert annotation_of(webhook, "ann") == written
        refused = webhook.review("/mutate", review("bob"))
        assert not refused["allowed"]
        assert "cannot be looked up: resolver 'corp' is" in refused["status"]["message"]
        name = "queuegate_admission_groups_unavailable_total"
        assert webhook.metric(name, 'outcome="refused"') == 1
        directory.start()
        eventually(lambda: webhook.review("/mutate", review("bob"))["allowed"], True)


def test_an_outage_with_the_groups_of_the_request(directory: Slapd, tmp_path: Path) -> None:
    with webhook_for(directory, tmp_path, on_outage="kubernetes") as webhook:
        directory.stop()
        assert annotation_of(webhook, "bob") == '{"user":"bob"}'
        policy = tmp_path / "queues.yaml"
        policy.write_text(QUEUES.replace("carl", "carl system:authenticated"))
        listed = '{"user":"bob","groups":["system:authenticated"]}'
        eventually(lambda: written_annotation(webhook, "bob"), listed)
        assert annotation_of(webhook, "bob") == listed
