"""The console of a server for YARN: proposals in the scheduler's files, and shared names."""

import gzip
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import queuegate
from tests.support.atomic_files import replace
from tests.support.console_http import Answer, Browser, words
from tests.support.generators.yarn_files import prop
from tests.support.servers.console_server import RunningConsole, running_console

BOUNDARY = "x-boundary"
PREFIX = "yarn.scheduler.capacity.root"
CAPACITY = "".join(
    prop(f"{PREFIX}.{name}", value)
    for name, value in (
        ("queues", "a,b"),
        ("b.queues", "a"),
        ("acl_submit_applications", " "),
        ("acl_administer_queue", " "),
        ("a.acl_submit_applications", "ann"),
    )
)
CAPACITY = f"<configuration>{CAPACITY}</configuration>"
FAIR = "<allocations><queue name='root'><queue name='a'/></queue></allocations>"
YUNIKORN = "partitions: [{name: default, queues: [{name: root}]}]\n"
ROOT_ELEMENT = "the root element is <allocations>, not <configuration>"
SHARED = "a is the name of several queues: root.a, root.b.a (write the full path)"


@pytest.fixture(scope="module")
def policy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("policy") / "capacity-scheduler.xml"
    file.write_text(CAPACITY)
    return file


@pytest.fixture(scope="module")
def console(policy: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningConsole]:
    settings: dict[str, Any] = {
        "policies": [{"path": str(policy)}],
        "partitions": {"default": {"semantics": "hadoop"}},
    }
    with running_console(tmp_path_factory.mktemp("console"), **settings) as running:
        yield running


def upload(
    console: RunningConsole, data: bytes, *, files: tuple[str, ...] = ("file",), **more: bytes
) -> Answer:
    browser = Browser(console.url)
    token = browser.get("change").form_token.encode()
    body = b""
    for field, value in {"form_token": token, "policy": b"", **more, "file": data}.items():
        file = '; filename="new.xml"\r\nContent-Type: text/xml' if field in files else ""
        head = f'--{BOUNDARY}\r\nContent-Disposition: form-data; name="{field}"{file}\r\n\r\n'
        body += head.encode() + value + b"\r\n"
    body += f"--{BOUNDARY}--\r\n".encode()
    content_type = f"multipart/form-data; boundary={BOUNDARY}"
    return browser.post("change", body, Content_Type=content_type)


LATIN = '<?xml version="1.0" encoding="ISO-8859-1"?>\n' + CAPACITY.replace("ann", "ann,jos\xe9")


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        pytest.param(gzip.compress(CAPACITY.encode()), "Nobody gains or loses", id="gzip"),
        pytest.param(gzip.compress(gzip.compress(CAPACITY.encode())), "✓ Valid", id="twice"),
        pytest.param(LATIN.encode("latin-1"), "+ user jos\xe9", id="ISO-8859-1"),
        pytest.param(CAPACITY.encode("utf-16"), "✓ Valid", id="UTF-16"),
        pytest.param(b"\xef\xbb\xbf" + CAPACITY.encode(), "✓ Valid", id="byte order mark"),
        pytest.param(CAPACITY.replace("><", ">\r\n<").encode(), "✓ Valid", id="CR LF"),
        pytest.param(
            gzip.compress(CAPACITY.encode())[:-9], "the compressed file is truncated", id="short"
        ),
        pytest.param(
            b"\x1f\x8b\x08\x00plain, and not compressed at all",
            "looks like gzip, but cannot be decompressed",
            id="not gzip",
        ),
        pytest.param(
            gzip.compress(bytes(65 * 1024 * 1024)), "holds more than 67108864 bytes", id="bomb"
        ),
        pytest.param(LATIN.encode("latin-1")[45:], "error", id="not UTF-8"),
        pytest.param(FAIR.encode(), ROOT_ELEMENT, id="another format"),
        pytest.param(gzip.compress(FAIR.encode()), ROOT_ELEMENT, id="another format in gzip"),
        pytest.param(YUNIKORN.encode(), "but this file is not XML", id="YAML"),
    ],
)
def test_files(console: RunningConsole, data: bytes, expected: str) -> None:
    answer = upload(console, data)
    page = words(answer)
    assert answer.status == 200
    assert expected in page
    is_valid = expected.startswith(("✓", "+", "Nobody"))
    assert ("✓ Valid" in page) is is_valid
    assert "unexpected error" not in "".join(console.server.errors)


@pytest.mark.parametrize("has_file_name", [False, True], ids=["text", "file name"])
@pytest.mark.parametrize("field", ["policy", "claims", "form_token", "source", "other"])
@pytest.mark.parametrize("data", [b"", CAPACITY.encode()], ids=["no file", "file"])
def test_other_fields_must_be_utf_8(
    console: RunningConsole, data: bytes, field: str, *, has_file_name: bool
) -> None:
    files = ("file", field) if has_file_name else ("file",)
    answer = upload(console, data, files=files, **{field: b"\xff\xfe"})
    assert answer.status == 400
    assert "unexpected error" not in "".join(console.server.errors)


def test_files_need_not_be_utf_8(console: RunningConsole) -> None:
    shown = upload(console, LATIN.encode("latin-1"))
    assert "not shown here, because it is too long or not UTF-8 text" in words(shown)


def test_a_proposal_fails_as_the_reload_does(tmp_path: Path) -> None:
    file = tmp_path / "capacity-scheduler.xml"
    file.write_text(CAPACITY)
    with running_console(tmp_path, policies=[{"path": str(file)}]) as console:
        page = words(upload(console, FAIR.encode()))
        replace(file, FAIR)
        with queuegate.Client(console.server.address, timeout=60) as client:
            result = client.reload()
        assert not result.succeeded
        messages = [each.message for each in result.diagnostics]
        assert any(ROOT_ELEMENT in each for each in messages)
        changed = "the settings or the previous file call for the format capacity-scheduler, but"
        assert any(each.startswith(changed) for each in messages)
        for each in result.diagnostics:
            assert each.message in page
            assert each.remedy in page


def test_yunikorn_keeps_its_format(tmp_path: Path) -> None:
    with running_console(tmp_path) as console:
        page = words(upload(console, FAIR.encode()))
    assert "✗ Not valid" in page
    assert "call for a queues.yaml, but this file looks like fair-scheduler" in page


def test_a_name_of_several_queues(console: RunningConsole) -> None:
    browser = Browser(console.url)
    page = words(browser.get("access?user=ann&queue=a&no_groups=1"))
    assert "✗ denied" in page
    assert SHARED in page
    assert "Evaluated ACLs" not in page
    page = words(browser.get("queues?queue=a"))
    assert SHARED in page
    assert "does not exist; this is" not in page
    page = words(browser.get("access?user=ann&queue=root.a&no_groups=1"))
    assert "✓ allowed" in page
    assert "several queues" not in page
    assert "Queue nosuch does not exist" in words(browser.get("queues?queue=nosuch"))
