"""Calls that change what a worker holds: they are done in all workers, or they fail."""

from typing import Any, Final

from queuegate.v1 import policy_pb2, user_groups_pb2
from queuegate_server.rpc.errors import NotConfirmed
from queuegate_server.rpc.policy_service import PolicyServicer
from queuegate_server.rpc.user_group_service import UserGroupServicer
from queuegate_server.supervisor.worker_client import Local, WorkerClient

_INVALIDATE_SECONDS: Final = 5.0
_RELOAD_SECONDS: Final = 60.0
"""How long the other workers may take to confirm."""


class Everywhere:
    """A servicer, of whose methods one runs in all workers."""

    def __init__(self, servicer: object, name: str, method: Local) -> None:
        """Take the servicer, and what stands for its method of that name."""
        self._servicer = servicer
        self._name = name
        self._method = method

    def __getattr__(self, name: str) -> Any:
        """Return a method of the contract."""
        return self._method if name == self._name else getattr(self._servicer, name)


def user_groups_everywhere(servicer: UserGroupServicer, member: WorkerClient) -> Everywhere:
    """Forget users in the caches of all workers."""
    name = "InvalidateUserGroups"
    local = servicer.InvalidateUserGroups
    method = member.everywhere(name, local, _dropped, seconds=_INVALIDATE_SECONDS)
    return Everywhere(servicer, name, method)


def policy_everywhere(servicer: PolicyServicer, member: WorkerClient) -> Everywhere:
    """Reload the policy in all workers."""
    name = "ReloadPolicy"
    method = member.everywhere(name, servicer.ReloadPolicy, _reloaded, seconds=_RELOAD_SECONDS)
    return Everywhere(servicer, name, method)


def _dropped(mine: bytes, others: list[bytes]) -> bytes:
    parse = user_groups_pb2.InvalidateUserGroupsResponse.FromString
    dropped = sum(parse(answer).dropped for answer in (mine, *others))
    return user_groups_pb2.InvalidateUserGroupsResponse(dropped=dropped).SerializeToString()


def _reloaded(mine: bytes, others: list[bytes]) -> bytes:
    """Return this worker's answer if the others came to the same."""
    parse = policy_pb2.ReloadPolicyResponse.FromString
    ours = parse(mine)
    for answer in map(parse, others):
        if (answer.succeeded, answer.revision) != (ours.succeeded, ours.revision):
            raise NotConfirmed("the workers read different policies; the file changes just now")
    return mine
