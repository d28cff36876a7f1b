"""docs/pictures: what is generated shows what is measured and printed today."""

import re
from pathlib import Path

import pytest

from bench import plots
from queuegate_server.sync.session import LEASE
from tests.e2e.documentation import console_pictures, lease_picture, terminal_pictures
from tests.support.terminals import requires_terminal

PICTURES = sorted(Path("docs/pictures").glob("*.*"))
PNG = b"\x89PNG\r\n\x1a\n"


def test_plots_show_the_figures_of_the_benchmarks() -> None:
    for name, picture in plots.draw().items():
        assert (plots.PICTURES / f"{name}.svg").read_text() == picture, "run `make pictures`"


@requires_terminal
def test_terminals_show_the_output_of_today() -> None:
    for name, picture in terminal_pictures.draw():
        committed = (terminal_pictures.PICTURES / f"{name}.svg").read_text()
        assert committed == picture, "run `make pictures`"


def test_leases_show_the_protocol() -> None:
    run = lease_picture.play()
    sent, pong_came = run.second.late_pong
    assert [each.does for each in run.first.does[-1:]] == [lease_picture.NOW]
    old = next(each for each in run.second.does if each.does == lease_picture.BEFORE)
    assert old.begin < sent + LEASE == old.end < run.returned < pong_came + LEASE
    assert lease_picture.PICTURE.read_text() == lease_picture.draw(), "run `make pictures`"


def test_pages_of_the_console_can_be_pictured_in_light_and_dark() -> None:
    pictures: dict[str, set[bytes]] = {}
    for name, png in console_pictures.take("light", "dark"):
        assert png.startswith(PNG)
        pictures.setdefault(name, set()).add(png)
    assert {len(schemes) for schemes in pictures.values()} == {2}, "the schemes look alike"
    committed = {path.stem for path in console_pictures.PICTURES.glob("console-*.png")}
    assert committed == pictures.keys(), "run `make pictures`"


@pytest.mark.parametrize("path", PICTURES, ids=[path.name for path in PICTURES])
def test_a_picture_needs_nothing_of_the_network_and_is_used(path: Path) -> None:
    if path.suffix == ".png":
        assert path.read_bytes().startswith(PNG)
    else:
        text = path.read_text()
        assert re.findall(r"(?:https?:)?//[^\s\"')]+", text) == ["http://www.w3.org/2000/svg"]
    pages = [Path("README.md"), *Path("docs").rglob("*.md"), *Path("bench").glob("*.md")]
    uses = [
        alternative
        for page in pages
        for alternative in re.findall(
            rf"!\[([^\]]*)\]\([\w./-]*{re.escape(path.name)}\)", page.read_text()
        )
    ]
    assert uses
    assert all(len(alternative) > 20 for alternative in uses), (
        "the text for those who do not see it"
    )
