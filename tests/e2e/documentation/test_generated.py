"""The generated pages are those that the code gives."""

import re
from pathlib import Path

import grpc
import pytest
from click.testing import CliRunner

from docs.generate import chart, webhooks
from docs.generate.pages import PAGES
from queuegate._errors import from_item
from queuegate.exceptions import NotPermitted, Unavailable
from queuegate.v1.status_pb2 import Status
from queuegate_server.cli.main import command_group
from tests.e2e.documentation.reader import CHECKOUT


@pytest.mark.parametrize("name", PAGES)
def test_page_is_up_to_date(name: str) -> None:
    committed = CHECKOUT / "docs" / "reference" / name
    assert committed.read_text() == PAGES[name](), "run `make docs-generated`"


def test_webhook_configurations_are_up_to_date() -> None:
    for file, generate in (
        (webhooks.WITHOUT_QUEUES, webhooks.generate_without_queues),
        (webhooks.QUEUES, webhooks.generate_queues),
        (webhooks.CHART, webhooks.generate_chart),
    ):
        assert (CHECKOUT / file).read_text() == generate(), "run `make docs-generated`"
    for file, text in webhooks.generate_bases().items():
        assert (CHECKOUT / file).read_text() == text, "run `make docs-generated`"


@pytest.mark.parametrize(
    ("command", "variable", "page"),
    [
        ("source-check a b", "QUEUEGATE_CONFIG", "*Required*, unless `{}` is set. |"),
        ("admission", "QUEUEGATE_ADMISSION_DEFAULTS", "Variable: `{}`. |"),
    ],
)
def test_an_option_with_a_variable_is_not_required(command: str, variable: str, page: str) -> None:
    rows = PAGES["queuegate-server.md"]().splitlines()
    assert any(row.endswith(page.format(variable)) for row in rows)
    refused = CliRunner().invoke(command_group(), command.split(), env={variable: "/nosuch"})
    assert "Missing option" not in refused.stderr
    assert refused.exit_code == 2


def test_the_advice_for_clients_is_what_the_clients_do() -> None:
    page = PAGES["errors.md"]().replace("\n  ", " ")
    advice = {
        kind: set(re.findall(r"`([A-Z_]{5,})`", bullet))
        for kind, bullet in (
            (Unavailable, "Wait, then ask again"),
            (NotPermitted, "Wait and alert an administrator"),
        )
        for bullet in re.findall(rf"^- \*\*{bullet}\*\*(.*)$", page, re.MULTILINE)
    }
    kinds = {code.name: from_item(Status(code=code.value[0])) for code in grpc.StatusCode}
    assert advice == {
        kind: {name for name, error in kinds.items() if isinstance(error, kind)}
        for kind in (Unavailable, NotPermitted)
    }


def test_the_schema_of_the_helm_chart_is_up_to_date() -> None:
    assert chart.SCHEMA.read_text() == chart.generate(), "run `make docs-generated`"


def test_pages_say_that_they_are_generated() -> None:
    pages = Path(CHECKOUT, "docs", "reference").glob("*.md")
    assert {page.name for page in pages if "make docs-generated" in page.read_text()} == set(PAGES)
