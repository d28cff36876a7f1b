"""UserGroupService: resolves and invalidates users' groups."""

from dataclasses import dataclass
from typing import Final

from queuegate.v1 import user_group_information_pb2, user_groups_pb2
from queuegate_server.engine import Engine
from queuegate_server.identity.resolver import KnownUser
from queuegate_server.rpc import validation
from queuegate_server.rpc.load_shedding import LongCallQueue
from queuegate_server.rpc.messages import LOOKUP_OUTCOMES, stale_gates, timestamp
from queuegate_server.sync.changes import Changes

MAX_USERS: Final = 10_000


@dataclass(frozen=True, slots=True)
class UserGroupServicer:
    """Implements UserGroupService. Its methods take and return serialized messages."""

    engine: Engine
    queue: LongCallQueue
    changes: Changes

    async def ResolveUserGroups(self, data: bytes) -> bytes:
        """Resolve a user's groups."""
        request = await self.queue.parse(user_groups_pb2.ResolveUserGroupsRequest, data)
        violations: validation.Violations = []
        validation.check_name("partition", request.partition, violations)
        validation.check_required_name("user", request.user, violations)
        validation.raise_if(violations)
        resolver = self.engine.snapshot.find(request.partition).groups
        resolution = await resolver.resolve(request.user, bypass_cache=request.bypass_cache)
        entry = resolution.entry
        outcome = entry.outcome
        groups = outcome.groups if isinstance(outcome, KnownUser) else ()
        return user_groups_pb2.ResolveUserGroupsResponse(
            user_group=user_group_information_pb2.UserGroupInformation(
                user=request.user, groups=groups
            ),
            outcome=LOOKUP_OUTCOMES[type(outcome)],
            resolver=resolver.resolver_name,
            cached=resolution.cached,
            stale=resolution.stale,
            resolved_at=timestamp(entry.resolved_at_wall),
            expires_at=timestamp(entry.expires_at_wall),
            detail="" if isinstance(outcome, KnownUser) else outcome.detail,
        ).SerializeToString()

    async def InvalidateUserGroups(self, data: bytes) -> bytes:
        """Invalidate the given users' cached groups, or all cached groups if no users are given."""
        request = await self.queue.parse(user_groups_pb2.InvalidateUserGroupsRequest, data)
        violations: validation.Violations = []
        validation.check_name("partition", request.partition, violations)
        if len(request.users) > MAX_USERS:
            violations.append(("users", f"has more than {MAX_USERS} users"))
        else:
            for index, user in enumerate(request.users):
                validation.check_required_name(f"users[{index}]", user, violations)
        validation.raise_if(violations)
        partition = self.engine.snapshot.find(request.partition).partition.name
        result = await self.changes.invalidate(partition, tuple(request.users), wait=request.wait)
        return user_groups_pb2.InvalidateUserGroupsResponse(
            dropped=result.invalidated,
            cursor=result.cursor,
            waited_out=result.waited_out,
            stale_gates=stale_gates(result.stale),
        ).SerializeToString()
