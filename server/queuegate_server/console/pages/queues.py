"""The Queues page, which shows the queue tree and the selected queue's ACLs and users."""

import heapq
import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

from queuegate import _responses as responses
from queuegate.cli.render import grant_words
from queuegate.policy.acl import WILDCARD, Acl
from queuegate.policy.chain import CLUSTER
from queuegate.policy.decision import ACLS_DISABLED, Access
from queuegate.policy.explain import ambiguity
from queuegate.policy.names import ROOT, SEPARATOR, parent_path
from queuegate.policy.queue import Queue
from queuegate.policy.tree import Partition
from queuegate.policy.yarn_acl import Semantics
from queuegate.v1 import access_pb2
from queuegate_server.console import tree
from queuegate_server.console.annotations import Annotations
from queuegate_server.console.views import Page, Route, Url, View, Visit, url
from queuegate_server.formats.acl_positions import AclKey, acl_key
from queuegate_server.formats.diagnostics import Diagnostic
from queuegate_server.identity.resolver_types import YARN_DEFAULT, YUNIKORN_DEFAULT
from queuegate_server.rpc.errors import InvalidRequest
from queuegate_server.rpc.messages import ACCESS_TYPES

PATH: Final = "queues"
MAX_CHIPS: Final = 60
"""The maximum number of names shown per list."""
MAX_INHERITED: Final = 50
"""The maximum number of inherited ACLs shown."""
MAX_CREATED: Final = 50
"""The maximum number of ACLs shown for queues that will be created on demand."""
MAX_PEOPLE: Final = 200
"""The number of people per page."""
MAX_FINDINGS: Final = 50
_WITHOUT_RESOLVER: Final = {
    YUNIKORN_DEFAULT: "so each group is treated as a user of the same name",
    YARN_DEFAULT: "so nobody is listed because of a group",
}
"""The consequence if a partition has no resolver, by the type of resolver that is used instead."""


class Chip(NamedTuple):
    """A name in an ACL, shown as a chip."""

    kind: str
    name: str
    url: Url | None = None


@dataclass(frozen=True, slots=True)
class AclRow:
    """An ACL as shown on the page."""

    queue: str
    """The queue's path; empty for the cluster administrators."""
    access: Access
    chips: Sequence[Chip]
    more: int
    """The number of additional names not shown."""
    dropped: Sequence[str]
    """Names that can never match."""
    place: str
    is_parent: bool = False
    """Whether the ACL applies to the queue only if YARN creates it as a parent."""


async def show(visit: Visit) -> View:
    """Show the tree and the selected queue."""
    query = visit.query
    snapshot = visit.services.core.engine.snapshot
    name = visit.partition
    partition = snapshot.named(name).partition
    access = visit.access
    asked = query.get("queue", "") or ROOT
    missing, selected = "", partition.canonical_path(asked) or ""
    created = partition.created(selected) if selected else []
    in_tree = parent_path(created[-1].path) if created else selected
    if in_tree not in partition.queues:
        missing = ambiguity(partition, asked)
        missing = missing or f"Queue {asked} does not exist; this is its nearest existing ancestor."
        selected = partition.nearest_path(selected) if selected else ROOT
        if selected not in partition.queues:
            selected = ROOT  # the short name is shared by several queues
        in_tree = selected
    annotations = await visit.services.annotator.annotations(snapshot)
    by_queue: dict[str, list[Diagnostic]] = {}
    for finding in annotations.findings:
        by_queue.setdefault(finding.queue, []).append(finding)
    links = _Links(name, access)
    rows = [
        links.row(partition, row, in_tree, by_queue)
        for row in tree.rows(partition, in_tree, query.get("from", ""))
    ]
    searched = query.get("search", "").strip()
    matches, has_more = await tree.search(partition, searched) if searched else ([], False)
    people = await _people(visit, name, selected, access) if query.get("who") else None
    above = _inherited(partition, selected, annotations)
    inherited = [*itertools.islice(above, MAX_INHERITED + 1)]
    shown = {
        "path": selected,
        "will_be_created": bool(created),
        "own": [*_acls(partition, selected, partition.nearest(selected), annotations)],
        "created": [*itertools.islice(_created(partition, selected, annotations), MAX_CREATED)],
        "inherited": inherited[:MAX_INHERITED],
        "more_inherited": len(inherited) > MAX_INHERITED,
        "findings": by_queue.get(selected, [])[:MAX_FINDINGS],
        "acls_are_off": partition.chain(selected, access).otherwise is ACLS_DISABLED,
        "people": people,
        "people_url": url(PATH, partition=name, queue=selected, access=access, who=1),
        "ask_url": url("access", partition=name, queue=selected, access=access),
    }
    page = {
        "partition": name,
        "served": snapshot.served,
        "policy": snapshot.policy,
        "loaded_at": snapshot.loaded_at,
        "access": access,
        "switches": [(each, _Links(name, each).queue(selected)) for each in Access],
        "rows": rows,
        "search": searched,
        "matches": [
            links.row(partition, tree.Row(0, path, False, False), in_tree, by_queue)
            for path in matches
        ],
        "has_more_matches": has_more,
        "missing": missing,
        "queue": shown,
        "other_findings": by_queue.get("", [])[:MAX_FINDINGS],
        "note": annotations.missing,
    }
    return View("queues.html", "Queues", page)


class _Links(NamedTuple):
    partition: str
    access: Access

    def queue(self, path: str, start: str = "") -> Url:
        access = "" if self.access is Access.SUBMIT else self.access
        return url(
            PATH, **{"partition": self.partition, "queue": path, "access": access, "from": start}
        )

    def row(
        self,
        partition: Partition,
        row: tree.Row,
        selected: str,
        findings: Mapping[str, Sequence[Diagnostic]],
    ) -> dict[str, object]:
        """Return a row's template variables."""
        path = row.path
        left_out = row.earlier or row.later
        name = path.rpartition(SEPARATOR)[2]
        if left_out:
            name = "first queues" if row.earlier else "more queues"
        return {
            **row._asdict(),
            "name": name,
            "path": path or left_out,
            "url": self.queue(path or left_out, row.start),
            "is_queue": not left_out,
            "is_selected": path == selected,
            "openness": "" if left_out else tree.openness(partition, path, self.access),
            "findings": len(findings.get(path, ())) if path else 0,
        }


def _acls(
    partition: Partition, path: str, queue: Queue, annotations: Annotations
) -> Iterator[AclRow]:
    for access, acl in ((Access.SUBMIT, queue.submit_acl), (Access.ADMIN, queue.admin_acl)):
        place = annotations.place(acl_key(partition, path, queue.path, access))
        yield _acl_row(partition.name, queue.path, access, acl, place)


def _created(partition: Partition, path: str, annotations: Annotations) -> Iterator[AclRow]:
    """Yield the nonempty ACLs that queues created on demand below a queue will get."""
    if partition.creation is None or path not in partition.creation.creators:
        return
    shown = set()
    for below in partition.created_below(path):
        for queue in reversed(partition.created(below)):
            for acl in _acls(partition, below, queue, annotations):
                key = acl.queue, acl.access, *acl.chips, *acl.dropped, acl.place
                if (acl.chips or acl.dropped) and key not in shown:
                    shown.add(key)
                    yield replace(acl, is_parent=queue.path != below)


def _inherited(partition: Partition, path: str, annotations: Annotations) -> Iterator[AclRow]:
    """Yield the nonempty ACLs inherited by a queue, nearest ancestor first."""
    for queue in itertools.islice(partition.upwards(path), 1, None):
        for acl in _acls(partition, path, queue, annotations):
            if acl.chips or acl.dropped:
                yield acl
    cluster = partition.cluster
    if cluster and cluster.semantics is Semantics.DOCUMENTED and not cluster.admins.is_empty:
        place = annotations.place(AclKey(partition.name, CLUSTER, Access.ADMIN))
        yield _acl_row(partition.name, CLUSTER, Access.ADMIN, cluster.admins, place)


def _acl_row(partition: str, path: str, access: Access, acl: Acl, place: str) -> AclRow:
    chips = [Chip("everyone", WILDCARD)] if acl.allows_all else []
    for kind, names in (("user", acl.users), ("group", acl.groups), ("proxy", acl.proxies)):
        for name in heapq.nsmallest(MAX_CHIPS, names):
            link = url("user", partition=partition, user=name) if kind == "user" else None
            chips.append(Chip(kind, name, link))
    dropped = (*acl.dropped_users, *acl.dropped_groups)
    by_name = itertools.chain(acl.origins.users.values(), acl.origins.groups.values())
    origins = dict.fromkeys(itertools.chain.from_iterable(itertools.islice(by_name, MAX_CHIPS)))
    return AclRow(
        path,
        access,
        chips[:MAX_CHIPS],
        max(0, len(acl.users) + len(acl.groups) + len(acl.proxies) - MAX_CHIPS),
        dropped[:MAX_CHIPS],
        place or "\n".join(itertools.islice(origins, MAX_CHIPS)),
    )


async def _people(visit: Visit, partition: str, path: str, access: Access) -> dict[str, object]:
    """Return the template variables for one page of a queue's users; on failure, only `error`."""
    request = access_pb2.ListUsersRequest(
        partition=partition,
        queue=path,
        access=ACCESS_TYPES[access],
        page_size=MAX_PEOPLE,
        page_token=visit.query.get("page", ""),
    )
    try:
        data = await visit.services.access.ListUsers(request.SerializeToString())
    except InvalidRequest as error:
        return {"error": str(error)}
    resolver = visit.services.core.engine.snapshot.find(partition).groups.resolver_name
    message = access_pb2.ListUsersResponse.FromString(data)
    people = responses.users(message)
    following = message.next_page_token
    users = [
        (
            each,
            url("access", partition=partition, queue=path, access=access, user=each.user),
            grant_words(each.via[0]) if each.via else "",
        )
        for each in people.users
    ]
    return {
        "error": "",
        "list": people,
        "without_resolver": _WITHOUT_RESOLVER.get(resolver, ""),
        "everyone": grant_words(people.everyone_via) if people.everyone_via else "",
        "users": users,
        "next": following
        and url(PATH, partition=partition, queue=path, access=access, who=1, page=following),
    }


PAGE: Final = Page("Queues", PATH, (Route("GET", PATH, show),))
