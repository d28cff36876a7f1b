"""Pictures of the console in docs/pictures: each page of a real server.

`python -m tests.e2e.documentation.console_pictures` takes them.
"""

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final, Literal, NamedTuple, TypeAlias
from urllib.parse import urlencode

from playwright.sync_api import Browser, Page

from tests.support.browser import started_browser, visiting
from tests.support.console_http import BEING_READ
from tests.support.eventually import eventually
from tests.support.servers.console_server import RunningConsole, running_console

Scheme: TypeAlias = Literal["light", "dark"]

PICTURES: Final = Path("docs/pictures")
WIDTH: Final = 1100
HEIGHT: Final = 800
MAX_HEIGHT: Final = 1200
_QUEUE: Final = "root.analytics.reports"
_PROPOSED: Final = (
    Path("examples/queues.yaml")
    .read_text(encoding="utf-8")
    .replace("submitacl: sue", "submitacl: sue,omar data-science")
)
_CLAIMS: Final = """\
claims:
  - everyone in group:analysts may submit root.analytics.reports
  - only user:sue, group:platform may submit root.engineering.payroll
"""
PAGES: Final = {
    "queues": f"queues?{urlencode({'queue': _QUEUE, 'who': 1})}",
    "access": f"access?{urlencode({'user': 'dana', 'queue': _QUEUE})}",
    "user": "user?user=sue",
    "change": "change",
    "health": "health",
    "denials": "denials",
}


class Picture(NamedTuple):
    """A picture of a page."""

    name: str
    """Of its file, without the ending."""
    png: bytes


def take(*schemes: Scheme) -> Iterator[Picture]:
    """Return the pictures of all pages, in these colour schemes."""
    with (
        tempfile.TemporaryDirectory() as folder,
        running_console(Path(folder)) as console,
        started_browser() as browser,
    ):
        for page in PAGES:
            for scheme in schemes:
                yield Picture(f"console-{page}", _taken(browser, console, page, scheme))


def _taken(browser: Browser, console: RunningConsole, name: str, scheme: Scheme) -> bytes:
    with visiting(browser, scheme=scheme, width=WIDTH, height=HEIGHT) as visit:
        page = visit.page
        eventually(lambda: _is_complete(page, f"{console.url}{PAGES[name]}"), True)
        if name == "change":
            page.get_by_label("Policy: the text").fill(_PROPOSED)
            page.get_by_label("Claims").fill(_CLAIMS)
            page.get_by_role("button", name="Compare").click()
            page.get_by_role("heading", name="Result").wait_for()
        height = page.evaluate("document.documentElement.scrollHeight")
        page.set_viewport_size({"width": WIDTH, "height": min(height, MAX_HEIGHT)})
        return page.screenshot(animations="disabled")


def _is_complete(page: Page, url: str) -> bool:
    """Open a page, and return whether the server had read all that the page shows."""
    page.goto(url)
    return page.get_by_text(BEING_READ).count() == 0


def main() -> None:
    """Write the pictures."""
    for picture in take("light"):
        (PICTURES / f"{picture.name}.png").write_bytes(picture.png)


if __name__ == "__main__":
    main()
