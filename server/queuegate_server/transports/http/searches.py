"""The search endpoints: which queues, which users, which actions."""

from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

from google.protobuf.message import Message

from queuegate.v1 import access_pb2
from queuegate_server.transports.http import vocabulary
from queuegate_server.transports.http.pages import RequestedPage, requested_page
from queuegate_server.transports.http.strict_json import Json, optional, required

Build: TypeAlias = Callable[[list[bytes]], Json]
"""Returns the response, given the responses of the handler to each of the search's calls."""


class Search(NamedTuple):
    """The calls that answer a search. There are none if nothing can match."""

    method: str
    calls: Sequence[Message]
    build: Build


def resources(words: vocabulary.Vocabulary, path: str, members: Json) -> Search:
    """Search the queues on which a user may perform an action. Raises Malformed."""
    page, subject, resource = _entities(path, members)
    access = words.access(required(required(members, "action", dict), "action.name", str))
    kind = words.queue_type(resource)
    if kind is None or subject is None:
        return _nothing(path, page)
    user, real_user = subject
    call = access_pb2.ListQueuesRequest(
        user=user,
        partition=vocabulary.partition_of(resource),
        access=access,
        prefix=kind.above,
        page_size=page.limit,
        page_token=page.after,
        real_user=real_user,
    )

    def build(answers: list[bytes]) -> Json:
        found = access_pb2.ListQueuesResponse.FromString(answers[0])
        names = filter(None, map(kind.identifier, found.queues))
        results = [{"type": kind.name, "id": name} for name in names]
        return _document(page, found.next_page_token, found.policy_revision, results)

    return Search(METHODS[path], [call], build)


def subjects(words: vocabulary.Vocabulary, path: str, members: Json) -> Search:
    """Search the users who may perform an action on a queue. Raises Malformed."""
    page = requested_page(path, members)
    subject = required(members, "subject", dict)
    resource = required(members, "resource", dict)
    access = words.access(required(required(members, "action", dict), "action.name", str))
    kind = words.queue_type(resource)
    identifier = required(resource, "resource.id", str)
    is_user = required(subject, "subject.type", str) == vocabulary.USER
    if kind is None or not is_user:
        return _nothing(path, page)
    call = access_pb2.ListUsersRequest(
        partition=vocabulary.partition_of(resource),
        queue=kind.path(identifier),
        access=access,
        page_size=page.limit,
        page_token=page.after,
    )

    def build(answers: list[bytes]) -> Json:
        found = access_pb2.ListUsersResponse.FromString(answers[0])
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

    return Search(METHODS[path], [call], build)


def actions(words: vocabulary.Vocabulary, path: str, members: Json) -> Search:
    """Search the actions that a user may perform on a queue. Raises Malformed."""
    page, subject, resource = _entities(path, members)
    kind = words.queue_type(resource)
    identifier = required(resource, "resource.id", str)
    if kind is None or subject is None:
        return _nothing(path, page)
    user, real_user = subject
    calls = [
        access_pb2.ExplainQueueAccessRequest(
            user=user,
            partition=vocabulary.partition_of(resource),
            queue=kind.path(identifier),
            access=access,
            real_user=real_user,
        )
        for access in words.action_names
    ]

    def build(answers: list[bytes]) -> Json:
        found = [
            access_pb2.ExplainQueueAccessResponse.FromString(each).decision for each in answers
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

    return Search(METHODS[path], calls, build)


SEARCHES: Final = {
    "/access/v1/search/resource": resources,
    "/access/v1/search/subject": subjects,
    "/access/v1/search/action": actions,
}
METHODS: Final = {
    "/access/v1/search/resource": "ListQueues",
    "/access/v1/search/subject": "ListUsers",
    "/access/v1/search/action": "ExplainQueueAccess",
}
"""The method that answers the calls of each search."""


def _entities(path: str, members: Json) -> tuple[RequestedPage, vocabulary.User | None, Json]:
    """Return the page, the subject unless it is of an unknown type, and the resource."""
    page = requested_page(path, members)
    subject = required(members, "subject", dict)
    resource = required(members, "resource", dict)
    optional(members, "context", dict)
    required(subject, "subject.id", str)
    if required(subject, "subject.type", str) != vocabulary.USER:
        return page, None, resource
    return page, vocabulary.user_of(subject), resource


def _nothing(path: str, page: RequestedPage) -> Search:
    """Return a search of a type that nothing has, which finds nothing without a call."""
    return Search(METHODS[path], [], lambda _: {"page": page.document("", 0), "results": []})


def _document(page: RequestedPage, next_token: str, revision: int, results: list[Any]) -> Json:
    return {
        "page": page.document(next_token, len(results)),
        "context": {"policy_revision": revision},
        "results": results,
    }
