"""The User page: a user's groups, and the queues that the user may use."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final, NamedTuple

from queuegate import _responses as responses
from queuegate.cli.render import UNRESOLVED, grant_words
from queuegate.policy.decision import Access
from queuegate.policy.names import DEFAULT_PARTITION
from queuegate.v1 import access_pb2, user_groups_pb2
from queuegate.v1.user_group_information_pb2 import UserGroupInformation
from queuegate_server.console.views import Page, Redirect, Route, Url, View, Visit, url
from queuegate_server.engine import GroupsUnavailable, UnknownPartition
from queuegate_server.rpc.errors import InvalidRequest, to_status
from queuegate_server.rpc.messages import ACCESS_TYPES
from queuegate_server.settings.callers import Role

PATH: Final = "user"
MAX_QUEUES: Final = 200
"""The number of queues on a page."""
MAX_GROUPS: Final = 1_000
"""The maximum number of groups shown."""


@dataclass(frozen=True, slots=True)
class Membership:
    """The groups of a user."""

    names: Sequence[str]
    more: int
    unresolved: str
    """Why the groups are unknown; empty if they are known."""
    resolver: str
    cached: bool
    stale: bool
    resolved_at: float
    """In Unix seconds, as is the next one; 0 if unknown."""
    expires_at: float
    detail: str


class UsableRow(NamedTuple):
    """A queue that the user may use."""

    queue: str
    url: Url
    why: str


@dataclass(frozen=True, slots=True)
class UserModel:
    """The contents of the page."""

    user: str
    partition: str
    partitions: Sequence[str]
    access: Access
    error: str
    """A sentence about an invalid question; else empty."""
    membership: Membership | None
    queues: Sequence[UsableRow]
    queues_error: str
    """Why the queues are unknown; empty if they are known."""
    next: Url | None
    may_forget: bool
    was_forgotten: bool


async def show(visit: Visit) -> View:
    """Show a user, if the URL names one."""
    query = visit.query
    user = query.get("user", "").strip()
    partition = query.get("partition") or DEFAULT_PARTITION
    access = visit.access
    error = queues_error = ""
    membership = None
    rows: list[UsableRow] = []
    following = ""
    status = 200
    if user:
        try:
            membership = await _membership(visit, user, partition)
            rows, following = await _queues(visit, user, partition, access)
        except (InvalidRequest, UnknownPartition) as failed:
            error, status = to_status(failed).proto.message, 400
        except GroupsUnavailable as failed:
            queues_error, status = str(failed), 503
    model = UserModel(
        user=user,
        partition=partition,
        partitions=[*visit.services.engine.snapshot.served],
        access=access,
        error=error,
        membership=membership,
        queues=rows,
        queues_error=queues_error,
        next=url(PATH, partition=partition, user=user, access=access, page=following)
        if following
        else None,
        may_forget=visit.may(Role.ADMIN),
        was_forgotten="forgotten" in query,
    )
    return View("user.html", "User", model, status)


async def forget(visit: Visit) -> Redirect:
    """Invalidate the cached groups of a user, here and in every gate."""
    user, partition = visit.form.get("user", ""), visit.form.get("partition", "")
    request = user_groups_pb2.InvalidateUserGroupsRequest(partition=partition, users=[user])
    await visit.services.user_groups.InvalidateUserGroups(request.SerializeToString())
    return Redirect(url(PATH, partition=partition, user=user, forgotten=1))


async def _membership(visit: Visit, user: str, partition: str) -> Membership:
    request = user_groups_pb2.ResolveUserGroupsRequest(user=user, partition=partition)
    data = await visit.services.user_groups.ResolveUserGroups(request.SerializeToString())
    resolution = responses.resolution(user_groups_pb2.ResolveUserGroupsResponse.FromString(data))
    return Membership(
        names=resolution.groups[:MAX_GROUPS],
        more=max(0, len(resolution.groups) - MAX_GROUPS),
        unresolved="" if resolution else UNRESOLVED[resolution.outcome],
        resolver=resolution.resolver,
        cached=resolution.cached,
        stale=resolution.stale,
        resolved_at=_seconds(resolution.resolved_at),
        expires_at=_seconds(resolution.expires_at),
        detail=resolution.detail,
    )


async def _queues(
    visit: Visit, user: str, partition: str, access: Access
) -> tuple[list[UsableRow], str]:
    """Return a page of queues that a user may use, and the token for the next page."""
    request = access_pb2.ListQueuesRequest(
        user=UserGroupInformation(user=user),
        partition=partition,
        access=ACCESS_TYPES[access],
        page_size=MAX_QUEUES,
        page_token=visit.query.get("page", ""),
        with_via=True,
    )
    data = await visit.services.access.ListQueues(
        request.SerializeToString(), trusted=visit.trusted
    )
    page = access_pb2.ListQueuesResponse.FromString(data)
    rows = [
        UsableRow(
            each.queue,
            url("access", partition=partition, queue=each.queue, access=access, user=user),
            grant_words(each.via),
        )
        for each in responses.usable_queues(page)
    ]
    return rows, page.next_page_token


def _seconds(moment: datetime | None) -> float:
    return 0.0 if moment is None else moment.timestamp()


PAGE: Final = Page(
    "User",
    PATH,
    (Route("GET", PATH, show), Route("POST", f"{PATH}/forget", forget, Role.ADMIN)),
)
