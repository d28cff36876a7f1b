"""Converts messages of the contract to the JSON of decisions."""

import json
from typing import Any, Final

from queuegate import _responses as responses
from queuegate._applications import Application, ApplicationCheck, SparkApplication
from queuegate._types import Check, Decision
from queuegate.cli import render
from queuegate.cli.terminal import Colors
from queuegate.policy.applications import Action
from queuegate.v1 import access_pb2
from queuegate_server.transports.http import vocabulary
from queuegate_server.transports.http.failures import HttpFailure

_JSON: Final = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))
_PLAIN: Final = Colors(on=False)
_ACTIONS: Final = {number: name for name, number in vocabulary.ACTIONS.items()}


def encode(value: Any) -> bytes:
    """Return JSON text."""
    return _JSON.encode(value).encode()


def decision(
    asked: vocabulary.Check | vocabulary.ApplicationCheck,
    answered: access_pb2.CheckQueueAccessResponse | access_pb2.CheckApplicationAccessResponse,
) -> bytes:
    """Return the JSON of a decision, with the sentence that the command line prints."""
    found = responses.decision(answered)
    context: dict[str, Any] = {"reason": str(found.reason), "message": _sentence(asked, found)}
    if found.matched_queue:
        context["queue"] = found.matched_queue
    context["policy_revision"] = found.policy_revision
    return encode({"decision": found.allowed, "context": context})


def failed(failure: HttpFailure) -> bytes:
    """Return the JSON of an evaluation without a decision, which the standard writes as a denial.

    Section 7.2.1 of the Authorization API 1.0.
    """
    error = {"status": failure.status, "message": failure.message}
    return encode({"decision": False, "context": {"error": error}})


def _sentence(asked: vocabulary.Check | vocabulary.ApplicationCheck, found: Decision) -> str:
    user, partition = asked.user.user, asked.partition
    if isinstance(asked, vocabulary.Check):
        check = Check(user, asked.queue, partition, responses.ACCESSES[asked.access])
        return render.decision_text(check, found, _PLAIN).replace("\n", "; ")
    application: Application | SparkApplication = SparkApplication()
    if asked.WhichOneof("subject") == "application":
        application = Application(asked.application.queue, asked.application.owner)
    stated = ApplicationCheck(user, Action(_ACTIONS[asked.action]), application, partition)
    return render.application_decision_text(stated, found, _PLAIN)
