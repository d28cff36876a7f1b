"""Notifications for systemd, and the unit file."""

import configparser
import os
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest

from queuegate_server.runtime.sd_notify import Notifier
from tests.support.fakes.notify_socket import NotifySocket
from tests.support.rows import rows
from tests.support.servers.queuegate_server import running_server
from tests.support.servers.workers import write_policy

UNIT = Path(__file__).parents[3] / "deploy" / "systemd" / "queuegate.service"


@pytest.mark.parametrize(("kind", "workers"), [("path", 1), ("abstract", 2)])
def test_start_reload_and_stop_are_notified(tmp_path: Path, kind: str, workers: int) -> None:
    path = write_policy(tmp_path)
    address = f"@queuegate-{os.getpid()}-{tmp_path.name}" if kind == "abstract" else f"{tmp_path}/n"
    before = time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000
    with (
        NotifySocket(address) as systemd,
        running_server(
            *("--set", f"workers={workers}", "--policy", str(path)),
            environment=systemd.environment,
        ) as server,
    ):
        systemd.wait_for("READY=1")
        assert systemd.received == ["READY=1"]
        server.process.send_signal(signal.SIGHUP)
        systemd.wait_for("READY=1", count=2)
        reloading = systemd.received[1]
        assert reloading.startswith("RELOADING=1\nMONOTONIC_USEC=")
        now = time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000
        assert before < int(reloading.rpartition("=")[2]) <= now
        assert server.stop() == 0
        systemd.wait_for("STOPPING=1")
        # Only one process speaks for the service.
        assert [states.split("\n")[0] for states in systemd.received] == [
            "READY=1",
            "RELOADING=1",
            "READY=1",
            "STOPPING=1",
        ]


@pytest.mark.parametrize("workers", [1, 2])
def test_the_watchdog_is_fed(tmp_path: Path, workers: int) -> None:
    with NotifySocket(f"{tmp_path}/n") as systemd:
        environment = {**systemd.environment, "WATCHDOG_USEC": "200000"}
        with running_server("--set", f"workers={workers}", environment=environment):
            systemd.wait_for("WATCHDOG=1", count=3)


@pytest.mark.parametrize(
    "variables",
    [
        {},
        {"NOTIFY_SOCKET": ""},
        {"NOTIFY_SOCKET": "relative"},
        {"NOTIFY_SOCKET": "/no/such/socket"},
        {"NOTIFY_SOCKET": "@no-such-socket"},
        {"NOTIFY_SOCKET": "/" + "x" * 500},
    ],
)
async def test_without_systemd_nothing_happens(variables: dict[str, str]) -> None:
    notifier = Notifier(variables)
    notifier.ready()
    notifier.reloading()
    notifier.stopping()
    await notifier.keep_alive()


@rows
async def test_a_watchdog_of_another_process(watchdog: dict[str, str]) -> None:
    await Notifier({"NOTIFY_SOCKET": "/no/such/socket", **watchdog}).keep_alive()


def unit() -> configparser.ConfigParser:
    parser = configparser.ConfigParser(strict=False, interpolation=None, comment_prefixes=("#",))
    parser.optionxform = str  # type: ignore[assignment,method-assign] # names keep their case
    parser.read_string(UNIT.read_text())
    return parser


def test_the_unit_is_hardened_and_fits_the_server() -> None:
    service = unit()["Service"]
    assert service["Type"] == "notify"
    assert service["KillMode"] == "mixed"
    assert service["RestartPreventExitStatus"] == "2"
    for key in ("NoNewPrivileges", "PrivateTmp", "PrivateDevices", "ProtectHome"):
        assert service[key] == "yes"
    assert service["ProtectSystem"] == "strict"
    assert service["CapabilityBoundingSet"] == ""
    assert float(service["TimeoutStopSec"]) > 20 + 10  # the default grace, and the spare time


def test_the_unit_is_valid(tmp_path: Path) -> None:
    """By systemd itself where it is installed, otherwise by its form alone."""
    program = shutil.which("systemd-analyze")
    parser = unit()
    assert set(parser.sections()) == {"Unit", "Service", "Install"}
    command = parser["Service"]["ExecStart"].split()
    assert command[1:3] == ["serve", "--config"]
    if program is None:
        return
    copy = tmp_path / UNIT.name
    # A bare machine has no /bin/kill either.
    text = UNIT.read_text().replace(command[0], "/bin/true")
    copy.write_text(text.replace("/bin/kill", "/bin/true"))
    outcome = subprocess.run(
        [program, "verify", str(copy)], capture_output=True, text=True, timeout=50, check=False
    )
    ours = [line for line in outcome.stderr.splitlines() if UNIT.name in line]
    # An older systemd does not know all keys, and says so.
    assert [line for line in ours if "Unknown key" not in line] == []
