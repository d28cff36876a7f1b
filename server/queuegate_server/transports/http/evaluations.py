"""The evaluation endpoints: one decision, or many."""

from collections.abc import Generator, Iterator, Sequence
from typing import Any, Final, TypeAlias

from queuegate._requests import MAX_BATCH
from queuegate.v1 import access_pb2
from queuegate_server.transports.http import answers, vocabulary
from queuegate_server.transports.http.failures import HttpFailure, failure_of_status
from queuegate_server.transports.http.strict_json import Json, Malformed, optional

EXECUTE_ALL: Final = "execute_all"
_STOPPED_BY: Final = {
    EXECUTE_ALL: None,
    "deny_on_first_deny": False,
    "permit_on_first_permit": True,
}
"""The decision after which no more is sent, by the values of `options.evaluations_semantic`."""
_DEFAULTS: Final = ("subject", "action", "resource", "context")

_Check: TypeAlias = vocabulary.Check | vocabulary.ApplicationCheck
_BATCHES: Final[Sequence[Any]] = (
    access_pb2.BatchCheckQueueAccessRequest,
    access_pb2.BatchCheckApplicationAccessRequest,
)


class SingleEvaluation:
    """A single evaluation. It remembers its last answer."""

    def __init__(self, check: _Check) -> None:
        self.calls = ((_method(check), check.SerializeToString()),)
        """The only call's method and request."""
        self._check = check
        self._last: tuple[bytes, bytes] | None = None
        """A response of the handler, and its JSON."""

    def answer(self, responses: Sequence[bytes]) -> Generator[None, None, bytes]:
        """Return the JSON for the handler's response."""
        yield
        [response] = responses
        if self._last is None or self._last[0] != response:
            # The response about an application has the same fields.
            answered = access_pb2.CheckQueueAccessResponse.FromString(response)
            self._last = response, answers.decision(self._check, answered)
        return self._last[1]


class Batch:
    """Several evaluations."""

    def __init__(self, size: int, stopped_by: bool | None) -> None:  # noqa: FBT001 - a decision
        """`stopped_by` is the decision after which no more is sent."""
        self._size = size
        self._stopped_by = stopped_by
        self._requests = [(kind(), list[int]()) for kind in _BATCHES]
        """Requests about queues and about applications, with the positions of their checks."""
        self.calls: list[tuple[str, bytes]] = []
        """Each call's method and request, once all checks have been added."""
        self.failures: dict[int, HttpFailure] = {}
        """What cannot be asked, by position."""

    def add(self, index: int, check: _Check) -> None:
        """Add a check."""
        request, indexes = self._requests[isinstance(check, vocabulary.ApplicationCheck)]
        request.checks.append(check)
        indexes.append(index)

    def end(self) -> None:
        """Serialize the requests. It takes milliseconds, as adding the checks does."""
        self._requests = [each for each in self._requests if each[1]]
        self.calls = [(_method(each), each.SerializeToString()) for each, _ in self._requests]

    def answer(self, responses: Sequence[bytes]) -> Generator[None, None, bytes]:
        """Return the JSON for the responses to `calls`, in steps."""
        results: dict[int, tuple[bool, bytes]] = {}
        for index, failure in self.failures.items():
            results[index] = False, answers.failed(failure)
            yield
        for (request, indexes), data in zip(self._requests, responses, strict=True):
            for index, check, result in zip(indexes, request.checks, _results(data), strict=True):
                if result.HasField("decision"):
                    text = answers.decision(check, result.decision)
                    results[index] = result.decision.allowed, text
                else:
                    results[index] = False, answers.failed(failure_of_status(result.error))
                yield
        texts = []
        for index in range(self._size):
            allowed, text = results[index]
            texts.append(text)
            if allowed is self._stopped_by:
                break
        return b'{"evaluations":[%s]}' % b",".join(texts)


def _method(request: Any) -> str:
    """Return the method of a request."""
    return str(request.DESCRIPTOR.name).removesuffix("Request")


def _results(data: bytes) -> Iterator[access_pb2.CheckResult]:
    """Yield the results in a response, each with its own decision or error."""
    # The response about applications has the same fields.
    results = access_pb2.BatchCheckQueueAccessResponse.FromString(data).results
    for each in results:
        is_same = each.WhichOneof("outcome") == "same_error_as"
        yield results[each.same_error_as] if is_same else each


def read_one(words: vocabulary.Vocabulary, members: Json) -> SingleEvaluation:
    """Return the evaluation that a request asks for. Raises Malformed."""
    return SingleEvaluation(words.check(members))


def read_many(words: vocabulary.Vocabulary, members: Json) -> SingleEvaluation | Batch:
    """Return the evaluations in a request, or the single one if it lists none. Raises Malformed."""
    listed = optional(members, "evaluations", list)
    options = optional(members, "options", dict) or {}
    semantic = optional(options, "options.evaluations_semantic", str) or EXECUTE_ALL
    if semantic not in _STOPPED_BY:
        names = ", ".join(_STOPPED_BY)
        raise Malformed(f"options.evaluations_semantic: must be one of {names}")
    if not listed:
        return read_one(words, members)
    if len(listed) > MAX_BATCH:
        raise Malformed(f"evaluations: has more than {MAX_BATCH} items")
    defaults = {name: optional(members, name, dict) for name in _DEFAULTS}
    batch = Batch(len(listed), _STOPPED_BY[semantic])
    for index, item in enumerate(listed):
        if not isinstance(item, dict):
            raise Malformed(f"evaluations[{index}]: must be an object")
        try:
            batch.add(index, words.check(defaults | item))
        except Malformed as error:
            batch.failures[index] = HttpFailure(400, str(error))
    batch.end()
    return batch
