"""A webhook that is a replica of a fleet: waiting calls at a server cover it."""

import signal
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Any

import trustme

from queuegate import QueueDecisions, ReplicaRole
from tests.support.admission_reviews import admission_review
from tests.support.console_http import Browser, words
from tests.support.eventually import eventually
from tests.support.fakes.scripted_directory import settings_file
from tests.support.servers.admin_port import LISTEN, ops_address
from tests.support.servers.fleet import OTHERS, STAFF, Fleet, running_fleet
from tests.support.servers.queuegate_server import running_server
from tests.support.servers.webhook import Webhook, running_webhook

QUEUES = {"mode": "deny", "schedulers": {"places": [{"label": "example.com/queue"}]}}


def review(user: str, queue: str) -> dict[str, Any]:
    metadata = {"name": "train", "labels": {"example.com/queue": queue}}
    return admission_review(user, {"metadata": metadata})


def may(webhook: Webhook, user: str = "sam", queue: str = "root.work") -> bool:
    answer: bool = webhook.review("/queues", review(user, queue))["allowed"]
    return answer


@contextmanager
def fleet_with_webhook(
    folder: Path,
    *arguments: str,
    admission: Mapping[str, Any] = MappingProxyType({"queues": QUEUES}),
    options: Sequence[str] = (),
) -> Iterator[tuple[Fleet, Webhook]]:
    """Run a server, with these arguments, and a webhook that follow the same fleet."""
    with running_fleet(folder, "server", arguments=arguments) as fleet:
        fleet.directory.reset({"sam": dict(STAFF)})
        own = folder / "webhook"
        own.mkdir()
        settings = {**fleet.settings("webhook"), "admission": dict(admission)}
        config = settings_file(own, settings)
        with running_webhook(
            own, "--config", config, *options, environment=fleet.directory.environment
        ) as webhook:
            webhook.server.wait_for_log("following the fleet")
            eventually(lambda: len(fleet.clients["server"].get_fleet().replicas), 2)
            fleet.until_barriers_are_quick()
            yield fleet, webhook


def test_waiting_calls_cover_the_webhook(tmp_path: Path) -> None:
    with fleet_with_webhook(tmp_path) as (fleet, webhook):
        client = fleet.clients["server"]
        assert may(webhook)
        assert fleet.may("server")
        fleet.directory.answer({"sam": dict(OTHERS)})
        assert may(webhook)  # its groups are cached
        assert not client.invalidate(["sam"], wait=True).waited_out
        assert not may(webhook)

        assert may(webhook, queue="root.open")
        for name in ("server", "webhook"):
            policy = fleet.policy(name)
            policy.write_text(policy.read_text().replace('"*"', "alice"))
        assert not client.reload(wait=True).waited_out
        assert not may(webhook, queue="root.open")
        assert webhook.metric("queuegate_fleet_following") == 1
        replicas = webhook.plain.get("/readyz").json()["fleet"]["replicas"]
        assert {each["name"]: each["state"] for each in replicas} == {
            "server": "following",
            "webhook": "following",
        }


def test_a_webhook_that_leaves_is_not_waited_for(tmp_path: Path) -> None:
    with fleet_with_webhook(tmp_path) as (fleet, webhook):
        assert webhook.server.stop() == 0
        assert not fleet.clients["server"].invalidate(wait=True).waited_out


SCHEDULERS = "{kueue: {mode: deny}, volcano: {below: root.volcano}}"
CHECKS = f"admission.queues={{mode: warn, schedulers: {SCHEDULERS}}}"
CONSOLE = (*LISTEN, "--set", "console.enabled=true")


def test_the_console_and_the_command_show_what_the_webhook_decides(tmp_path: Path) -> None:
    with fleet_with_webhook(tmp_path, *CONSOLE, "--set", CHECKS) as (fleet, webhook):
        browser = Browser(f"http://{ops_address(fleet.servers['server'])}/console/")

        def health() -> str:
            return words(browser.get("health"))

        assert "Queues in Kubernetes mode warn; kueue: deny" in health()
        assert "webhook webhook 0.1.0 revision 1" in health()
        assert "server this one 0.1.0 revision 1" in health()
        eventually(lambda: "webhook places deny 0 0 0 0" in health(), expected=True)
        assert may(webhook)
        assert not may(webhook, "eve")
        assert not may(webhook, queue="root..work")
        eventually(lambda: "webhook places deny 1 2 0 0" in health(), expected=True)

        warn = {"admission": {"queues": {**QUEUES, "mode": "warn"}}}
        settings_file(tmp_path / "webhook", fleet.settings("webhook") | warn)
        webhook.server.process.send_signal(signal.SIGHUP)
        eventually(lambda: "webhook places warn 1 2 0 0" in health(), expected=True)
        assert may(webhook, "eve")
        eventually(lambda: "webhook places warn 1 2 1 0" in health(), expected=True)

        replicas = {each.name: each for each in fleet.clients["server"].get_fleet().replicas}
        assert replicas["server"].role is ReplicaRole.SERVER
        assert replicas["server"].queue_decisions == ()
        assert replicas["webhook"].role is ReplicaRole.WEBHOOK
        assert replicas["webhook"].queue_decisions == (
            QueueDecisions("places", "warn", allowed=1, denied=2, warned=1, failed=0),
        )


def test_a_webhook_that_only_answers_questions_is_shown(tmp_path: Path) -> None:
    trustme.CA().cert_pem.write_to_path(str(tmp_path / "clients.pem"))
    options = ("--set", f"admission.tls.client_ca_file={tmp_path / 'clients.pem'}")
    with fleet_with_webhook(tmp_path, *CONSOLE, admission={"authorize": {}}, options=options) as (
        fleet,
        _,
    ):
        rows = [QueueDecisions("authorize", "", allowed=0, denied=0, warned=0, failed=0)]

        def reported() -> list[QueueDecisions]:
            replicas = {each.name: each for each in fleet.clients["server"].get_fleet().replicas}
            return list(replicas["webhook"].queue_decisions)

        eventually(reported, rows)
        health = Browser(f"http://{ops_address(fleet.servers['server'])}/console/").get("health")
        assert "webhook authorize \N{EN DASH} 0 0 0 0" in words(health)


def test_without_a_fleet_the_console_says_where_the_decisions_are(tmp_path: Path) -> None:
    with running_server(*CONSOLE, "--set", CHECKS) as server:
        health = words(Browser(f"http://{ops_address(server)}/console/").get("health"))
        assert "Webhooks report their decisions through a fleet" in health
        assert "queuegate_admission_queue_decisions_total" in health
    with running_server(*CONSOLE) as server:
        health = words(Browser(f"http://{ops_address(server)}/console/").get("health"))
        assert "Webhooks" not in health
