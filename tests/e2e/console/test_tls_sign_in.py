"""Signing in over TLS, in a browser."""

import hashlib
from collections.abc import Iterator
from typing import Final

import pytest
import trustme
from playwright.sync_api import Browser, expect

from tests.integration.security.authorities import Authority
from tests.support.browser import visiting
from tests.support.fakes.scripted_directory import settings_file
from tests.support.servers.admin_port import ops_address
from tests.support.servers.queuegate_server import running_server

TOKEN: Final = "0123456789" * 4


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of a console beyond loopback, where nobody is known by their address."""
    folder = tmp_path_factory.mktemp("tls")
    certificate, key = Authority(folder, trustme.CA()).server()
    (folder / "tokens").write_text(f"ann:{hashlib.sha256(TOKEN.encode()).hexdigest()}\n")
    settings = {
        "policy": {"path": "examples/queues.yaml"},
        "ops": {
            "listen": "0.0.0.0:0",
            "tls": {"certificate_file": str(certificate), "key_file": str(key)},
        },
        "console": {"enabled": True},
        "callers": {
            "token_file": str(folder / "tokens"),
            "tokens": {"ann": {"roles": ["read"]}},
        },
    }
    with running_server("--config", settings_file(folder, settings)) as server:
        yield f"https://localhost:{ops_address(server).rpartition(':')[2]}/console/"


@pytest.mark.parametrize("javascript", [True, False])
def test_signing_in_and_out(browser: Browser, url: str, *, javascript: bool) -> None:
    # The authority of the test is not one of the browser's.
    with visiting(browser, javascript=javascript, ignore_https_errors=True) as visit:
        page = visit.page
        page.goto(f"{url}user?user=sue")
        expect(page.get_by_role("heading", name="Sign in")).to_be_visible()
        page.get_by_label("Bearer token").fill("x" * 40)
        page.get_by_role("button", name="Sign in").click()
        expect(page.get_by_role("alert")).to_contain_text("does not know the bearer token")
        page.get_by_label("Bearer token").fill(TOKEN)
        page.get_by_role("button", name="Sign in").click()
        expect(page.get_by_text("You are token:ann")).to_be_visible()
        assert page.url == f"{url}user?user=sue"
        [cookie] = page.context.cookies()
        assert cookie["secure"]
        assert cookie["httpOnly"]
        assert (cookie["sameSite"], cookie["path"]) == ("Strict", "/console/")
        page.get_by_role("link", name="Queues").click()
        expect(page.get_by_text("You are token:ann")).to_be_visible()
        page.get_by_role("button", name="Sign out").click()
        expect(page.get_by_role("heading", name="Sign in")).to_be_visible()
        assert page.context.cookies() == []
        assert (visit.dialogs, visit.elsewhere) == ([], [])
