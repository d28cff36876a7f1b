"""UserGroupService: who is this user?"""

from typing import Final

from queuegate.v1 import user_group_information_pb2, user_groups_pb2
from queuegate_server.engine import Engine
from queuegate_server.identity.resolver import CouldNotAsk, Found, NoSuchUser
from queuegate_server.rpc import convert, wire

_OUTCOMES: Final = {
    Found: user_groups_pb2.RESOLVE_OUTCOME_RESOLVED,
    NoSuchUser: user_groups_pb2.RESOLVE_OUTCOME_NOT_FOUND,
    CouldNotAsk: user_groups_pb2.RESOLVE_OUTCOME_UNAVAILABLE,
}


class UserGroupServicer:
    """Converts, calls the engine, converts back. Method names are those of the contract."""

    def __init__(self, engine: Engine) -> None:
        """Take the engine."""
        self._engine = engine

    async def ResolveUserGroups(self, data: bytes) -> bytes:
        """Resolve the groups of a user."""
        request = wire.parse(user_groups_pb2.ResolveUserGroupsRequest, data)
        faults: convert.Violations = []
        convert.check_partition(request.partition, faults)
        convert.check_user("user", request.user, faults)
        convert.raise_if(faults)
        resolver, answer = await self._engine.resolve(
            self._engine.snapshot,
            request.partition,
            request.user,
            bypass_cache=request.bypass_cache,
        )
        entry = answer.entry
        outcome = entry.outcome
        groups = outcome.groups if isinstance(outcome, Found) else ()
        return user_groups_pb2.ResolveUserGroupsResponse(
            user_group=user_group_information_pb2.UserGroupInformation(
                user=request.user, groups=groups
            ),
            outcome=_OUTCOMES[type(outcome)],
            resolver=resolver,
            cached=answer.cached,
            stale=answer.stale,
            resolved_at=convert.timestamp(entry.resolved_at_wall),
            expires_at=convert.timestamp(entry.expires_at_wall),
            detail="" if isinstance(outcome, Found) else outcome.detail,
        ).SerializeToString()

    async def InvalidateUserGroups(self, data: bytes) -> bytes:
        """Drop cached answers."""
        request = wire.parse(user_groups_pb2.InvalidateUserGroupsRequest, data)
        faults: convert.Violations = []
        convert.check_partition(request.partition, faults)
        if len(request.users) > convert.MAX_USERS:
            faults.append(("users", f"has more than {convert.MAX_USERS} users"))
        else:
            for index, user in enumerate(request.users):
                convert.check_user(f"users[{index}]", user, faults)
        convert.raise_if(faults)
        snapshot = self._engine.snapshot
        if users := tuple(request.users):
            dropped = self._engine.invalidate(snapshot, request.partition, users)
        else:
            dropped = await self._engine.invalidate_all(snapshot, request.partition)
        return user_groups_pb2.InvalidateUserGroupsResponse(dropped=dropped).SerializeToString()
