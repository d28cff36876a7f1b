"""errors.md: the errors of the contract, and the exceptions of the clients."""

import inspect
import re
from collections.abc import Iterator
from typing import Final

import grpc
from google.protobuf.any_pb2 import Any as AnyMessage
from google.rpc.error_details_pb2 import ErrorInfo

from docs.generate.api import contract
from docs.generate.markdown import code, page, sentence, table
from queuegate import exceptions
from queuegate._errors import from_item
from queuegate.exceptions import QueuegateError
from queuegate.v1.status_pb2 import Status

_PREFIX: Final = "ERROR_REASON_"
_INTRODUCTION: Final = """\
"Denied" is an answer (`allowed = false`) with a reason, never an error. After an error, do not
grant access: the question was not answered.

Every error from the service has a gRPC status code and a `google.rpc.ErrorInfo` with the domain
`queuegate` and one of these reasons. Programs should branch on the reason; the message is for
people and may change. In a batch, each question's result carries the same status.

An error that several questions in a batch share is sent only once: the first result contains it as
`error`; later ones have `same_error_as`, the index of that result. Check which field of the `oneof`
is set, because 0 is a valid index. Treat a result without a decision as an error, even if it has a
field that you do not know. The Python and Go clients return each question's own error.
"""
_OF_GRPC: Final = """\
## Errors without a reason

gRPC itself answers some calls before they reach the service, without an `ErrorInfo`:

{of_grpc}

## Advice for clients

The Python and Go clients do all of this except what only the calling program can do. For
a different language, start with [the example for Java or Node](../how-to/generated-stubs.md).

- **Grant access only if `allowed` is true.** Treat an answer as an error if its `reason` belongs to
  the opposite outcome. A `reason` that you do not know changes nothing.
- **Set a deadline**, such as one second, for each call including its retries.
- **Retry within the deadline** with gRPC's own retries, after `UNAVAILABLE` and `CANCELLED`: four
  attempts, with a first pause of 0.05 s. The server stops retries that would be pointless.
- **Wait, then ask again** if a call, or a question in a batch, still ends with `UNAVAILABLE`,
  `CANCELLED`, `DEADLINE_EXCEEDED` or `RESOURCE_EXHAUSTED`: after the time that `RetryInfo` gives,
  or else after a second. A program that admits applications holds the application until then. If a
  message was too large, send less at a time instead.
- **Wait and alert an administrator** after `PERMISSION_DENIED` and `UNAUTHENTICATED`. They
  concern the caller, never the user in the question: if the program rejected the application, one
  wrong setting would reject all applications.
- **Reject the application** after any other error: the request, the policy or the server must
  change before the same question can be answered.
- **Raise the limit on responses** for large batches and lists. Most gRPC libraries accept 4 MiB;
  the Python and Go clients accept 64 MiB.
"""
_CAUSES: Final = {
    "RESOURCE_EXHAUSTED": (
        "The message exceeds `limits.max_message` or the client's limit, the metadata exceeds 16"
        " KiB, or too many health watches are open. If it is the message, send less at a time; the"
        " Python client raises `MessageTooLarge`."
    ),
    "UNAVAILABLE": (
        "Nothing listens at the address, or the connection broke. With TLS, it can also mean that"
        " one side does not trust the other's certificate, usually with the message `Socket"
        " closed`. Retry later; check the address and the certificates."
    ),
    "CANCELLED": (
        "The server dropped a waiting call because it is shutting down or gets far more calls than"
        " it can answer. Retry, as the Python and Go clients do."
    ),
    "DEADLINE_EXCEEDED": "The server did not answer within the caller's time limit. Retry later.",
    "UNIMPLEMENTED": "The server is not queuegate, or is an older version. Check the address.",
    "UNKNOWN": "With `transport: native`: the metadata exceeds 16 KiB.",
}
_PYTHON: Final = """\
## Exceptions of the Python client

An argument of the wrong type raises `TypeError`. Any other error is raised as a
`queuegate.QueuegateError` with `message`, `code` (the name of the status) and `reason` (empty
without an `ErrorInfo`). An `InvalidArgument` is also a `ValueError`.
"""
_GO: Final = """\
## Errors of the Go client

The Go client has the same errors, as values for `errors.Is`: `queuegate.ErrOverloaded` for
`Overloaded`, and so on. `ErrServer` corresponds to `ServerError`, and `ErrClosed` to
`ClientClosed`. A call that timed out matches both `ErrUnavailable` and `context.DeadlineExceeded`.
See [how to ask from Go](../how-to/go-shim.md).
"""
_CODE: Final = re.compile(r"([A-Z_]+): (.*)")


def generate() -> str:
    """Return the page."""
    rows = [(code(status), text) for status, text in _CAUSES.items()]
    of_grpc = _OF_GRPC.format(of_grpc=table(("status", "cause and remedy"), rows))
    return page("Errors", _INTRODUCTION, _reasons(), of_grpc, _PYTHON, _exceptions(), _GO)


def _reasons() -> str:
    rows = []
    for name, comment in _comments():
        match = _CODE.match(comment)
        if match is not None:
            status, meaning = match.groups()
            kind = type(_raised(status, name)).__name__
            rows.append((code(name), code(status), code(kind), sentence(meaning)))
    return table(("reason", "status", "Python", "meaning"), sorted(rows))


def _comments() -> Iterator[tuple[str, str]]:
    """Return the reasons and their comments."""
    (file,) = (each for each in contract() if each.name.endswith("/errors.proto"))
    for location in file.source_code_info.location:
        match list(location.path):
            case [5, 0, 2, number]:
                value = file.enum_type[0].value[number]
                yield value.name.removeprefix(_PREFIX), " ".join(location.leading_comments.split())


def _raised(status: str, reason: str) -> QueuegateError:
    packed = AnyMessage()
    packed.Pack(ErrorInfo(domain="queuegate", reason=reason))
    number: int = grpc.StatusCode[status].value[0]
    return from_item(Status(code=number, message="", details=[packed]))


def _exceptions() -> str:
    rows = []
    for name in exceptions.__all__:
        kind = getattr(exceptions, name)
        if issubclass(kind, QueuegateError):
            parent = kind.__bases__[0]
            is_root = QueuegateError in {kind, parent}
            doc = (inspect.getdoc(kind) or "").partition("\n\n")[0]
            rows.append((code(name), "" if is_root else code(parent.__name__), sentence(doc)))
    return table(("exception", "is a", "meaning"), rows)
