"""Ids that callers send with a call count only if they are well formed."""

import pytest

from queuegate_server.rpc.access_log import RequestContext

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
PARENT = "00f067aa0ba902b7"


@pytest.mark.parametrize(
    ("value", "accepted"),
    [
        ("a", True),
        ("7f6e-4c3b.9_a:b/c+d=e@f", True),
        ("x" * 128, True),
        ("x" * 129, False),
        ("", False),
        ("-starts-with-a-dash", False),
        ("two words", False),
        ("line\nfeed", False),
        ("ends\n", False),
        ('quote"', False),
        ("escape\x1b[31m", False),
        ("ümlaut", False),
        ("\u2028", False),
    ],
)
def test_request_id(value: str, accepted: bool) -> None:
    request = RequestContext.from_metadata([("x-request-id", value)])
    assert request.request_id == (value if accepted else "")


@pytest.mark.parametrize(
    ("value", "accepted"),
    [
        (f"00-{TRACE}-{PARENT}-01", True),
        (f"00-{TRACE}-{PARENT}-00", True),
        (f"cc-{TRACE}-{PARENT}-01", True),
        (f"cc-{TRACE}-{PARENT}-01-what-comes-later", True),
        (f"cc-{TRACE}-{PARENT}-01what", False),
        (f"00-{TRACE}-{PARENT}-01-more", False),
        (f"ff-{TRACE}-{PARENT}-01", False),
        (f"00-{'0' * 32}-{PARENT}-01", False),
        (f"00-{TRACE}-{'0' * 16}-01", False),
        (f"00-{TRACE.upper()}-{PARENT}-01", False),
        (f"00-{TRACE}-{PARENT}", False),
        (f"00-{TRACE}-{PARENT}-01\n", False),
        (f"cc-{TRACE}-{PARENT}-01-a\nb", False),
        ("", False),
    ],
)
def test_traceparent(value: str, accepted: bool) -> None:
    request = RequestContext.from_metadata([("traceparent", value)])
    assert (request.trace_id, request.parent_id) == ((TRACE, PARENT) if accepted else ("", ""))


def test_nothing_given() -> None:
    assert (
        RequestContext.from_metadata(None)
        == RequestContext.from_metadata([("user-agent", "x")])
        == RequestContext()
    )
    assert RequestContext().fields() == {}


def test_the_first_that_is_well_formed_counts() -> None:
    given = [("x-request-id", "not sane"), ("x-request-id", b"bytes"), ("x-request-id", "one")]
    assert RequestContext.from_metadata([*given, ("x-request-id", "two")]).fields() == {
        "request_id": "one"
    }
