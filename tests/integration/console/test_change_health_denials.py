"""The pages Change, Health and Denials of a running server, and the forms that they take."""

import contextlib
import http.client
import re
import resource
from collections.abc import Iterator
from html import unescape
from pathlib import Path
from urllib.parse import urlsplit

import grpc
import pytest

import queuegate
from tests.support.atomic_files import replace
from tests.support.console_http import Browser
from tests.support.eventually import eventually
from tests.support.servers.console_server import RunningConsole, running_console
from tests.support.servers.http_port import EVALUATION, asked, http_address, send
from tests.support.sync_stream import SyncStream

EXAMPLE = Path("examples/queues.yaml").read_text()
BOUNDARY = "----boundary"
LARGE = 3 * 1024 * 1024


@pytest.fixture(scope="module")
def console(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningConsole]:
    with running_console(tmp_path_factory.mktemp("console")) as running:
        yield running


@pytest.fixture
def browser(console: RunningConsole) -> Browser:
    return Browser(console.url)


def words(text: str) -> str:
    main = text.partition("<main")[2].partition(">")[2]
    return " ".join(unescape(re.sub(r"<[^>]*>", " ", main)).split())


def multipart(fields: dict[str, str | bytes], *, end: bool = True) -> bytes:
    body = b""
    for name, value in fields.items():
        content = value if isinstance(value, bytes) else value.encode()
        head = f'--{BOUNDARY}\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n'
        body += head.encode() + content + b"\r\n"
    return body + f"--{BOUNDARY}--\r\n".encode() if end else body


def post(
    console: RunningConsole, body: bytes, content_type: str = "", **headers: str
) -> tuple[int, str]:
    parts = urlsplit(console.url)
    connection = http.client.HTTPConnection(parts.netloc, timeout=60)
    content_type = content_type or f"multipart/form-data; boundary={BOUNDARY}"
    try:
        connection.request(
            "POST", f"{parts.path}change", body, {"Content-Type": content_type, **headers}
        )
        response = connection.getresponse()
        return response.status, response.read().decode()
    finally:
        connection.close()


def test_a_form_in_parts(console: RunningConsole, browser: Browser) -> None:
    form_token = browser.get("change").form_token
    fields: dict[str, str | bytes] = {"form_token": form_token, "policy": "", "file": EXAMPLE}
    status, text = post(console, multipart(fields))
    assert status == 200
    assert "Nobody gains or loses access" in words(text)


@pytest.mark.parametrize("site", ["cross-site", "same-site", "none"])
def test_forms_of_other_sites_are_refused(
    console: RunningConsole, browser: Browser, site: str
) -> None:
    fields: dict[str, str | bytes] = {
        "form_token": browser.get("change").form_token,
        "policy": EXAMPLE,
    }
    status, text = post(console, multipart(fields), **{"Sec-Fetch-Site": site})
    assert status == 403
    assert "another site" in words(text)
    status, _ = post(console, multipart(fields), Origin="http://evil.example")
    assert status == 403
    # Browsers send this from a page without a referrer.
    status, _ = post(
        console, multipart(fields), **{"Sec-Fetch-Site": "same-origin", "Origin": "null"}
    )
    assert status == 200


@pytest.mark.parametrize(
    ("body", "content_type", "status"),
    [
        pytest.param(multipart({"policy": "x"}), "", 403, id="no token"),
        pytest.param(multipart({"form_token": "x" * 64}), "", 403, id="a wrong token"),
        pytest.param(multipart({"policy": b"\xff"}), "", 400, id="not UTF-8"),
        pytest.param(multipart({"policy": "x"}, end=False), "", 400, id="no end"),
        pytest.param(b"", "", 400, id="empty"),
        pytest.param(b"x" * 1000, "", 400, id="no parts"),
        pytest.param(multipart({str(n): "" for n in range(60)}), "", 400, id="many fields"),
        pytest.param(multipart({"policy": "x" * LARGE}), "", 413, id="large"),
        pytest.param(b"policy=" + b"x" * LARGE, "application/x-www-form-urlencoded", 413),
        pytest.param(b"{}", "application/json", 415, id="no form"),
        pytest.param(b"x", "multipart/form-data", 400, id="no boundary"),
        pytest.param(b"x", "multipart/mixed; boundary=x", 415, id="not a form's parts"),
    ],
)
def test_malformed_forms(
    console: RunningConsole, body: bytes, content_type: str, status: int
) -> None:
    assert post(console, body, content_type)[0] == status
    assert "unexpected error" not in "".join(console.server.errors)


def test_a_policy_that_is_too_long(browser: Browser) -> None:
    form = {"form_token": browser.get("change").form_token, "policy": "x" * (2 * 1024 * 1024 + 1)}
    answer = browser.post("change", form)
    assert answer.status == 422
    assert "longer than 2097152 bytes" in words(answer.text)


def test_a_policy_that_is_a_parser_bomb(browser: Browser) -> None:
    bomb = "a: &a [x,x,x,x,x,x,x,x,x]\n" + "".join(
        f"{after}: &{after} [{','.join([f'*{name}'] * 9)}]\n"
        for name, after in zip("abcdefgh", "bcdefghi", strict=True)
    )
    form = {"form_token": browser.get("change").form_token, "policy": bomb}
    answer = browser.post("change", form)
    assert answer.status in {200, 422}
    assert browser.get("health").status == 200


def test_health_shows_connected_gates(tmp_path: Path) -> None:
    # Beside an audit log a gate would not decide.
    with running_console(tmp_path, audit={}) as console:
        browser = Browser(console.url)
        with queuegate.Gate(console.server.address, name="shim/<1>") as gate:
            eventually(lambda: gate.state, queuegate.GateState.LIVE)
            page = words(browser.get("health").text)
            assert "Connected gates" in page
            assert re.search(r"shim/<1> queuegate-python/\S+ loopback", page)
        eventually(
            lambda: "No gate is connected." in words(browser.get("health").text), expected=True
        )


def test_health_shows_what_gates_say_about_themselves(tmp_path: Path) -> None:
    with running_console(tmp_path) as console:
        browser = Browser(console.url)

        def health() -> str:
            return words(browser.get("health").text)

        with grpc.insecure_channel(console.server.address) as channel:
            stream = SyncStream(channel)
            stream.open(name="rm/<i>1", agent="yarn/<b>", stale_millis=200_000)
            counts = {"decided": 5_000, "stale": 2, "fallbacks": 3}
            stream.send("ping", id=1, counts=counts)
            stream.until("pong")
            assert "rm/<i>1 yarn/<b> loopback" in health()
            assert re.search(r"s 3 min 5.000 2 3 ", health())
            stream.close()
        eventually(lambda: "rm/<i>1 for up to 3 min" in health(), expected=True)
        assert "<i>" not in browser.get("health").text


def test_health_shows_requests_over_http(tmp_path: Path) -> None:
    with running_console(tmp_path, http={"listen": "127.0.0.1:0"}) as console:
        address = http_address(console.server)
        for user in ("sue", "lost"):
            send(address, EVALUATION, asked(user, "submit", "root.engineering.training"))
        page = words(Browser(console.url).get("health").text)
    assert f"HTTP {address}: 2 requests, 1 answered with a server error" in page


def test_health_shows_a_failed_reload_and_an_open_breaker(tmp_path: Path) -> None:
    policy = tmp_path / "queues.yaml"
    policy.write_text(EXAMPLE)
    with running_console(tmp_path, policies=[{"path": str(policy)}]) as console:
        browser = Browser(console.url)
        assert "Nothing needs attention." in words(browser.get("health").text)
        replace(policy, "partitions: 3")
        expected = "1 thing needs attention The last reload of the policy failed"
        eventually(lambda: expected in words(browser.get("health").text), expected=True)
        page = words(browser.get("health").text)
        assert "failed revision 1 1 " in page
        assert f"{policy}:1:13: error:" in page


def limit_files(console: RunningConsole, size: int) -> None:
    """Limit the size of the server's files, like a full disk."""
    resource.prlimit(console.server.pid, resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))


@pytest.mark.parametrize(
    ("when_unwritable", "said"),
    [
        ("drop", r"\d+ audit records have been lost since the server started\."),
        ("block", r"40 audit records could not be written in time, so the calls failed\."),
    ],
)
def test_health_does_not_hide_lost_audit_records(
    tmp_path: Path, when_unwritable: str, said: str
) -> None:
    log = tmp_path / "audit.log"
    audit = {"path": str(log), "when_unwritable": when_unwritable, "buffer": "4KiB"}
    with running_console(tmp_path, audit=audit) as console:
        browser = Browser(console.url)
        page = words(browser.get("health").text)
        assert "audit record" not in page.partition("Audit log")[0]
        limit_files(console, log.stat().st_size)
        no_retry = queuegate.Retry(attempts=1)
        with queuegate.Client(console.server.address, timeout=60, retry=no_retry) as client:
            for _ in range(40):
                with contextlib.suppress(queuegate.ServerUnavailable):
                    client.check("nadia", "root.analytics")
            limit_files(console, resource.RLIM_INFINITY)
            client.check("nadia", "root.analytics")
        eventually(lambda: "State writable" in words(browser.get("health").text), expected=True)
        page = words(browser.get("health").text).partition("Audit log")[0]
    assert re.search(rf"1 thing needs attention {said}", page)
    assert "Nothing needs attention." not in page


def test_denials_without_an_audit_log(tmp_path: Path) -> None:
    with running_console(tmp_path, audit={}) as console:
        page = words(Browser(console.url).get("denials").text)
    assert "There is nothing to show: the server writes no audit log." in page
    assert "set audit.path to a file" in page


def test_denials_after_the_log_was_moved(tmp_path: Path) -> None:
    with running_console(tmp_path) as console:
        (tmp_path / "audit.log").rename(tmp_path / "moved")
        answer = Browser(console.url).get("denials")
    assert answer.status == 200
    assert "cannot be read: No such file or directory" in words(answer.text)


def test_denials_omit_what_their_reader_has_asked(tmp_path: Path) -> None:
    with running_console(tmp_path) as console:
        browser = Browser(console.url)
        before = words(browser.get("denials").text)
        assert browser.get("access?user=nadia&queue=root.analytics").status == 200
        assert browser.get("access?user=lost&queue=root.analytics").status == 503
        assert words(browser.get("denials").text) == before
        assert "No denied request matches" in words(browser.get("denials?user=nadia").text)
        answer = browser.get("denials?user=nadia&own=1")
        assert "1 request" in words(answer.text)
        assert 'name="own" value="1" checked' in answer.text
        # A check by the same caller is a request like any other.
        with queuegate.Client(console.server.address, timeout=60) as client:
            client.check("nadia", "root.analytics")
        assert "1 request" in words(browser.get("denials?user=nadia").text)
        assert "2 requests" in words(browser.get("denials?user=nadia&own=1").text)


def test_the_newest_of_many_denials(tmp_path: Path) -> None:
    with running_console(tmp_path) as console:
        with queuegate.Client(console.server.address, timeout=60) as client:
            checks = [queuegate.Check(f"nobody-{n}", "root.analytics") for n in range(300)]
            client.check_many(checks)
        browser = Browser(console.url)
        page = words(browser.get("denials").text)
        assert "The newest 100 requests" in page
        assert "There may be older requests" in page
        assert "1 request" in words(browser.get("denials?user=nobody-7").text)
