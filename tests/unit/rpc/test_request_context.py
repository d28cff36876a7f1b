"""Ids that callers send with a call count only if they are well formed."""

from queuegate_server.rpc.access_log import RequestContext
from tests.support.rows import rows

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
PARENT = "00f067aa0ba902b7"


@rows
def test_request_id(value: str, accepted: bool) -> None:
    request = RequestContext.from_metadata([("x-request-id", value)])
    assert request.request_id == (value if accepted else "")


@rows
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
