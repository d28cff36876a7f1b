"""Expected answers to questions about YARN clusters: a model of the server, built on the oracle
evaluators.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from google.protobuf.message import DecodeError

from queuegate.v1 import access_pb2
from queuegate.v1.user_group_information_pb2 import UserGroupInformation
from tests.support.generators.yarn import RandomCluster
from tests.support.oracles.applications import YarnApplication, application_allowed, spark_allowed
from tests.support.oracles.requests import (
    DENIED,
    GRANTED,
    INVALID,
    UNAVAILABLE,
    UNKNOWN_PARTITION,
    is_name,
)
from tests.support.oracles.yarn import allowed

_ACTIONS: Final = {1: "view", 2: "view_logs", 3: "modify", 4: "move", 5: "admin"}


@dataclass(frozen=True)
class YarnRequestOracle:
    """All partitions, by name. They have no resolver, so users have only the given groups."""

    clusters: Mapping[str, RandomCluster]

    def expected_of_queue(self, data: bytes) -> str:
        """Return the expected answer to the bytes of a question about a queue."""
        try:
            request = access_pb2.CheckQueueAccessRequest.FromString(data)
        except DecodeError:
            return INVALID
        # A random cursor belongs to another server.
        return UNAVAILABLE if request.HasField("at_least") else self._answer(request)

    def _answer(self, request: access_pb2.CheckQueueAccessRequest) -> str:
        partition = self._partition(request.partition)
        if partition is None:
            return _without_partition(request.partition)
        valid = _is_asked_well(request) and request.access in {1, 2}
        if not valid or not _is_path(request.queue):
            return INVALID
        cluster = partition.cluster
        path = partition.path(request.queue)
        granted = allowed(
            cluster.queues,
            path,
            "submit" if request.access == 1 else "admin",
            request.user.user,
            _groups(request.user),
            semantics=cluster.semantics,
            # A name shared by several queues refers to none, and nobody administers it.
            admins=cluster.admins if path else " ",
            real_user=request.real_user,
        )
        return GRANTED if granted else DENIED

    def expected_of_application(self, data: bytes) -> str:
        """Return the expected answer to the bytes of a question about an application."""
        try:
            request = access_pb2.CheckApplicationAccessRequest.FromString(data)
        except DecodeError:
            return INVALID
        action = _ACTIONS.get(request.action)
        subject = request.WhichOneof("subject")
        partition = self._partition(request.partition)
        if partition is None:
            return _without_partition(request.partition)
        if (
            action is None
            or subject is None
            or not _is_asked_well(request)
            or (action == "move") != (request.target_queue != "")
        ):
            return INVALID
        if subject == "spark":
            return self._of_spark(request, action, partition)
        return self._of_yarn(request, action, partition)

    def expected_of_explanation(self, data: bytes) -> str:
        """Return the expected answer to the bytes of a request to explain such a question."""
        try:
            request = access_pb2.ExplainApplicationAccessRequest.FromString(data)
        except DecodeError:  # one level more than the question may be one too many
            return INVALID
        return self.expected_of_application(request.check.SerializeToString())

    @staticmethod
    def _of_yarn(
        request: access_pb2.CheckApplicationAccessRequest,
        action: str,
        cluster: RandomCluster,
    ) -> str:
        app = request.application
        paths = [app.queue, *([request.target_queue] if action == "move" else [])]
        paths_are_valid = all(_is_path(path) for path in paths)
        if action == "admin" or not is_name(app.owner) or not paths_are_valid:
            return INVALID
        granted = application_allowed(
            cluster.cluster,
            YarnApplication(cluster.path(app.queue), app.owner, app.view_acl, app.modify_acl),
            action,
            request.user.user,
            _groups(request.user),
            target=cluster.path(request.target_queue) if action == "move" else "",
            real_user=request.real_user,
        )
        return GRANTED if granted else DENIED

    @staticmethod
    def _of_spark(
        request: access_pb2.CheckApplicationAccessRequest,
        action: str,
        cluster: RandomCluster,
    ) -> str:
        if action == "move":
            return INVALID
        granted = spark_allowed(
            dict(request.spark.properties),
            action,
            request.user.user,
            _groups(request.user),
            spark_user=request.spark.spark_user,
            process_user=request.spark.process_user,
        )
        return INVALID if granted is None else GRANTED if granted else DENIED

    def _partition(self, text: str) -> RandomCluster | None:
        if text in self.clusters:
            return self.clusters[text]
        if text.startswith("[") and "]" in text:
            return self.clusters.get(text[text.index("]") + 1 :])
        return self.clusters.get(text or "default")


def _without_partition(name: str) -> str:
    return UNKNOWN_PARTITION if name == "" or is_name(name) else INVALID


def _groups(user: UserGroupInformation) -> list[str]:
    return [*user.groups]


def _is_asked_well(
    request: access_pb2.CheckQueueAccessRequest | access_pb2.CheckApplicationAccessRequest,
) -> bool:
    user, groups = request.user.user, request.user.groups
    return (
        is_name(user)
        and all(map(is_name, groups))
        and (request.real_user == "" or is_name(request.real_user))
    )


def _is_path(text: str) -> bool:
    one_line = text.replace(".", "").replace(" ", "_")
    return (
        len(text.encode()) <= 4096
        and all(text.split("."))
        and (one_line == "" or all(is_name(character) for character in one_line))
    )
