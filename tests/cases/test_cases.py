"""Runs the golden cases in this folder and below it; README.md describes their form."""

import os
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Final

import pytest

from queuegate.cli import main
from queuegate_server.cli.main import command_group
from tests.support.cases import check_case, read_case
from tests.support.console_http import Browser, lines

FOLDER: Final = Path(__file__).parent
CASES: Final = sorted(path.relative_to(FOLDER) for path in FOLDER.rglob("*.txt"))


def server_command(arguments: Sequence[str]) -> int:
    """Run `queuegate-server`, which ends with SystemExit."""
    command_group().main(list(arguments), "queuegate-server")


def page(arguments: Sequence[str]) -> int:
    """Print a page of the console; with fields of a form, such as `policy=@FILE`, post them."""
    path, *fields = arguments
    browser = Browser(os.environ["CONSOLE"])
    if fields:
        form = dict(field.split("=", 1) for field in fields)
        values = {
            name: Path(value[1:]).read_text() if value.startswith("@") else value
            for name, value in form.items()
        }
        answer = browser.post(path, {"form_token": browser.get(path).form_token, **values})
    else:
        answer = browser.get(path)
    print(*([] if answer.status == 200 else [answer.status]), *lines(answer), sep="\n")
    return 0


PROGRAMS: Final = {"queuegate": main, "queuegate-server": server_command, "page": page}


@pytest.mark.parametrize("case", CASES, ids=lambda path: str(path.with_suffix("")))
def test_case(
    case: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    shown = {f'"version": "{version("queuegate")}"': '"version": "$VERSION"'}
    for line in read_case(FOLDER / case).steps[0].lead:
        if line.startswith("with "):
            more: Mapping[str, str] = request.getfixturevalue(line.removeprefix("with "))
            shown |= more
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    check_case(FOLDER / case, tmp_path, PROGRAMS, shown)
