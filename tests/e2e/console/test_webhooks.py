"""The decisions of webhooks on the Health page of a server in the same fleet."""

from pathlib import Path

from playwright.sync_api import Browser, expect

from queuegate_server.fleet.events import (
    MAX_SCHEDULERS,
    ReplicaStatus,
    encode_status,
)
from queuegate_server.fleet.keys import Keys, Signer
from queuegate_server.fleet.view import WEBHOOK, QueueDecisions
from queuegate_server.settings.fleet import Fleet as FleetSettings
from tests.e2e.console.harmless import assert_harmless
from tests.support import xss_corpus
from tests.support.browser import visiting
from tests.support.eventually import eventually
from tests.support.servers.admin_port import LISTEN, ops_address
from tests.support.servers.fleet import SECRET, Fleet, running_fleet

CONSOLE = (*LISTEN, "--set", "console.enabled=true")
SIGNER = Signer(SECRET.encode(), "status")


def report(fleet: Fleet, status: ReplicaStatus) -> None:
    """Write a status to Redis as a webhook does, once, and wait until the server has read it."""
    key = Keys(FleetSettings.model_fields["prefix"].default).replicas
    fleet.redis.command("HSET", key, status.instance, encode_status(SIGNER, status))
    client = fleet.clients["server"]
    eventually(lambda: status.name in {each.name for each in client.get_fleet().replicas}, True)


def test_decisions_by_scheduler(browser: Browser, tmp_path: Path) -> None:
    with running_fleet(tmp_path, "server", arguments=CONSOLE) as fleet, visiting(browser) as visit:
        report(fleet, ReplicaStatus("w0", "idle", 1, role=WEBHOOK))
        rows = [
            QueueDecisions("kueue", "deny", allowed=1_204, denied=3),
            QueueDecisions("volcano", "warn", allowed=7, warned=2, failed=1),
            QueueDecisions("kai", "", denied=4),
        ]
        report(fleet, ReplicaStatus("w1", "busy", 1, role=WEBHOOK, queue_decisions=rows))
        page = visit.page
        page.goto(f"http://{ops_address(fleet.servers['server'])}/console/health")
        table = page.get_by_role("table", name="Decisions about queues")
        shown = [row.split("\t") for row in table.locator("tbody").inner_text().split("\n")]
        assert [[cell.split(" ")[0] for cell in row] for row in shown] == [
            ["busy", "kueue", "deny", "1\u202f204", "3", "0", "0"],
            ["busy", "volcano", "warn", "7", "0", "2", "1"],
            ["busy", "kai", "\N{EN DASH}", "0", "4", "0", "0"],
            ["idle", "checks"],
        ]
        assert visit.serious_findings() == []
        assert visit.overflow() == 0
        page.set_viewport_size({"width": 360, "height": 800})
        assert visit.overflow() == 0


def test_hostile_statuses_are_shown_and_nothing_else_happens(
    browser: Browser, tmp_path: Path
) -> None:
    with running_fleet(tmp_path, "server", arguments=CONSOLE) as fleet, visiting(browser) as visit:
        for start in range(0, len(xss_corpus.NAMES), MAX_SCHEDULERS):
            names = xss_corpus.NAMES[start : start + MAX_SCHEDULERS]
            rows = [QueueDecisions(name, name, denied=1) for name in names]
            report(
                fleet,
                ReplicaStatus(f"w{start}", names[0], 1, role=WEBHOOK, queue_decisions=rows),
            )
        visit.page.goto(f"http://{ops_address(fleet.servers['server'])}/console/health")
        table = visit.page.get_by_role("table", name="Decisions about queues")
        expect(table.locator("tbody tr")).to_have_count(len(xss_corpus.NAMES))
        assert_harmless(visit)
