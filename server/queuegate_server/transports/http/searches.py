"""The search endpoints: which queues, which users, which actions."""

from collections.abc import Callable, Generator, Sequence
from typing import Any, Final, TypeAlias

from google.protobuf.message import Message

from queuegate.v1 import access_pb2
from queuegate_server.transports.http import answers, vocabulary
from queuegate_server.transports.http.pages import RequestedPage, requested_page
from queuegate_server.transports.http.strict_json import Json, optional, required

Build: TypeAlias = Callable[[Sequence[bytes]], Json]
"""Returns the response, given the responses of the handler to each of the search's calls."""

EXPLAIN: Final = "ExplainQueueAccess"
"""The method that answers a search of actions, once for each."""
NO_ACTION: Final = b""
"""The response about an action that the queue does not have, although it has an earlier one: there
is no `admin` in Kubernetes' RBAC. It is a denial."""


class Search:
    """A search."""

    def __init__(self, method: str, requests: Sequence[Message], build: Build) -> None:
        """There are no requests if nothing can match."""
        self.calls = [(method, each.SerializeToString()) for each in requests]
        """Each call's method and request."""
        self._build = build

    def answer(self, responses: Sequence[bytes]) -> Generator[None, None, bytes]:
        """Return the JSON for the handler's responses."""
        yield
        return answers.encode(self._build(responses))


def resources(words: vocabulary.Vocabulary, members: Json) -> Search:
    """Search the queues on which a user may perform an action. Raises Malformed."""
    page, user, resource = _entities("ListQueues", members)
    access = words.access(required(required(members, "action", dict), "action.name", str))
    kind = words.queue_type(resource)
    if kind is None or user is None:
        return _nothing(page)
    call = access_pb2.ListQueuesRequest(
        **user,
        partition=vocabulary.partition_of(resource),
        access=access,
        prefix=kind.above,
        page_size=page.limit,
        page_token=page.after,
    )

    def build(responses: Sequence[bytes]) -> Json:
        found = access_pb2.ListQueuesResponse.FromString(responses[0])
        names = filter(None, map(kind.identifier, found.queues))
        results = [{"type": kind.name, "id": name} for name in names]
        return _document(page, found.next_page_token, found.policy_revision, results)

    return Search("ListQueues", [call], build)


def subjects(words: vocabulary.Vocabulary, members: Json) -> Search:
    """Search the users who may perform an action on a queue. Raises Malformed."""
    page = requested_page("ListUsers", members)
    subject = required(members, "subject", dict)
    resource = required(members, "resource", dict)
    access = words.access(required(required(members, "action", dict), "action.name", str))
    kind = words.queue_type(resource)
    identifier = required(resource, "resource.id", str)
    is_user = required(subject, "subject.type", str) == vocabulary.USER
    if kind is None or not is_user:
        return _nothing(page)
    call = access_pb2.ListUsersRequest(
        partition=vocabulary.partition_of(resource),
        queue=kind.path(identifier),
        access=access,
        page_size=page.limit,
        page_token=page.after,
    )

    def build(responses: Sequence[bytes]) -> Json:
        found = access_pb2.ListUsersResponse.FromString(responses[0])
        results = [
            {"type": vocabulary.USER, "id": each.user} for each in found.users if each.confirmed
        ]
        document = _document(page, found.next_page_token, found.policy_revision, results)
        document["context"] |= {
            "everyone": found.everyone,
            "complete": found.complete,
            "incomplete": [*found.incomplete],
            "unconfirmed": [
                {"id": each.user, "message": each.detail}
                for each in found.users
                if not each.confirmed
            ],
            "groups_may_be_asserted": found.groups_may_be_asserted,
        }
        return document

    return Search("ListUsers", [call], build)


def actions(words: vocabulary.Vocabulary, members: Json) -> Search:
    """Search the actions that a user may perform on a queue. Raises Malformed."""
    page, user, resource = _entities(EXPLAIN, members)
    kind = words.queue_type(resource)
    identifier = required(resource, "resource.id", str)
    if kind is None or user is None:
        return _nothing(page)
    calls = [
        access_pb2.ExplainQueueAccessRequest(
            **user,
            partition=vocabulary.partition_of(resource),
            queue=kind.path(identifier),
            access=access,
        )
        for access in words.action_names
    ]

    def build(responses: Sequence[bytes]) -> Json:
        found = [
            access_pb2.ExplainQueueAccessResponse.FromString(each).decision for each in responses
        ]
        allowed = [
            name
            for names, decision in zip(words.action_names.values(), found, strict=True)
            if decision.allowed
            for name in names
        ]
        start = allowed.index(page.after) + 1 if page.after in allowed else 0
        names = allowed[start : start + page.limit] if page.limit else allowed[start:]
        after = names[-1] if names and names[-1] != allowed[-1] else ""
        return _document(page, after, found[0].policy_revision, [{"name": name} for name in names])

    return Search(EXPLAIN, calls, build)


def _entities(method: str, members: Json) -> tuple[RequestedPage, vocabulary.User | None, Json]:
    """Return the page, the subject unless it is of an unknown type, and the resource."""
    page = requested_page(method, members)
    subject = required(members, "subject", dict)
    resource = required(members, "resource", dict)
    optional(members, "context", dict)
    required(subject, "subject.id", str)
    if required(subject, "subject.type", str) != vocabulary.USER:
        return page, None, resource
    return page, vocabulary.user_of(subject), resource


def _nothing(page: RequestedPage) -> Search:
    """Return a search of a type that nothing has, which finds nothing without a call."""
    return Search("", [], lambda _: {"page": page.document("", 0), "results": []})


def _document(page: RequestedPage, next_token: str, revision: int, results: list[Any]) -> Json:
    return {
        "page": page.document(next_token, len(results)),
        "context": {"policy_revision": revision},
        "results": results,
    }
