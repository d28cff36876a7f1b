"""The browser of these tests notices what it is there to notice."""

import json
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest
from playwright.sync_api import Browser

from tests.support.browser import visiting
from tests.support.servers.admin_port import LISTEN, ops_address
from tests.support.servers.queuegate_server import running_server

HOSTILE = b"""<!doctype html><title>odd</title><img src="http://192.0.2.1/picture.png">
<script>alert(1); undefinedFunction()</script><input><p>no label</p>
<div id="wide">wide</div><style>#wide { width: 3000px }</style>"""


@pytest.fixture(scope="module")
def hostile_page() -> Iterator[str]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/html; charset=utf-8")
            self.end_headers()
            self.wfile.write(HOSTILE)

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()
        thread.join(30)


@pytest.mark.parametrize("javascript", [True, False])
def test_it_opens_a_page_of_the_operations_port(
    browser: Browser, policy: Path, javascript: bool
) -> None:
    with (
        running_server("--policy", str(policy), *LISTEN) as server,
        visiting(browser, javascript=javascript) as visit,
    ):
        response = visit.page.goto(f"http://{ops_address(server)}/version")
        assert response
        assert response.status == 200
        assert "version" in json.loads(visit.page.inner_text("body"))
        assert (visit.dialogs, visit.elsewhere) == ([], [])


def test_it_records_scripts_requests_and_findings(browser: Browser, hostile_page: str) -> None:
    with visiting(browser) as visit:
        visit.page.goto(hostile_page)
        assert visit.dialogs == ["1"]
        assert visit.elsewhere == ["http://192.0.2.1/picture.png"]
        assert any("undefinedFunction" in error for error in visit.errors)
        assert any(finding.startswith("label:") for finding in visit.serious_findings())
        assert visit.overflow() > 1000


def test_it_runs_no_script_without_javascript(browser: Browser, hostile_page: str) -> None:
    with visiting(browser, javascript=False) as visit:
        visit.page.goto(hostile_page)
        assert (visit.dialogs, visit.errors[1:]) == ([], [])
        assert visit.page.title() == "odd"
