"""A real browser for tests: Debian's chromium, without any network except loopback.

Import the fixture `browser` into a module, and open pages with `visiting`.
"""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final, Literal
from urllib.parse import urlsplit

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import (
    Browser,
    ConsoleMessage,
    Dialog,
    Page,
    Playwright,
    expect,
    sync_playwright,
)
from playwright.sync_api import Error as BrowserError

DEADLINE_MS: Final = 60_000.0
_ARGUMENTS: Final = (
    # Names do not resolve, and only loopback addresses are reached.
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1, EXCLUDE localhost",
    "--no-proxy-server",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-dev-shm-usage",
    "--disable-gpu",
    # The same pixels on every screen.
    "--force-color-profile=srgb",
    "--font-render-hinting=none",
    "--hide-scrollbars",
)
_LOOPBACK: Final = frozenset({"127.0.0.1", "localhost", "::1", None})
# What htmx notes when typing on aborts a request for suggestions. A request that fails is noted by
# another name as well.
_REPLACED_REQUESTS: Final = ("htmx:sendAbort,", "htmx:afterRequest,")
SERIOUS: Final = ("serious", "critical")


@dataclass
class Visit:
    """A page of a browser, and the events in it."""

    page: Page
    dialogs: list[str] = field(default_factory=list)
    """The messages of dialogs, which only a script opens."""
    elsewhere: list[str] = field(default_factory=list)
    """The requests that went to other machines."""
    errors: list[str] = field(default_factory=list)
    """Errors of scripts and of the console, such as violations of the content security policy."""

    def serious_findings(self) -> list[str]:
        """Return axe-core's accessibility findings that are serious or worse."""
        results = Axe().run(self.page, options={"resultTypes": ["violations"]})
        return [
            f"{each['id']}: {node['html']} {node.get('failureSummary', '')}"
            for each in results.response["violations"]
            if each["impact"] in SERIOUS
            for node in each["nodes"]
        ]

    def overflow(self) -> int:
        """Return the number of pixels by which the page is wider than its window."""
        root = "document.documentElement"
        pixels: int = self.page.evaluate(f"{root}.scrollWidth - {root}.clientWidth")
        return pixels


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Start chromium for the tests of a module.

    Not per session: while Playwright runs, its event loop counts as running in this thread, so
    asynchronous tests in other modules could not start theirs.
    """
    with started_browser() as browser:
        yield browser


@contextmanager
def started_browser() -> Iterator[Browser]:
    """Start chromium. A test is skipped if it is not installed."""
    program = shutil.which("chromium")
    if program is None:
        pytest.skip("no chromium; on Debian: apt-get install chromium")
    expect.set_options(timeout=DEADLINE_MS / 2)
    with sync_playwright() as playwright:
        browser = _launch(playwright, program)
        yield browser
        browser.close()


@contextmanager
def visiting(
    browser: Browser,
    *,
    javascript: bool = True,
    scheme: Literal["light", "dark"] = "light",
    width: int = 1280,
    height: int = 800,
    **options: Any,
) -> Iterator[Visit]:
    """Open an empty page in a separate context.

    Args:
        browser: the running browser.
        javascript: whether scripts run.
        scheme: the colour scheme that the user prefers.
        width: of the window, in pixels.
        height: of the window, in pixels.
        options: further options of `Browser.new_context`.
    """
    context = browser.new_context(
        java_script_enabled=javascript,
        color_scheme=scheme,
        viewport={"width": width, "height": height},
        reduced_motion="reduce",
        locale="en-GB",
        timezone_id="UTC",
        **options,
    )
    context.set_default_timeout(DEADLINE_MS)
    visit = Visit(context.new_page())

    def dismiss(dialog: Dialog) -> None:
        visit.dialogs.append(dialog.message)
        dialog.dismiss()

    def requested(url: str) -> None:
        parts = urlsplit(url)
        if parts.scheme not in {"data", "about"} and parts.hostname not in _LOOPBACK:
            visit.elsewhere.append(url)

    def noted(message: ConsoleMessage) -> None:
        if message.type == "error" and not message.text.startswith(_REPLACED_REQUESTS):
            visit.errors.append(message.text)

    context.on("dialog", dismiss)
    context.on("request", lambda request: requested(request.url))
    context.on("weberror", lambda error: visit.errors.append(str(error.error)))
    context.on("console", noted)
    try:
        yield visit
    finally:
        context.close()


def _launch(playwright: Playwright, program: str) -> Browser:
    """Start chromium in its sandbox, which it refuses to use as root."""
    arguments = [*_ARGUMENTS]
    try:
        return playwright.chromium.launch(
            executable_path=program,
            args=arguments,
            chromium_sandbox=os.geteuid() != 0,
            timeout=DEADLINE_MS,
        )
    except BrowserError as error:
        if "sandbox" not in str(error).lower():
            raise
        # A container without user namespaces. All pages come from this machine.
        return playwright.chromium.launch(
            executable_path=program, args=arguments, chromium_sandbox=False, timeout=DEADLINE_MS
        )
