"""The Change page, which assesses a proposed policy: errors, changes in access, and claims."""

import asyncio
import functools
from collections.abc import Mapping
from typing import Any, Final

from queuegate_server.analysis.access_changes import GroupsByUser
from queuegate_server.console.forms import Turns
from queuegate_server.console.views import Page, Route, Services, View, Visit
from queuegate_server.engine import Snapshot
from queuegate_server.files.safe_open import read_regular, remedy
from queuegate_server.formats.format_names import YUNIKORN
from queuegate_server.formats.kubernetes_rbac.manifests import has_rbac
from queuegate_server.formats.source_text import MAX_BYTES
from queuegate_server.identity.members import MemberListing
from queuegate_server.identity.resolver_types import types
from queuegate_server.policystore import proposal
from queuegate_server.policystore.parser_process import ParserError
from queuegate_server.policystore.parsing import File, ParseJob, PolicyText
from queuegate_server.policystore.proposal import MAX_GROUPS, ProposalJob, served_lines
from queuegate_server.rpc.policy_service import MAX_CONTENT_BYTES
from queuegate_server.runtime.pacing import Pace
from queuegate_server.settings.model import PolicySource

MAX_CLAIMS_BYTES: Final = 256 * 1024
MAX_FORM_BYTES: Final = MAX_CONTENT_BYTES + MAX_CLAIMS_BYTES + 16 * 1024
MAX_SHOWN_TEXT: Final = 256 * 1024
"""The maximum length of a policy echoed in the form."""
MAX_REASONS: Final = 10
_CLAIMS_NAME: Final = "claims.yaml"
# Cached because discovering entry points takes up to 20 ms.
_resolver_types: Final = functools.cache(types)
_WITHOUT_PROPOSAL: Final[Mapping[str, object]] = {
    "text": "",
    "text_not_shown": False,
    "claims_text": "",
    "by_people": False,
    "source": 0,
    "error": "",
    "assessment": None,
}
_NOT_COMPARED: Final[Mapping[str, object]] = {
    "added_partitions": (),
    "removed_partitions": (),
    "changes": (),
    "changes_not_shown": 0,
    "claims": None,
}
"""Template variables for a result without a comparison or claims."""


async def form(visit: Visit) -> View:
    """Show the empty form."""
    return _view(visit.services)


async def assess(visit: Visit) -> View:
    """Assess a proposal and show the result."""
    posted, services = visit.form, visit.services
    # Undo browsers' conversion of line breaks in text areas to CR LF.
    pasted = posted.get("policy", "").replace("\r\n", "\n")
    text = posted.get("file", "").encode(errors="surrogateescape") or pasted.encode()
    claims = posted.get("claims", "").replace("\r\n", "\n")
    sources = _files(services)
    number = posted.get("source", "0")
    source = int(number) if number in map(str, range(len(sources))) else 0
    by_people = "people" in posted
    assessment, error = None, ""
    if not sources or has_rbac(text):
        error = "This page cannot compare RBAC: run queuegate-server diff on the manifests."
    elif not text.strip():
        error = "Paste a policy, or choose a file."
    elif len(text) > MAX_CONTENT_BYTES:
        error = f"The policy is longer than {MAX_CONTENT_BYTES} bytes: run queuegate-server diff."
    elif len(claims.encode()) > MAX_CLAIMS_BYTES:
        error = f"The claims are longer than {MAX_CLAIMS_BYTES} bytes: run queuegate-server prove."
        claims = ""
    else:
        try:
            assessment = await _assessment(
                services, sources[source], text, claims, by_people=by_people
            )
        except ParserError as failure:
            error = f"The policy cannot be assessed: {failure} ({failure.remedy})"
        except OSError as failure:
            error = f"The policy cannot be assessed: {failure.strerror} ({remedy(failure)})"
    shown = text.decode(errors="replace") if len(text) <= MAX_SHOWN_TEXT else ""
    is_shown = shown.encode() == text
    return _view(
        services,
        200 if assessment else 422,
        text=shown if is_shown else "",
        text_not_shown=not is_shown,
        claims_text=claims,
        by_people=by_people,
        source=source,
        error=error,
        assessment=assessment,
    )


def _view(services: Services, status: int = 200, **shown: object) -> View:
    sources = [
        str(each.path or each.configs or each.defaults or "the embedded default")
        for each in _files(services)
    ]
    page = {**_WITHOUT_PROPOSAL, **shown, "sources": sources}
    return View("change.html", "Change", page, status)


def _files(services: Services) -> list[PolicySource]:
    """Return the policies that are files."""
    return [each for each in services.settings.sources if each.kubernetes is None]


async def _assessment(
    services: Services, source: PolicySource, text: bytes, claims: str, *, by_people: bool
) -> dict[str, Any]:
    """Assess a proposal with `proposal.run`. Return the template variables for the result."""
    snapshot = services.core.engine.snapshot
    job = await _job(services, snapshot, source, text, claims)
    job = job._replace(wants_groups=by_people)
    async with services.checking:
        result = await proposal.run(job)
    incomplete: list[str] = []
    if by_people and result.get("changes"):
        if result["groups"] is None:
            by_people = False
            incomplete.append(
                f"More than {MAX_GROUPS} groups are involved: names are compared instead of people."
            )
        else:
            people = await _people(snapshot, result["groups"], incomplete)
            async with services.checking:
                result = await proposal.run(job._replace(people=people, wants_groups=False))
    return {
        **_NOT_COMPARED,
        **result,
        "revision": snapshot.policy.revision,
        "by_people": by_people,
        "incomplete": incomplete,
    }


async def _job(
    services: Services, snapshot: Snapshot, source: PolicySource, text: bytes, claims: str
) -> ProposalJob:
    settings = services.settings
    site = None
    if source.yarn_site is not None:
        data = await asyncio.to_thread(read_regular, source.yarn_site, MAX_BYTES)
        site = data, str(source.yarn_site)
    # Read the proposal in the same format as a reload would.
    format_name = services.core.reloader.format_of(source)
    name = "queues.yaml"
    if format_name != YUNIKORN:
        name = source.path.name if source.path else "scheduler.xml"
    policy = PolicyText(
        File(name, text),
        format_name,
        settings.format_options(source, site, _resolver_types()),
        source.for_yarn,
    )
    served = bytearray()
    pace = Pace()
    partitions = snapshot.policy.partitions.items()
    of_files = {name: each for name, each in partitions if each.named_grants is None}
    for line in served_lines(of_files):
        served += line
        await pace.pause_if_due()
    return ProposalJob(
        ParseJob((policy,), "", settings.yarn_partitions),
        bytes(served),
        len(_files(services)) == 1,
        File(_CLAIMS_NAME, claims.encode()) if claims.strip() else None,
        people=None,
        wants_groups=False,
    )


async def _people(
    snapshot: Snapshot, groups: Mapping[str, list[str]], incomplete: list[str]
) -> Mapping[str, GroupsByUser]:
    """Return the groups' members by partition. Adds reasons for missing members to `incomplete`."""
    people: dict[str, GroupsByUser] = {}
    for partition, names in groups.items():
        listing = MemberListing(names)
        served = snapshot.served.get(partition)
        if names and served is not None:
            await served.groups.members(listing)
        elif names:
            listing.give_up(f"the partition {partition} is not served")
        members: dict[str, tuple[str, ...]] = {}
        for name, group in listing.groups.items():
            for user in group.users:
                members[user] = (*members.get(user, ()), name)
            if group.missing and len(incomplete) < MAX_REASONS:
                incomplete.append(f"Members of the group {name} may be missing: {group.missing}.")
        people[partition] = members
    return people


PAGE: Final = Page(
    "Change",
    "change",
    (
        Route("GET", "change", form),
        Route(
            "POST",
            "change",
            assess,
            max_form_bytes=MAX_FORM_BYTES,
            # Limit concurrency, because each assessment runs a child process and may query
            # directories.
            large_forms=Turns(),
        ),
    ),
)
