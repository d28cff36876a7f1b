"""A policy, a server on it, and a place for figures."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.resilience import invariants, table
from tests.support.servers.queuegate_server import RunningServer, running_server


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--faults-report", action="store_true", help="write what was measured into FAULTS.md"
    )


@pytest.fixture
def record(record_property: invariants.Record) -> invariants.Record:
    """Take a figure of this run, for the table."""
    return record_property


@pytest.fixture
def policy_file(tmp_path: Path) -> Path:
    path = tmp_path / "policy" / "queues.yaml"
    path.parent.mkdir()
    path.write_text(invariants.policy())
    return path


@pytest.fixture
def server(policy_file: Path) -> Iterator[RunningServer]:
    with running_server("--policy", str(policy_file)) as started:
        yield started


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    if not config.getoption("--faults-report"):
        return
    reports = [one for one in terminalreporter.getreports("passed") if one.when == "call"]
    table.write_measured({one.nodeid: dict(one.user_properties) for one in reports})
