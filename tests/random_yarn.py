"""Random clusters of YARN, random questions about their queues and applications, and what must
come of each: a model beside the server, on the naive evaluators.
"""

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeVar, cast
from xml.sax.saxutils import escape, quoteattr

from google.protobuf.message import DecodeError

from queuegate.v1 import access_pb2
from queuegate.v1.user_group_information_pb2 import UserGroupInformation
from tests.naive_applications import NaiveApp, NaiveCluster, may, spark_may
from tests.naive_yarn import allowed
from tests.random_requests import (
    DENIED,
    GRANTED,
    INVALID,
    UNKNOWN_PARTITION,
    is_name,
)

_One = TypeVar("_One")

_NAMES: Final = ["a", "b", "A", "q-1", "é", "x y", "root", "prod"]
_USERS: Final = ["bob", "eve", "carol", "knox", "*", "~knox", "d d", "é"]
_ODD_USERS: Final = ["", "a\nb", "x" * 1_025, "\0"]
_GROUPS: Final = ["g", "ops", "g ops", "*", "bob"]
_ACLS: Final = [
    *[" ", " ", "bob", " g", "eve,carol ops", "~knox", "bob,~carol g", "*", " *", "bob *"],
    *["u g ops", "bob g, ops", "\n bob", "*,bob", "carol  g", "d d", " g ops", "bob\t", "é"],
]
_LISTS: Final = ["", " ", "bob", "eve , carol", "*", "g", "bob eve", ",,", "bob,*"]
_ACTIONS: Final = {1: "view", 2: "view logs", 3: "modify", 4: "move", 5: "admin"}
_ODD_QUEUES: Final = ["", ".", "root.", "a..b", "root.\n", "q" * 4097, "nosuch", "a.b.c", "ROOT"]


@dataclass(frozen=True)
class RandomCluster:
    """Random queues with random ACLs."""

    format_name: str
    cluster: NaiveCluster

    def path(self, text: str) -> str:
        """Return the full path of a queue; empty if its name is that of several."""
        queues = self.cluster.queues
        if self.format_name == "capacity-scheduler" and "." not in text and text != "root":
            found = [path for path in queues if path.endswith(f".{text}")]
            if found:
                return found[0] if len(found) == 1 else ""
        return text if text == "root" or text.startswith("root.") else f"root.{text}"

    def xml(self) -> str:
        """Return the file of the scheduler."""
        queues = self.cluster.queues
        if self.format_name == "fair-scheduler":
            return f"<allocations>{_fair('root', queues)}</allocations>"
        properties = {}
        for path, (submit, admin) in queues.items():
            key = f"yarn.scheduler.capacity.{path}."
            properties[f"{key}acl_submit_applications"] = submit
            properties[f"{key}acl_administer_queue"] = admin
            below = [_name(other) for other in queues if _above(other) == path]
            if below:
                properties[f"{key}queues"] = ", ".join(below)
        return configuration(properties)

    def site(self) -> str:
        """Return the cluster's yarn-site.xml."""
        return configuration({"yarn.acl.enable": "true", "yarn.admin.acl": self.cluster.admins})


def configuration(properties: Mapping[str, str]) -> str:
    """Return properties as Hadoop's XML."""
    text = "".join(
        f"<property><name>{escape(name)}</name><value>{escape(value)}</value></property>"
        for name, value in properties.items()
    )
    return f"<configuration>{text}</configuration>"


def random_cluster(chance: random.Random, format_name: str, semantics: str) -> RandomCluster:
    """Return a cluster of up to 60 queues."""
    queues = {"root": (chance.choice(_ACLS[:6]), chance.choice(_ACLS[:6]))}
    while len(queues) < 60:
        path = f"{chance.choice([*queues])}.{chance.choice(_NAMES)}"
        if path.count(".") < 7:
            queues[path] = (chance.choice(_ACLS), chance.choice(_ACLS))
    admins = chance.choice([" ", " ", "eve", " ops", "~carol"])
    return RandomCluster(format_name, NaiveCluster(queues, semantics, admins))


def _fair(path: str, queues: Mapping[str, tuple[str, str]]) -> str:
    submit, admin = queues[path]
    below = "".join(_fair(other, queues) for other in queues if _above(other) == path)
    return (
        f"<queue name={quoteattr(_name(path))}><aclSubmitApps>{submit}</aclSubmitApps>"
        f"<aclAdministerApps>{admin}</aclAdministerApps>{below}</queue>"
    )


def _above(path: str) -> str:
    return path.rpartition(".")[0]


def _name(path: str) -> str:
    return path.rpartition(".")[2]


@dataclass(frozen=True)
class YarnModel:
    """All partitions, by name. A user is in the group of her name unless groups are given."""

    clusters: Mapping[str, RandomCluster]

    def expected_of_queue(self, data: bytes) -> str:
        """Say what must come of the bytes of a question about a queue."""
        try:
            request = access_pb2.CheckQueueAccessRequest.FromString(data)
        except DecodeError:
            return INVALID
        found = self._partition(request.partition)
        if found is None:
            return _without_partition(request.partition)
        valid = _is_asked_well(request) and request.access in {1, 2}
        if not valid or not _is_path(request.queue):
            return INVALID
        cluster = found.cluster
        path = found.path(request.queue)
        granted = allowed(
            cluster.queues,
            path,
            "submit" if request.access == 1 else "admin",
            request.user.user,
            _groups(request.user),
            semantics=cluster.semantics,
            # A name of several queues is that of none, and nobody administers it.
            admins=cluster.admins if path else " ",
            real_user=request.real_user,
        )
        return GRANTED if granted else DENIED

    def expected_of_application(self, data: bytes) -> str:
        """Say what must come of the bytes of a question about an application."""
        try:
            request = access_pb2.CheckApplicationAccessRequest.FromString(data)
        except DecodeError:
            return INVALID
        action = _ACTIONS.get(request.action)
        subject = request.WhichOneof("subject")
        found = self._partition(request.partition)
        if found is None:
            return _without_partition(request.partition)
        if (
            action is None
            or subject is None
            or not _is_asked_well(request)
            or (action == "move") != (request.target_queue != "")
        ):
            return INVALID
        if subject == "spark":
            return self._of_spark(request, action, found)
        return self._of_yarn(request, action, found)

    def expected_of_explanation(self, data: bytes) -> str:
        """Say what must come of the bytes of such a question that is to be explained."""
        try:
            request = access_pb2.ExplainApplicationAccessRequest.FromString(data)
        except DecodeError:  # one level more than the question may be one too many
            return INVALID
        return self.expected_of_application(request.check.SerializeToString())

    @staticmethod
    def _of_yarn(
        request: access_pb2.CheckApplicationAccessRequest,
        action: str,
        found: RandomCluster,
    ) -> str:
        app = request.application
        paths = [app.queue, *([request.target_queue] if action == "move" else [])]
        paths_are_valid = all(_is_path(path) for path in paths)
        if action == "admin" or not is_name(app.owner) or not paths_are_valid:
            return INVALID
        granted = may(
            found.cluster,
            NaiveApp(found.path(app.queue), app.owner, app.view_acl, app.modify_acl),
            action,
            request.user.user,
            _groups(request.user),
            target=found.path(request.target_queue) if action == "move" else "",
            real_user=request.real_user,
        )
        return GRANTED if granted else DENIED

    @staticmethod
    def _of_spark(
        request: access_pb2.CheckApplicationAccessRequest,
        action: str,
        found: RandomCluster,
    ) -> str:
        if action == "move":
            return INVALID
        granted = spark_may(
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
            text = text[text.index("]") + 1 :]
        return self.clusters.get(text or "default")


def _without_partition(name: str) -> str:
    return UNKNOWN_PARTITION if name == "" or is_name(name) else INVALID


def _groups(user: UserGroupInformation) -> list[str]:
    return [*user.groups] or [user.user]


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


class YarnRequests:
    """Makes random questions; one seed makes the same ones again."""

    def __init__(self, chance: random.Random, model: YarnModel) -> None:
        self._chance = chance
        self._partitions = [*model.clusters]
        self._paths = {name: [*found.cluster.queues] for name, found in model.clusters.items()}

    def about_queue(self) -> bytes:
        """Return a question about a queue, most of them valid."""
        partition = self._partition()
        return access_pb2.CheckQueueAccessRequest(
            user=self._user(),
            partition=partition,
            queue=self._queue(partition),
            access=cast("access_pb2.AccessType.ValueType", self._mostly([1, 2], [0, 3, -1])),
            real_user=self._real_user(),
        ).SerializeToString()

    def about_application(self) -> bytes:
        """Return a question about an application of YARN or of Spark, most of them valid."""
        chance = self._chance
        partition = self._partition()
        action = cast(
            "access_pb2.ApplicationAction.ValueType", self._mostly([1, 2, 3, 3, 4, 4, 5], [0, 6])
        )
        request = access_pb2.CheckApplicationAccessRequest(
            user=self._user(), partition=partition, action=action, real_user=self._real_user()
        )
        if chance.random() < (0.05 if action != 4 else 0.98):
            request.target_queue = self._queue(partition)
        if chance.random() < (0.3 if action != 5 else 0.9):
            request.spark.spark_user = chance.choice(["", "bob"])
            request.spark.process_user = chance.choice(["", "eve"])
            request.spark.properties.update(self._properties())
        elif chance.random() < 0.98:
            request.application.queue = self._queue(partition)
            request.application.owner = self._mostly(["bob", "olga"], _ODD_USERS)
            request.application.view_acl = chance.choice(["", *_ACLS])
            request.application.modify_acl = chance.choice(["", *_ACLS])
        return request.SerializeToString()

    def _properties(self) -> dict[str, str]:
        chance = self._chance
        switch = self._mostly(["true", "true", " True", "false"], ["", "1"])
        lists = {
            f"spark.{kind}.acls{groups}": chance.choice(_LISTS)
            for kind in ("admin", "ui.view", "modify")
            for groups in ("", ".groups")
            if chance.random() < 0.4
        }
        return {"spark.acls.enable": switch, **lists}

    def _user(self) -> UserGroupInformation:
        chance = self._chance
        groups = [self._mostly(_GROUPS, _ODD_USERS) for _ in range(chance.choice([0, 0, 1, 2]))]
        return UserGroupInformation(user=self._mostly(_USERS, _ODD_USERS), groups=groups)

    def _real_user(self) -> str:
        return self._mostly(["", "", "knox", "carol", "bob"], ["a\nb", "x" * 1_025])

    def _partition(self) -> str:
        return self._mostly(self._partitions, ["", "nowhere", "[rm]default", "\0"])

    def _queue(self, partition: str) -> str:
        chance = self._chance
        path = self._mostly(self._paths.get(partition, ["root.a"]), _ODD_QUEUES)
        form = chance.random()
        if form < 0.2:
            return path.removeprefix("root.")
        if form < 0.4:
            return _name(path)
        return f"{path}.new" if form < 0.5 else path

    def _mostly(self, usual: Sequence[_One], odd: Sequence[_One]) -> _One:
        return self._chance.choice(odd if self._chance.random() < 0.03 else usual)
