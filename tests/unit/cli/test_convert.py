"""`queuegate-server convert`: its output, and its exit status."""

from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from queuegate_server.cli.convert import convert
from queuegate_server.formats.registry import load_policy


def run(*arguments: str, stdin: str = "") -> Result:
    return CliRunner().invoke(convert, arguments, input=stdin)


@pytest.mark.parametrize(
    ("name", "site"),
    [
        ("fair-scheduler.xml", "yarn-site.xml"),
        ("capacity-scheduler.xml", "capacity-yarn-site.xml"),
    ],
)
def test_the_examples_are_converted_whole(name: str, site: str) -> None:
    result = run(f"examples/{name}", "--yarn-site", f"examples/{site}")
    assert result.exit_code == 0
    assert result.stderr in Path("docs/how-to/yarn-to-yunikorn.md").read_text()
    assert not load_policy("yunikorn", result.stdout.encode(), "f").diagnostics
