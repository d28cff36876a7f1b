"""Malformed requests: each is answered as an error of its sender, and leaves nothing behind."""

import contextlib
import itertools
import socket
from collections.abc import Iterator
from functools import partial
from typing import Final

import pytest

from tests.support.fakes.scripted_directory import settings_file
from tests.support.servers.admin_port import ops_address
from tests.support.servers.queuegate_server import RunningServer, running_server

BOUNDARY: Final = b"----geckoformboundary0123456789"
MULTIPART: Final = b"multipart/form-data; boundary=" + BOUNDARY
FORM: Final = b"application/x-www-form-urlencoded"
CONTROL: Final = bytes({*range(32), 127} - {0x0A, 0x0D, 0x09})
Place = tuple[str, int]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    settings = {"ops": {"listen": "127.0.0.1:0"}, "console": {"enabled": True}}
    folder = tmp_path_factory.mktemp("settings")
    with running_server("--config", settings_file(folder, settings)) as running:
        yield running


@pytest.fixture
def place(server: RunningServer) -> Place:
    host, _, port = ops_address(server).rpartition(":")
    return host, int(port)


def exchange(place: Place, sent: bytes) -> bytes:
    """Send bytes, and return the answer."""
    with socket.create_connection(place, 60) as connection:
        with contextlib.suppress(OSError):  # it may answer before it has read everything
            connection.sendall(sent)
        found = bytearray()
        with contextlib.suppress(ConnectionResetError):
            while part := connection.recv(65_536):
                found += part
        return bytes(found)


def post(body: bytes, content_type: bytes = MULTIPART, path: bytes = b"change") -> bytes:
    head = b"POST /console/%s HTTP/1.1\r\nHost: localhost\r\nContent-Type: %s\r\n"
    return head % (path, content_type) + b"Content-Length: %d\r\n\r\n%s" % (len(body), body)


def part(headers: bytes, body: bytes = b"x") -> bytes:
    return b"--%s\r\n%s\r\n\r\n%s\r\n--%s--\r\n" % (BOUNDARY, headers, body, BOUNDARY)


FIELD: Final = b'Content-Disposition: form-data; name="policy"'
BODIES: Final = {
    "empty": b"",
    "no boundary": b"x" * 100,
    "blank lines": b"\r\n" * 10_000 + part(FIELD),
    "preamble": b"x\r\n" + part(FIELD),
    "epilogue": part(FIELD) + b"x",
    "no end": part(FIELD)[:-6],
    "no headers": b"--%s\r\n\r\nx\r\n--%s--\r\n" % (BOUNDARY, BOUNDARY),
    "no disposition": part(b"X: y"),
    "not a form field": part(b"Content-Disposition: attachment"),
    "two names": part(FIELD + b"\r\n" + FIELD),
    "half a name": part(b'Content-Disposition: form-data; name="pol'),
    "control characters": part(b'Content-Disposition: form-data; name="' + CONTROL + b'"'),
    "control characters in headers": part(FIELD + b"\r\nX\x00Y: \x01\x1b[2J"),
    "long headers": part(FIELD + b"\r\nX: " + b"y" * 100_000),
    "not UTF-8": part(FIELD, b"\xff\xfe"),
    "a name that is not UTF-8": part(b'Content-Disposition: form-data; name="\xff"'),
    "many parts": part(FIELD)[: -len(BOUNDARY) - 6] * 1_000 + part(FIELD),
}
HARMLESS: Final = {
    "only an end": b"--%s--\r\n" % BOUNDARY,
    "nested": part(FIELD + b"\r\nContent-Type: multipart/mixed; boundary=x", b"--x\r\n\r\n"),
    "charset": part(b'Content-Disposition: form-data; name="_charset_"', b"y" * 100),
    "base64": part(FIELD + b"\r\nContent-Transfer-Encoding: base64", b"!"),
}
"""Forms, whatever they are meant to be."""
TYPES: Final = (
    b"multipart/form-data",
    b"multipart/form-data; boundary=",
    b"multipart/form-data; boundary=" + b"x" * 71,
    b'multipart/form-data; boundary="a b"',
    b"multipart/form-data; boundary=\xff",
    b"multipart/form-data; boundary=a; boundary=b",
    b"multipart/mixed; boundary=a",
    b"multipart/",
    b"/",
    b";",
    b"",
    b"application/x-www-form-urlencoded; charset=nonsense",
    b"application/json",
    b"\x80\xff",
)
URLENCODED: Final = (
    b"a=%ff",
    b"a=%",
    b"a=%2",
    b"%00=%00",
    b"form_token=%00%01%1b",
    b"form_token=\x00\x01",
    b"form_token=\xff",
    b"form_token=%ed%a0%80",
    b"&" * 10_000,
    b"=" * 10_000,
    b"a=1&" * 100,
)
COOKIES: Final = (
    b"queuegate_session=\x80\xff",
    b"=",
    b";;;=;",
    b'queuegate_session="\\377\\000"',
    b"\xc3\xa9=1",
    b"a=" + b"b" * 9_000,
    b"queuegate_session=a; queuegate_session=b",
    b"queuegate_session",
)
ENCODED_FORM: Final = b"Content-Type: " + FORM


def request(method: bytes, target: bytes, *headers: bytes, rest: bytes = b"") -> bytes:
    lines = (b"%s %s HTTP/1.1" % (method, target), b"Host: localhost", *headers)
    return b"\r\n".join((*lines, b"", rest))


def get(target: bytes, *headers: bytes) -> bytes:
    return request(b"GET", b"/console/" + target, *headers)


def requests() -> Iterator[bytes]:
    for byte in CONTROL:
        yield get(b"queues", b"X: a%cb" % byte)
        yield get(b"%c" % byte)
    for byte in range(256):
        yield get(b"queues?search=%%%02x" % byte)
        yield get(b"%%%02x" % byte)
        yield get(b"static/%%%02x" % byte)
    for byte in (0, 10, 27, 128, 255):
        for page in (b"queues", b"access", b"access/queues", b"user", b"denials", b"health"):
            yield get(page + b"?partition=%%%02x&queue=%%%02x&user=%%00" % (byte, byte))
    for cookie in COOKIES:
        yield get(b"queues", b"Cookie: " + cookie)
    for page in (b"%00", b"%ff", b"\xff", b"%0d%0aA:b"):
        yield get(b"sign-in?next=" + page)
    yield get(b"queues", b"Expect: nothing")
    yield get(b"queues", b"Expect: \x80")
    yield request(b"GET", b"/metrics", b"Expect: \xff")
    yield get(b"queues", b"Content-Length: x")
    yield get(b"queues", b"Content-Length: 1", b"Content-Length: 2")
    yield get(b"queues", b"Connection: Upgrade", b"Upgrade: h2c")
    yield get(b"queues\xff")
    sign_in = partial(request, b"POST", b"/console/sign-in", ENCODED_FORM)
    yield sign_in(b"Transfer-Encoding: chunked", rest=b"zz\r\n")
    yield sign_in(b"Transfer-Encoding: chunked", rest=b"2\r\nabcd\r\n")
    yield sign_in(b"Transfer-Encoding: x")
    yield sign_in(b"Content-Encoding: gzip", b"Content-Length: 1", rest=b"x")
    for target in (b"/\x00", b"http://[/", b"http://localhost:99999999/console/", b"*", b""):
        yield request(b"GET", target)
    yield request(b"OPTIONS", b"*")
    yield request(b"CONNECT", b"localhost:80")
    yield request(b"GET", b"/metrics", b"X: \x00")
    yield b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(200) + b"\r\n\r\n"
    yield b"\x00\x01\x1b[2J\r\n\r\n"


def expect_answer(answer: bytes, *statuses: int) -> None:
    head = answer.partition(b"\r\n\r\n")[0].decode("latin-1")
    status = int(head.split()[1])
    assert status in statuses, head
    for line in ("Content-Security-Policy: default-src", "X-Content-Type-Options: nosniff"):
        assert line in head
    assert "\r\nServer: queuegate\r\n" in head + "\r\n"
    for word in ("aiohttp", "Python/"):
        assert word not in answer.decode("latin-1")


@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES)
def test_malformed_forms(place: Place, body: bytes) -> None:
    expect_answer(exchange(place, post(body)), 400)


@pytest.mark.parametrize("body", HARMLESS.values(), ids=HARMLESS)
def test_forms_without_their_token(place: Place, body: bytes) -> None:
    expect_answer(exchange(place, post(body)), 403)


@pytest.mark.parametrize("path", [b"sign-in", b"sign-out", b"user/forget"])
def test_only_the_page_change_takes_files(place: Place, path: bytes) -> None:
    """The refusal does not wait for the body."""
    head = post(b"", path=path).replace(b"Content-Length: 0", b"Content-Length: 9999999")
    expect_answer(exchange(place, head), 415, 403)


@pytest.mark.parametrize("content_type", TYPES)
def test_content_types(place: Place, content_type: bytes) -> None:
    for path in (b"change", b"sign-in"):
        expect_answer(exchange(place, post(b"x=y", content_type, path)), 400, 403, 415)


@pytest.mark.parametrize("body", URLENCODED)
def test_urlencoded_forms(place: Place, body: bytes) -> None:
    for path in (b"change", b"sign-in"):
        expect_answer(exchange(place, post(body, FORM, path)), 400, 403)


def test_requests(server: RunningServer, place: Place) -> None:
    for sent in requests():
        answer = exchange(place, sent)
        assert answer, sent
        expect_answer(answer, *range(200, 500))
    assert not [each for each in server.logs if each["level"] == "error"]


MOST: Final = 15_000
"""Bytes of a header that the port accepts."""
SIGN_IN: Final = (b"POST", b"/console/sign-in")
COSTLY: Final = {
    "parameters": post(b"x=y", FORM + b";" * MOST, b"sign-in"),
    "quotes": post(b"x=y", FORM + b"; x=" + b'"' * MOST, b"sign-in"),
    "parts of a parameter": post(b"x=y", FORM + b";a*0*=%ff" * (MOST // 9), b"sign-in"),
    "parameters of a file": post(b"x=y", b"multipart/form-data" + b";" * MOST),
    "cookies": get(b"sign-in", b"Cookie: " + b"a=b;" * (MOST // 4)),
    "fields of a query": get(b"sign-in?" + b"a&" * (MOST // 2)),
    "chunks of a byte": request(
        *SIGN_IN, ENCODED_FORM, b"Transfer-Encoding: chunked", rest=b"1\r\na\r\n" * 60_000
    ),
    "escapes of a query": get(b"sign-in?next=" + b"%41" * (MOST // 3)),
    "encodings": get(b"sign-in", b"Accept-Encoding: " + b"a;q=0.1," * (MOST // 8)),
    "forwarded": get(b"sign-in", b"Forwarded: " + b"for=a;" * (MOST // 6)),
}


@pytest.mark.parametrize("sent", COSTLY.values(), ids=COSTLY)
def test_costly_requests_of_strangers(server: RunningServer, place: Place, sent: bytes) -> None:
    """A request costs the server milliseconds, whatever its headers have."""
    before = server.processor_seconds()
    for _ in range(30):
        expect_answer(exchange(place, sent), *range(200, 500))
    assert server.processor_seconds() - before < 0.3


def test_nothing_is_kept_of_malformed_requests(server: RunningServer, place: Place) -> None:
    """Neither in memory nor, beyond a sample, in the log."""
    numbers = itertools.count()

    def send(count: int) -> None:
        for number in itertools.islice(numbers, count):
            unique = b"%d" % number + b"\x1b]0;x" * 1_000
            disposition = b'Content-Disposition: form-data; name="a"; x=%s"; y' % unique
            body = part(disposition)
            for path in (b"sign-in", b"change"):
                expect_answer(exchange(place, post(body, path=path)), 400, 403, 415)
            exchange(place, b"GET /%s HTTP/1.1\r\nHost: x\r\nX: \x00%s\r\n\r\n" % (unique, unique))

    send(100)
    memory, lines = server.memory(), sum(map(len, server.errors))
    send(500)
    assert server.memory() - memory < 8 << 20
    assert sum(map(len, server.errors)) - lines < 100_000
    assert "\x1b" not in "".join(server.errors)
