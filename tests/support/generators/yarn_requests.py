"""Random questions about YARN queues and applications, most of them valid."""

import random
from collections.abc import Sequence
from typing import Final, TypeVar, cast

from queuegate.v1 import access_pb2
from queuegate.v1.user_group_information_pb2 import UserGroupInformation
from tests.support.generators.yarn import ACLS, last_name
from tests.support.oracles.yarn_requests import YarnRequestOracle

_One = TypeVar("_One")


_USERS: Final = ["bob", "eve", "carol", "knox", "*", "~knox", "d d", "é"]


_ODD_USERS: Final = ["", "a\nb", "x" * 1_025, "\0"]


_GROUPS: Final = ["g", "ops", "g ops", "*", "bob"]


_LISTS: Final = ["", " ", "bob", "eve , carol", "*", "g", "bob eve", ",,", "bob,*"]


_ODD_QUEUES: Final = ["", ".", "root.", "a..b", "root.\n", "q" * 4097, "nosuch", "a.b.c", "ROOT"]


class YarnRequestGenerator:
    """Generates random questions. The same seed gives the same questions."""

    def __init__(self, rng: random.Random, model: YarnRequestOracle) -> None:
        self._rng = rng
        self._partitions = [*model.clusters]
        self._paths = {name: [*found.cluster.queues] for name, found in model.clusters.items()}

    def about_queue(self) -> bytes:
        """Return a question about a queue, usually a valid one."""
        partition = self._partition()
        return access_pb2.CheckQueueAccessRequest(
            user=self._user(),
            partition=partition,
            queue=self._queue(partition),
            access=cast("access_pb2.AccessType.ValueType", self._mostly([1, 2], [0, 3, -1])),
            real_user=self._real_user(),
        ).SerializeToString()

    def about_application(self) -> bytes:
        """Return a question about a YARN or Spark application, usually a valid one."""
        rng = self._rng
        partition = self._partition()
        action = cast(
            "access_pb2.ApplicationAction.ValueType", self._mostly([1, 2, 3, 3, 4, 4, 5], [0, 6])
        )
        request = access_pb2.CheckApplicationAccessRequest(
            user=self._user(), partition=partition, action=action, real_user=self._real_user()
        )
        if rng.random() < (0.05 if action != 4 else 0.98):
            request.target_queue = self._queue(partition)
        if rng.random() < (0.3 if action != 5 else 0.9):
            request.spark.spark_user = rng.choice(["", "bob"])
            request.spark.process_user = rng.choice(["", "eve"])
            request.spark.properties.update(self._properties())
        elif rng.random() < 0.98:
            request.application.queue = self._queue(partition)
            request.application.owner = self._mostly(["bob", "olga"], _ODD_USERS)
            request.application.view_acl = rng.choice(["", *ACLS])
            request.application.modify_acl = rng.choice(["", *ACLS])
        return request.SerializeToString()

    def _properties(self) -> dict[str, str]:
        rng = self._rng
        switch = self._mostly(["true", "true", " True", "false"], ["", "1"])
        lists = {
            f"spark.{kind}.acls{groups}": rng.choice(_LISTS)
            for kind in ("admin", "ui.view", "modify")
            for groups in ("", ".groups")
            if rng.random() < 0.4
        }
        return {"spark.acls.enable": switch, **lists}

    def _user(self) -> UserGroupInformation:
        rng = self._rng
        groups = [self._mostly(_GROUPS, _ODD_USERS) for _ in range(rng.choice([0, 0, 1, 2]))]
        return UserGroupInformation(user=self._mostly(_USERS, _ODD_USERS), groups=groups)

    def _real_user(self) -> str:
        return self._mostly(["", "", "knox", "carol", "bob"], ["a\nb", "x" * 1_025])

    def _partition(self) -> str:
        return self._mostly(self._partitions, ["", "nowhere", "[rm]default", "\0"])

    def _queue(self, partition: str) -> str:
        rng = self._rng
        path = self._mostly(self._paths.get(partition, ["root.a"]), _ODD_QUEUES)
        form = rng.random()
        if form < 0.2:
            return path.removeprefix("root.")
        if form < 0.4:
            return last_name(path)
        return f"{path}.new" if form < 0.5 else path

    def _mostly(self, usual: Sequence[_One], odd: Sequence[_One]) -> _One:
        return self._rng.choice(odd if self._rng.random() < 0.03 else usual)
