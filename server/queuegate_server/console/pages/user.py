"""The User page, which shows a user's groups and accessible queues."""

from typing import Final

from queuegate import Resolution
from queuegate import _responses as responses
from queuegate import _server_responses as server_responses
from queuegate.cli.render import UNRESOLVED, grant_words
from queuegate.v1 import access_pb2, user_groups_pb2
from queuegate.v1.user_group_information_pb2 import UserGroupInformation
from queuegate_server.console.views import Page, Route, Url, View, Visit, url
from queuegate_server.engine import GroupsUnavailable, UnknownPartition
from queuegate_server.rpc.errors import InvalidRequest, to_status
from queuegate_server.rpc.messages import ACCESS_TYPES
from queuegate_server.settings.callers import Role

PATH: Final = "user"
MAX_QUEUES: Final = 200
"""The number of queues per page."""
MAX_GROUPS: Final = 1_000
"""The maximum number of groups shown."""


async def show(visit: Visit) -> View:
    """Show the user named in the URL, if any."""
    query = visit.query
    user = query.get("user", "").strip()
    partition = visit.partition
    error = queues_error = following = ""
    resolution = None
    rows: list[dict[str, str]] = []
    status = 200
    if user:
        try:
            resolution = await _resolution(visit, user, partition)
            rows, following = await _queues(visit, user, partition)
        except (InvalidRequest, UnknownPartition) as failure:
            error, status = to_status(failure).proto.message, 400
        except GroupsUnavailable as failure:
            queues_error, status = str(failure), 503
    page = {
        "user": user,
        "partition": partition,
        "partitions": [*visit.services.core.engine.snapshot.served],
        "access": visit.access,
        "error": error,
        "resolution": resolution,
        "unresolved": UNRESOLVED.get(resolution.outcome) if resolution is not None else None,
        "max_groups": MAX_GROUPS,
        "queues": rows,
        "queues_error": queues_error,
        "next": following
        and url(PATH, partition=partition, user=user, access=visit.access, page=following),
        "may_forget": Role.ADMIN in visit.principal.rights.roles,
        "was_forgotten": "forgotten" in query,
    }
    return View("user.html", "User", page, status)


async def forget(visit: Visit) -> Url:
    """Invalidate a user's cached groups in this server and in every gate."""
    user, partition = visit.form.get("user", ""), visit.form.get("partition", "")
    request = user_groups_pb2.InvalidateUserGroupsRequest(partition=partition, users=[user])
    await visit.services.user_groups.InvalidateUserGroups(request.SerializeToString())
    return url(PATH, partition=partition, user=user, forgotten=1)


async def _resolution(visit: Visit, user: str, partition: str) -> Resolution:
    request = user_groups_pb2.ResolveUserGroupsRequest(user=user, partition=partition)
    data = await visit.services.user_groups.ResolveUserGroups(request.SerializeToString())
    return server_responses.resolution(user_groups_pb2.ResolveUserGroupsResponse.FromString(data))


async def _queues(visit: Visit, user: str, partition: str) -> tuple[list[dict[str, str]], str]:
    """Return one page of the queues that a user may use, and the token for the next page."""
    access = visit.access
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
        {
            "queue": each.queue,
            "url": url("access", partition=partition, queue=each.queue, access=access, user=user),
            "why": grant_words(each.via),
        }
        for each in responses.usable_queues(page)
    ]
    return rows, page.next_page_token


PAGE: Final = Page(
    "User",
    PATH,
    (Route("GET", PATH, show), Route("POST", f"{PATH}/forget", forget, Role.ADMIN)),
)
