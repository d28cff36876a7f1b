"""The evaluation endpoints: one decision, or many."""

from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple, TypeAlias

from queuegate.v1 import access_pb2
from queuegate_server.runtime.pacing import Pace
from queuegate_server.transports.http import answers, vocabulary
from queuegate_server.transports.http.failures import HttpFailure, failure_of_status
from queuegate_server.transports.http.strict_json import (
    Json,
    Malformed,
    optional,
    read_object,
)

EXECUTE_ALL: Final = "execute_all"
_STOPPED_BY: Final = {
    EXECUTE_ALL: None,
    "deny_on_first_deny": False,
    "permit_on_first_permit": True,
}
"""The decision after which no more is sent, by the values of `options.evaluations_semantic`."""
_MESSAGES: Final[Mapping[str, tuple[Any, Any]]] = {
    "CheckQueueAccess": (vocabulary.Check, access_pb2.CheckQueueAccessResponse),
    "CheckApplicationAccess": (
        vocabulary.ApplicationCheck,
        access_pb2.CheckApplicationAccessResponse,
    ),
}
"""The request and the response of each method."""
_DEFAULTS: Final = ("subject", "action", "resource", "context")

_Checks: TypeAlias = list[tuple[int, vocabulary.Check | vocabulary.ApplicationCheck]]
"""Checks with their positions in the request."""


class SingleEvaluation(NamedTuple):
    """A single evaluation, as a call of the contract."""

    method: str
    data: bytes

    def answer(self, data: bytes) -> bytes:
        """Return the JSON for the handler's response."""
        asked, answered = _MESSAGES[self.method]
        return answers.decision(asked.FromString(self.data), answered.FromString(data))


class Batch(NamedTuple):
    """Several evaluations: the calls of the contract, and what cannot be asked."""

    size: int
    stopped_by: bool | None
    queues: _Checks
    applications: _Checks
    failures: dict[int, HttpFailure]

    def calls(self) -> Iterator[tuple[str, _Checks, bytes]]:
        """Yield each call's method, checks and request."""
        for method, checks, kind in (
            ("BatchCheckQueueAccess", self.queues, access_pb2.BatchCheckQueueAccessRequest),
            (
                "BatchCheckApplicationAccess",
                self.applications,
                access_pb2.BatchCheckApplicationAccessRequest,
            ),
        ):
            if checks:
                request = kind(checks=[check for _, check in checks])  # type: ignore[misc] # its own
                yield method, checks, request.SerializeToString()

    async def answer(self, responses: list[tuple[_Checks, bytes]]) -> bytes:
        """Return the JSON for the responses to `calls`, in steps."""
        results: list[tuple[bool, bytes]] = [(False, b"")] * self.size
        for index, failure in self.failures.items():
            results[index] = False, answers.failed(failure)
        pace = Pace()
        for checks, data in responses:
            for (index, check), result in zip(checks, _results(data), strict=True):
                if result.HasField("decision"):
                    text = answers.decision(check, result.decision)
                    results[index] = result.decision.allowed, text
                else:
                    results[index] = False, answers.failed(failure_of_status(result.error))
                await pace.pause_if_due()
        end = self.size
        decisions = [allowed for allowed, _ in results]
        if self.stopped_by is not None and self.stopped_by in decisions:
            end = decisions.index(self.stopped_by) + 1
        return b'{"evaluations":[%s]}' % b",".join(text for _, text in results[:end])


def _results(data: bytes) -> list[access_pb2.CheckResult]:
    """Return the results in a response, each with its own decision or error."""
    # The response about applications has the same fields.
    results = access_pb2.BatchCheckQueueAccessResponse.FromString(data).results
    return [
        results[each.same_error_as] if each.WhichOneof("outcome") == "same_error_as" else each
        for each in results
    ]


def read_question(words: vocabulary.Vocabulary, body: bytes) -> SingleEvaluation:
    """Return the evaluation in a body. Raises Malformed."""
    return _question(words, read_object(body))


def read_evaluations(words: vocabulary.Vocabulary, body: bytes) -> SingleEvaluation | Batch:
    """Return the evaluations in a body, or the single one if it lists none. Raises Malformed."""
    members = read_object(body)
    listed = optional(members, "evaluations", list)
    options = optional(members, "options", dict) or {}
    semantic = optional(options, "options.evaluations_semantic", str) or EXECUTE_ALL
    if semantic not in _STOPPED_BY:
        names = ", ".join(_STOPPED_BY)
        raise Malformed(f"options.evaluations_semantic: must be one of {names}")
    if not listed:
        return _question(words, members)
    defaults = {name: optional(members, name, dict) for name in _DEFAULTS}
    batch = Batch(len(listed), _STOPPED_BY[semantic], [], [], {})
    for index, item in enumerate(listed):
        if not isinstance(item, dict):
            raise Malformed(f"evaluations[{index}]: must be an object")
        try:
            check = words.check(defaults | item)
        except Malformed as error:
            batch.failures[index] = HttpFailure(400, str(error))
            continue
        is_queue = isinstance(check, vocabulary.Check)
        (batch.queues if is_queue else batch.applications).append((index, check))
    return batch


def _question(words: vocabulary.Vocabulary, members: Json) -> SingleEvaluation:
    check = words.check(members)
    is_queue = isinstance(check, vocabulary.Check)
    method = "CheckQueueAccess" if is_queue else "CheckApplicationAccess"
    return SingleEvaluation(method, check.SerializeToString())
