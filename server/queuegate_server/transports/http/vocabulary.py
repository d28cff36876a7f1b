"""Converts the entities of a request, such as its subject, to messages of the contract."""

import base64
from collections.abc import Mapping
from typing import Any, Final, NamedTuple, TypeAlias

from google.protobuf import json_format

from queuegate.policy.applications import Action
from queuegate.policy.decision import Access
from queuegate.v1 import access_pb2, cursor_pb2
from queuegate.v1.user_group_information_pb2 import UserGroupInformation
from queuegate_server.settings.http import APPLICATION, QUEUE, Http
from queuegate_server.transports.http.strict_json import (
    Json,
    Malformed,
    optional,
    required,
    texts,
)

Check: TypeAlias = access_pb2.CheckQueueAccessRequest
ApplicationCheck: TypeAlias = access_pb2.CheckApplicationAccessRequest

User: TypeAlias = dict[str, Any]
"""The fields `user` and `real_user` of requests."""

USER: Final = "user"
"""The only type of subjects."""
MEMBERS: Final[Mapping[str, str]] = {
    "user.user": "subject.id",
    "user.groups": "subject.properties.groups",
    "real_user": "subject.properties.real_user",
    "access": "action.name",
    "action": "action.name",
    "queue": "resource.id",
    "partition": "resource.properties.partition",
    "application": "resource.properties",
    "spark": "resource.properties.spark",
    "target_queue": "resource.properties.target_queue",
    "checks": "evaluations",
    "page_token": "page.token",
}
"""The members that become fields of the contract, by the fields' names in its errors."""
_ACCESSES: Final = {
    str(access): access_pb2.AccessType.Value(f"ACCESS_TYPE_{access.name}") for access in Access
}
ACTIONS: Final = {
    str(action): access_pb2.ApplicationAction.Value(f"APPLICATION_ACTION_{action.name}")
    for action in Action
}


class QueueType(NamedTuple):
    """A type of resources that are queues."""

    name: str
    above: str
    """The path of the queue above all of them, or an empty string if IDs are full paths."""

    def path(self, identifier: str) -> str:
        """Return the path of the queue with an ID."""
        return f"{self.above}.{identifier}" if self.above else identifier

    def identifier(self, path: str) -> str:
        """Return the ID of a queue, or an empty string for the queue above all of the type."""
        return path[len(self.above) + 1 :] if self.above else path


class Vocabulary:
    """The names of types and actions: those of the contract, and those of the settings."""

    def __init__(self, settings: Http) -> None:
        self._types = {
            name: QueueType(name, above) for name, above in ((QUEUE, ""), *settings.types.items())
        }
        own = settings.actions
        self._accesses = _ACCESSES | {name: _ACCESSES[access] for name, access in own.items()}
        self.action_names = {
            number: [each for each in own if own[each] == name] or [name]
            for name, number in _ACCESSES.items()
        }
        """The names of each kind of access to a queue: those of the settings, if there are any."""

    def check(self, members: Json) -> Check | ApplicationCheck:
        """Return the check that an evaluation asks for. Raises Malformed."""
        subject = required(members, "subject", dict)
        action = required(members, "action", dict)
        resource = required(members, "resource", dict)
        context = optional(members, "context", dict) or {}
        at_least = optional(context, "context.at_least", dict)
        name = required(action, "action.name", str)
        optional(action, "action.properties", dict)
        kind = required(resource, "resource.type", str)
        user = user_of(subject)
        if kind == APPLICATION:
            if at_least is not None:
                raise Malformed("context.at_least: is for queues only: omit it")
            return _application_check(user, name, resource)
        queue_type = self._types.get(kind)
        if queue_type is None:
            raise Malformed(
                f"resource.type: must be {QUEUE}, {APPLICATION} or a type in the setting http.types"
            )
        return Check(
            **user,
            partition=partition_of(resource),
            queue=queue_type.path(required(resource, "resource.id", str)),
            access=self.access(name),
            at_least=None if at_least is None else _cursor(at_least),
        )

    def queue_type(self, resource: Json) -> QueueType | None:
        """Return a resource's type, or None if it is unknown. Raises Malformed."""
        name = required(resource, "resource.type", str)
        if name == APPLICATION:
            raise Malformed(f"resource.type: a search must be for {QUEUE}, not {APPLICATION}")
        return self._types.get(name)

    def access(self, name: str) -> access_pb2.AccessType.ValueType:
        """Return the kind of access to a queue. Raises Malformed."""
        access = self._accesses.get(name)
        if access is None:
            raise Malformed(
                "action.name: must be submit, admin or an action in the setting http.actions"
            )
        return access


def user_of(subject: Json) -> User:
    """Return the user that a subject is, and the service that acts for it. Raises Malformed."""
    if required(subject, "subject.type", str) != USER:
        raise Malformed(f"subject.type: must be {USER}")
    properties = optional(subject, "subject.properties", dict) or {}
    groups = texts(properties, "subject.properties.groups")
    name = required(subject, "subject.id", str)
    return {
        "user": UserGroupInformation(user=name, groups=groups, no_groups=groups == []),
        "real_user": optional(properties, "subject.properties.real_user", str) or "",
    }


def partition_of(resource: Json) -> str:
    """Return the partition of a resource, or an empty string for the default. Raises Malformed."""
    properties = optional(resource, "resource.properties", dict) or {}
    return optional(properties, "resource.properties.partition", str) or ""


def _cursor(at_least: Json) -> cursor_pb2.Cursor:
    """Return a cursor in the JSON format of protobuf. Raises Malformed.

    Unlike there, an absent member is not zero, because each server has applied change 0.
    """
    path = "context.at_least"
    epoch = required(at_least, f"{path}.epoch", str)
    if at_least.get("sequence") is None:
        raise Malformed(f"{path}.sequence: is required")
    try:
        base64.b64decode(epoch, validate=True)  # ParseDict ignores characters outside of base64
        return json_format.ParseDict(at_least, cursor_pb2.Cursor(), ignore_unknown_fields=True)
    except (json_format.ParseError, ValueError):
        raise Malformed(
            f"{path}: must be a cursor, as returned by the call that made the change"
        ) from None


def _application_check(user: User, name: str, resource: Json) -> ApplicationCheck:
    """Return a check of an application, which its properties describe. Raises Malformed."""
    action = ACTIONS.get(name)
    if action is None:
        raise Malformed(f"action.name: must be one of {', '.join(ACTIONS)}")
    required(resource, "resource.id", str)
    path = "resource.properties"
    properties = required(resource, path, dict)
    check = ApplicationCheck(
        **user,
        partition=partition_of(resource),
        action=action,
        target_queue=optional(properties, f"{path}.target_queue", str) or "",
    )
    spark = optional(properties, f"{path}.spark", dict)
    if spark is None:
        stated = {
            field: optional(properties, f"{path}.{field}", str) or ""
            for field in ("queue", "owner", "view_acl", "modify_acl")
        }
        check.application.CopyFrom(access_pb2.Application(**stated))
        return check
    path += ".spark"
    values = optional(spark, f"{path}.properties", dict) or {}
    if not all(type(value) is str for value in values.values()):
        raise Malformed(f"{path}.properties: must be an object of strings")
    check.spark.CopyFrom(
        access_pb2.SparkApplication(
            properties=values,
            spark_user=optional(spark, f"{path}.spark_user", str) or "",
            process_user=optional(spark, f"{path}.process_user", str) or "",
        )
    )
    return check
