"""The Health page of a replica: the other replicas, and a Redis that is away."""

import re
from pathlib import Path

from tests.support.console_http import Browser, words
from tests.support.eventually import eventually
from tests.support.servers.admin_port import LISTEN, get_json, ops_address
from tests.support.servers.fleet import running_fleet


def test_replicas_are_shown_and_missed(tmp_path: Path) -> None:
    console = (*LISTEN, "--set", "console.enabled=true")
    with running_fleet(tmp_path, "east", "west", arguments=console) as fleet:
        browser = Browser(f"http://{ops_address(fleet.servers['east'])}/console/")

        def health() -> str:
            return words(browser.get("health"))

        eventually(lambda: "west 0.1.0 revision 1" in health(), expected=True)
        eventually(lambda: "Nothing needs attention." in health(), expected=True)
        assert "Redis is available" in health()
        assert "east this one" in health()
        denials = words(browser.get("denials"))
        assert "in the audit log of this replica that" in denials
        assert "Every other replica writes a log of its own." in denials
        fleet.servers["west"].process.kill()
        eventually(
            lambda: "Replicas that send no heartbeats: west: they have stopped" in health(),
            expected=True,
        )
        fleet.redis.stop()
        host, _, port = fleet.redis.url.rpartition("/")[2].rpartition(":")
        alone = "Replica east cannot use Redis and works alone: ConnectionError: "
        eventually(
            lambda: re.search(rf"{alone}.*{host}:{port}.*refused", health()) is not None,
            expected=True,
        )
        assert re.search(r"east this one .*? alone", health()), "as `queuegate fleet` calls it"
        assert "refused: check that Redis is running" in health()
        _, ready = get_json(ops_address(fleet.servers["east"]), "/readyz")
        assert re.search(f"^r{alone[1:]}.*{port}.*refused", ready["fleet"]["problems"][0])


def test_what_redis_refuses_is_shown(tmp_path: Path) -> None:
    console = (*LISTEN, "--set", "console.enabled=true")
    with running_fleet(tmp_path, "east", arguments=console) as fleet:
        browser = Browser(f"http://{ops_address(fleet.servers['east'])}/console/")
        assert fleet.redis.command("ACL", "SETUSER", "default", "-xread") == b"+OK\r\n"
        eventually(
            lambda: "Replica east: Redis refuses XREAD (" in words(browser.get("health")),
            expected=True,
        )
