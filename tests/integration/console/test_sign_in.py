"""Who may see a page: loopback, tokens and sessions, forms, and the headers of every answer."""

import contextlib
import hashlib
import os
import signal
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from queuegate_server.console.app import MAX_REQUESTS
from queuegate_server.console.sessions import MAX_SESSIONS_OF_CALLER
from tests.support.console_http import Answer, Browser
from tests.support.eventually import eventually
from tests.support.fakes.scripted_directory import settings_file
from tests.support.rows import rows
from tests.support.servers.admin_port import get, ops_address, value
from tests.support.servers.queuegate_server import RunningServer, running_server

ADMIN, READER, CHECKER, REVOKED = (f"{name}-{'0123456789' * 4}" for name in "arcx")
TOKENS: Final = {"ops": ADMIN, "ann": READER, "shim": CHECKER, "old": REVOKED}
ROLES: Final = {
    "loopback": {"roles": ["read"]},
    "tokens": {
        "ops": {"roles": ["read", "admin"]},
        "ann": {"roles": ["read"]},
        "shim": {"roles": ["check"]},
        "old": {"roles": ["read"]},
    },
}


def write_tokens(folder: Path, *names: str) -> None:
    lines = [f"{name}:{hashlib.sha256(TOKENS[name].encode()).hexdigest()}\n" for name in names]
    (folder / "new").write_text("".join(lines))
    (folder / "new").replace(folder / "tokens")


def write_settings(folder: Path, callers: dict[str, Any] = ROLES) -> str:
    settings = {
        "ops": {"listen": "127.0.0.1:0"},
        "console": {"enabled": True},
        "callers": {**callers, "token_file": str(folder / "tokens")},
    }
    return settings_file(folder, settings)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[RunningServer]:
    write_tokens(tmp_path, *TOKENS)
    with running_server("--config", write_settings(tmp_path)) as running:
        yield running


@pytest.fixture
def browser(server: RunningServer) -> Browser:
    return Browser(f"http://{ops_address(server)}/console/")


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of a console of which no test presents many wrong tokens."""
    folder = tmp_path_factory.mktemp("shared")
    write_tokens(folder, *TOKENS)
    with running_server("--config", write_settings(folder)) as running:
        yield f"http://{ops_address(running)}/console/"


@pytest.fixture
def visitor(shared: str) -> Browser:
    return Browser(shared)


def caller(answer: Answer) -> str:
    assert answer.status == 200, answer.text
    return answer.text.partition("You are <b>")[2].partition("<")[0]


def sign_ins(browser: Browser) -> tuple[float, ...]:
    address = browser.url.removeprefix("http://").removesuffix("/console/")
    name = "queuegate_console_sign_ins_total"
    return tuple(value(address, name, result) for result in ("success", "failure", "refused"))


def test_a_token_begins_a_session_and_signing_out_ends_it(browser: Browser) -> None:
    assert caller(browser.get("queues")) == "loopback"
    answer = browser.sign_in(READER, next="/console/user?user=bob")
    assert (answer.status, answer.headers["Location"]) == (303, "/console/user?user=bob")
    cookie = answer.headers["Set-Cookie"]
    for part in ("HttpOnly", "SameSite=Strict", "Path=/console/", "Max-Age=28800"):
        assert part in cookie
    assert "Secure" not in cookie
    page = browser.get("queues")
    assert caller(page) == "token:ann"
    assert READER not in page.text
    ended = browser.cookies["queuegate_session"]
    assert browser.post("sign-out", {"form_token": page.form_token}).status == 303
    assert not browser.cookies
    assert caller(browser.get("queues")) == "loopback"
    # A session that has ended is not silently somebody else.
    answer = browser.get("queues", Cookie=f"queuegate_session={ended}")
    assert answer.status == 401
    assert "the session has ended" in answer.text
    assert "Max-Age=0" in answer.headers["Set-Cookie"]
    assert sign_ins(browser) == (1, 0, 0)


def test_a_bearer_token_in_a_header(browser: Browser) -> None:
    assert caller(browser.get("queues", Authorization=f"Bearer {READER}")) == "token:ann"
    answer = browser.get("queues", Authorization="Bearer " + "x" * 40)
    assert answer.status == 401
    assert answer.headers["WWW-Authenticate"] == "Bearer"
    assert "the server does not know the bearer token" in answer.text
    assert browser.get("queues", Authorization="Basic YTpi").status == 401
    assert sign_ins(browser) == (0, 2, 0)


def test_rights_are_looked_up_anew(tmp_path: Path, server: RunningServer, browser: Browser) -> None:
    revoked = Browser(browser.url)
    assert revoked.sign_in(REVOKED).status == 303
    assert browser.sign_in(READER).status == 303
    assert caller(revoked.get("queues")) == "token:old"
    write_tokens(tmp_path, "ops", "ann", "shim")
    eventually(lambda: revoked.get("queues").status, 401)
    assert caller(browser.get("queues")) == "token:ann"
    write_settings(tmp_path, {**ROLES, "tokens": {"ann": {"roles": ["check"]}}})
    os.kill(server.pid, signal.SIGHUP)
    eventually(lambda: browser.get("queues").status, 403)
    assert "this call needs the read role, which token:ann does not have" in (
        browser.get("queues").text
    )


def test_wrong_tokens_are_refused_counted_and_slowed_down(
    server: RunningServer, browser: Browser
) -> None:
    for token in ("", "short", "x" * 40, "\u202e" * 40):
        assert browser.sign_in(token).status == 403
    # The bucket refills, so a slow machine needs more attempts.
    for _ in range(100):
        if (answer := browser.sign_in("y" * 40)).status == 429:
            break
        assert answer.status == 403
    assert "too many failed attempts: try again in" in answer.text
    assert caller(browser.get("queues", Authorization=f"Bearer {READER}")) == "token:ann"
    assert caller(browser.get("queues")) == "loopback"
    success, failure, refused = sign_ins(browser)
    assert success == 0
    assert failure >= 10
    assert refused >= 1
    logged = "".join(server.errors)
    assert "sign-in failed" in logged
    assert not any(token in logged for token in (*TOKENS.values(), "y" * 40))


def test_wrong_tokens_do_not_lock_out_those_who_share_an_address(browser: Browser) -> None:
    for _ in range(12):
        assert browser.sign_in("y" * 40).status in {403, 429}
    assert browser.sign_in(READER).status == 303
    assert caller(browser.get("queues")) == "token:ann"


def test_signing_in_often_ends_no_session_of_another_caller(browser: Browser) -> None:
    other = Browser(browser.url)
    assert other.sign_in(READER).status == 303
    begun = []
    for _ in range(MAX_SESSIONS_OF_CALLER + 1):
        browser.cookies.clear()
        assert browser.sign_in(ADMIN).status == 303
        begun.append(browser.cookies["queuegate_session"])
    assert caller(browser.get("queues")) == "token:ops"
    browser.cookies["queuegate_session"] = begun[0]
    assert browser.get("queues").status == 401
    assert caller(other.get("queues")) == "token:ann"


def test_a_proxy_is_not_its_caller(visitor: Browser) -> None:
    for name in ("Forwarded", "X_Forwarded_For", "Via"):
        assert visitor.get("queues", **{name: "192.0.2.1"}).status == 401
    passed_on = {
        "Host": "console.example.com",
        "X_Forwarded_For": "192.0.2.1",
        "Authorization": f"Bearer {READER}",
    }
    assert caller(visitor.get("queues", **passed_on)) == "token:ann"


@rows
def test_forms_of_other_sites(visitor: Browser, headers: dict[str, str]) -> None:
    assert visitor.sign_in(ADMIN).status == 303
    form = {"form_token": visitor.get("user?user=alice").form_token, "user": "alice"}
    answer = visitor.post("user/forget", form, **headers)
    assert answer.status == 403
    assert "the form was sent by another site" in answer.text
    own = {"Origin": visitor.url.removesuffix("/console/"), "Sec_Fetch_Site": "same-origin"}
    assert visitor.post("user/forget", form, **own).status == 303


def test_pages_inside_of_other_sites(visitor: Browser) -> None:
    image = {"Sec_Fetch_Mode": "no-cors", "Sec_Fetch_Dest": "image"}
    frame = {"Sec_Fetch_Mode": "navigate", "Sec_Fetch_Dest": "iframe"}
    link = {"Sec_Fetch_Mode": "navigate", "Sec_Fetch_Dest": "document"}
    for site in ("cross-site", "same-site"):
        for embedded in ({}, image, frame):
            answer = visitor.get("access?user=a&queue=root", Sec_Fetch_Site=site, **embedded)
            assert answer.status == 403
            assert "Other sites may link to pages" in answer.text
        assert visitor.get("queues", Sec_Fetch_Site=site, **link).status == 200
    assert visitor.get("queues", Sec_Fetch_Site="same-origin", **image).status == 200


def test_form_tokens(visitor: Browser) -> None:
    other = Browser(visitor.url)
    assert other.sign_in(ADMIN).status == visitor.sign_in(ADMIN).status == 303
    for token in ("", "0" * 64, other.get("queues").form_token):
        answer = visitor.post("user/forget", {"form_token": token, "user": "alice"})
        assert answer.status == 403
        assert "the form is out of date" in answer.text
    # What the header proves is not sent by itself, but forms are all the same.
    form = {"user": "alice"}
    bearer = {"Authorization": f"Bearer {ADMIN}"}
    assert visitor.post("user/forget", form, **bearer).status == 403


def test_a_change_is_logged_with_its_caller(server: RunningServer, browser: Browser) -> None:
    assert browser.sign_in(ADMIN).status == 303
    form = {"form_token": browser.get("user?user=alice").form_token, "user": "alice"}
    assert browser.post("user/forget", form).status == 303
    entry = server.wait_for_log("administrator page")
    assert (entry["caller"], entry["path"]) == ("token:ops", "user/forget")


def test_roles(visitor: Browser) -> None:
    page = visitor.get("user?user=alice")
    assert "Forget" not in page.text
    answer = visitor.post("user/forget", {"form_token": "0" * 64, "user": "alice"})
    assert answer.status == 403
    assert "callers.loopback.roles" in answer.text
    assert visitor.sign_in(CHECKER).status == 303
    assert visitor.get("queues").status == 403
    # With another token the browser has other rights.
    assert visitor.sign_in(READER).status == 303
    assert caller(visitor.get("queues")) == "token:ann"


@pytest.mark.parametrize(
    "target",
    ["https://evil.example/", "//evil.example", "/console/../metrics\\", "/console/\r\nA: b", "/x"],
)
def test_signing_in_leads_to_pages_of_the_console_only(visitor: Browser, target: str) -> None:
    answer = visitor.sign_in(READER, next=target)
    assert (answer.status, answer.headers["Location"]) == (303, "/console/")


def test_headers_of_every_answer(visitor: Browser) -> None:
    assert visitor.sign_in(READER).status == 303
    for answer in (
        visitor.get("queues"),
        visitor.get(""),
        visitor.get("sign-in"),
        visitor.get("static/console.css"),
        visitor.get("static/missing.css"),
        visitor.get("missing"),
        visitor.post("queues", {}),
        visitor.post("sign-in", {}),
        visitor.get("queues", Authorization="Bearer x"),
        visitor.get("queues?partition=missing"),
        visitor.get("access?user=%00&queue=root"),
    ):
        policy = answer.headers["Content-Security-Policy"]
        assert "default-src 'self'; frame-ancestors 'none'; base-uri 'none'" in policy
        assert "unsafe" not in policy
        assert answer.headers["X-Content-Type-Options"] == "nosniff"
        assert answer.headers["Referrer-Policy"] == "no-referrer"
        assert answer.headers["Cache-Control"] == "no-store"
        assert answer.headers["Cross-Origin-Opener-Policy"] == "same-origin"
        assert answer.headers["Server"] == "queuegate"


def test_sizes(visitor: Browser) -> None:
    assert visitor.post("sign-in", {"token": "x" * 20_000}).status == 413
    assert visitor.post("sign-in", {}, Content_Type="application/json").status == 415
    many = {f"f{number}": "" for number in range(100)}
    assert visitor.post("sign-in", many).status == 400
    assert visitor.get("queues?search=" + "x" * 12_000).status == 200
    assert visitor.get("queues?search=" + "x" * 20_000).status == 431
    # The probes keep the limits that they have without the console.
    address = visitor.url.removeprefix("http://").removesuffix("/console/")
    assert get(address, "/livez")[0] == 200
    assert get(address, "/livez?" + "x" * 4_000)[0] == 400
    assert visitor.get("/livez", X="x" * 4_000).status == 400
    assert visitor.get("/").headers["Location"] == "/console/"


def test_content_types(visitor: Browser) -> None:
    for path, expected in (
        ("queues", "text/html; charset=utf-8"),
        ("static/console.css", "text/css; charset=utf-8"),
        ("static/htmx-2.0.11.min.js", "text/javascript; charset=utf-8"),
        ("static/icon.svg", "image/svg+xml; charset=utf-8"),
    ):
        assert visitor.get(path).headers["Content-Type"] == expected


def test_a_stranger_does_not_hold_the_places_of_callers(visitor: Browser) -> None:
    address = visitor.url.removeprefix("http://").removesuffix("/console/")
    host, _, port = address.rpartition(":")
    head = (
        "POST /console/sign-in HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n"
        "Content-Type: application/x-www-form-urlencoded\r\n\r\n"
    )
    with contextlib.ExitStack() as stack:
        held = []
        for _ in range(MAX_REQUESTS + 1):
            connection = stack.enter_context(
                socket.create_connection((host, int(port)), timeout=60)
            )
            connection.sendall(head.encode())
            held.append(connection)
        assert caller(visitor.get("queues")) == "loopback"
        # They have the time of a probe, although the form never comes.
        assert all(connection.recv(1) == b"" for connection in held)
