"""The page "Change": assesses a proposed policy, its changes of access, and claims about it."""

import asyncio
import functools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from queuegate.policy.yarn_acl import Semantics
from queuegate_server.analysis.access_changes import GroupsByUser
from queuegate_server.console.turns import Turns
from queuegate_server.console.views import Page, Route, Services, View, Visit
from queuegate_server.engine import Snapshot
from queuegate_server.files.safe_open import read_regular, remedy
from queuegate_server.formats.registry import YUNIKORN, detect_bare_format
from queuegate_server.formats.source_text import MAX_BYTES
from queuegate_server.identity.members import MemberListing
from queuegate_server.identity.registry import types
from queuegate_server.policystore import proposal
from queuegate_server.policystore.parser_process import ParserError
from queuegate_server.policystore.parsing import File, ParseJob, PolicyText
from queuegate_server.policystore.proposal import MAX_GROUPS, ProposalJob, served_lines
from queuegate_server.rpc.policy_service import MAX_CONTENT_BYTES
from queuegate_server.settings.model import PolicySource

MAX_CLAIMS_BYTES: Final = 256 * 1024
MAX_FORM_BYTES: Final = MAX_CONTENT_BYTES + MAX_CLAIMS_BYTES + 16 * 1024
MAX_SHOWN_TEXT: Final = 256 * 1024
"""The maximum length of a policy that is sent back in the form."""
MAX_REASONS: Final = 10
_CLAIMS_NAME: Final = "claims.yaml"


class Finding(NamedTuple):
    """A diagnostic of the policy or of the claims."""

    place: str
    severity: str
    message: str
    remedy: str
    queue: str


@dataclass(frozen=True, slots=True)
class Name:
    """A name listed in an ACL."""

    kind: str
    """`user`, `group` or `proxy`."""
    name: str


@dataclass(frozen=True, slots=True)
class Side:
    """The people who gain, or the people who lose."""

    everyone: bool
    names: tuple[Name, ...]
    names_not_shown: int
    but: tuple[Name, ...]
    """If everyone is affected, the exceptions, for whom nothing changes."""
    but_not_shown: int

    def __bool__(self) -> bool:
        return self.everyone or bool(self.names)


@dataclass(frozen=True, slots=True)
class Change:
    """A change at a queue that its parent does not have."""

    partition: str
    queue: str
    access: str
    gained: Side
    lost: Side
    below: int
    partly_below: int
    place: str
    """The position of the ACL in the proposal that makes the change; empty if none does."""


class ExplainedAnswer(NamedTuple):
    """A decision that refutes a claim."""

    text: str
    place: str
    command: str


@dataclass(frozen=True, slots=True)
class Claim:
    """A claim, proved or refuted."""

    text: str
    line: int
    proved: bool
    shown: tuple[ExplainedAnswer, ...]


@dataclass(frozen=True, slots=True)
class Claims:
    """The claims, or the reason why none could be judged."""

    error: str
    findings: tuple[Finding, ...]
    notes: tuple[str, ...]
    claims: tuple[Claim, ...]

    @property
    def refuted(self) -> int:
        """The number of claims that do not hold."""
        return sum(not each.proved for each in self.claims)


@dataclass(frozen=True, slots=True)
class Assessment:
    """The result of an assessment."""

    revision: int
    """The policy compared with."""
    valid: bool
    findings: tuple[Finding, ...]
    findings_not_shown: int
    not_comparable: str
    """Why nothing was compared; empty if the policies were compared."""
    added_partitions: tuple[str, ...]
    removed_partitions: tuple[str, ...]
    changes: tuple[Change, ...]
    changes_not_shown: int
    claims: Claims | None
    by_people: bool
    incomplete: tuple[str, ...]
    """Why people may be missing."""


@dataclass(frozen=True, slots=True)
class ChangePage:
    """The contents of the page."""

    text: str
    text_not_shown: bool
    claims_text: str
    by_people: bool
    source: int
    sources: tuple[str, ...]
    """The names of the policies that the server reads."""
    error: str
    assessment: Assessment | None


async def form(visit: Visit) -> View:
    """Show the page without a proposal."""
    names = _source_names(visit.services)
    return _view(ChangePage("", False, "", False, 0, names, "", None))


async def assess(visit: Visit) -> View:
    """Show the page with the assessment of a proposal."""
    posted, services = visit.form, visit.services
    # Browsers send CR LF line ends.
    text = (posted.get("file") or posted.get("policy", "")).replace("\r\n", "\n")
    claims = posted.get("claims", "").replace("\r\n", "\n")
    sources = services.settings.sources
    number = posted.get("source", "0")
    source = int(number) if number in map(str, range(len(sources))) else 0
    by_people = "people" in posted
    assessment, error = None, ""
    if not text.strip():
        error = "Paste a policy, or choose a file."
    elif len(text.encode()) > MAX_CONTENT_BYTES:
        error = f"The policy is longer than {MAX_CONTENT_BYTES} bytes: run queuegate-server diff."
    elif len(claims.encode()) > MAX_CLAIMS_BYTES:
        error = f"The claims are longer than {MAX_CLAIMS_BYTES} bytes: run queuegate-server prove."
        claims = ""
    else:
        try:
            assessment = await _assessment(
                services, sources[source], text, claims, by_people=by_people
            )
        except ParserError as failed:
            error = f"The policy cannot be assessed: {failed} ({failed.remedy})"
        except OSError as failed:
            error = f"The policy cannot be assessed: {failed.strerror} ({remedy(failed)})"
    long = len(text) > MAX_SHOWN_TEXT
    page = ChangePage(
        "" if long else text,
        long,
        claims,
        by_people,
        source,
        _source_names(services),
        error,
        assessment,
    )
    return _view(page, 200 if assessment else 422)


def _view(page: ChangePage, status: int = 200) -> View:
    return View("change.html", "Change", page, status)


def _source_names(services: Services) -> tuple[str, ...]:
    return tuple(
        str(each.path or each.configs or each.defaults or "the embedded default")
        for each in services.settings.sources
    )


async def _assessment(
    services: Services, source: PolicySource, text: str, claims: str, *, by_people: bool
) -> Assessment:
    snapshot = services.engine.snapshot
    job = await _job(services, snapshot, source, text.encode(), claims)
    job = job._replace(wants_groups=by_people)
    result = await proposal.run(job)
    incomplete: list[str] = []
    compared = "changes" in result
    if by_people and compared and result["changes"]:
        if result["groups"] is None:
            by_people = False
            incomplete.append(
                f"More than {MAX_GROUPS} groups are involved: names are compared instead of people."
            )
        else:
            people = await _people(snapshot, result["groups"], incomplete)
            result = await proposal.run(job._replace(people=people, wants_groups=False))
    return Assessment(
        snapshot.policy.revision,
        result["valid"],
        _findings(result["findings"]),
        result["findings_not_shown"],
        result.get("not_comparable", ""),
        tuple(result.get("added_partitions", ())),
        tuple(result.get("removed_partitions", ())),
        tuple(map(_change, result.get("changes", ()))),
        result.get("changes_not_shown", 0),
        _claims(result["claims"]) if "claims" in result else None,
        by_people,
        tuple(incomplete),
    )


async def _job(
    services: Services, snapshot: Snapshot, source: PolicySource, text: bytes, claims: str
) -> ProposalJob:
    settings = services.settings
    site = None
    if source.yarn_site is not None:
        data = await asyncio.to_thread(read_regular, source.yarn_site, MAX_BYTES)
        site = File(str(source.yarn_site), data)
    name = "queues.yaml"
    if detect_bare_format(text) != YUNIKORN:
        name = source.path.name if source.path else "scheduler.xml"
    policy = PolicyText(
        File(name, text),
        source.format or "",
        source.partition,
        source.daemon_user,
        source.for_yarn,
        site,
        None,
    )
    parse = ParseJob(
        (policy,),
        "",
        {name: each.acl_names for name, each in settings.partitions.items()},
        {
            name: each.semantics
            for name, each in settings.partitions.items()
            if each.semantics is not Semantics.DOCUMENTED
        },
        _resolver_types(),
    )
    served = bytearray()
    for line in served_lines(snapshot.policy.partitions):
        served += line
        await asyncio.sleep(0)
    return ProposalJob(
        parse,
        bytes(served),
        len(settings.sources) == 1,
        File(_CLAIMS_NAME, claims.encode()) if claims.strip() else None,
        people=None,
        wants_groups=False,
    )


@functools.cache
def _resolver_types() -> frozenset[str]:
    # Looking for entry points takes up to 20 ms.
    return types()


async def _people(
    snapshot: Snapshot, groups: Mapping[str, list[str]], incomplete: list[str]
) -> Mapping[str, GroupsByUser]:
    """Return the members of groups by partition, and reasons why some may be missing."""
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


def _findings(entries: list[dict[str, Any]]) -> tuple[Finding, ...]:
    return tuple(Finding(**each) for each in entries)


def _change(entry: dict[str, Any]) -> Change:
    return Change(
        **{**entry, "gained": _side(entry["gained"]), "lost": _side(entry["lost"])},
    )


def _side(entry: dict[str, Any]) -> Side:
    return Side(
        entry["everyone"],
        tuple(Name(*each) for each in entry["names"]),
        entry["names_not_shown"],
        tuple(Name(*each) for each in entry["except"]),
        entry["except_not_shown"],
    )


def _claims(entry: dict[str, Any]) -> Claims:
    return Claims(
        entry["error"],
        _findings(entry["findings"]),
        tuple(entry["notes"]),
        tuple(
            Claim(
                each["text"],
                each["line"],
                each["proved"],
                tuple(ExplainedAnswer(**shown) for shown in each["shown"]),
            )
            for each in entry["proofs"]
        ),
    )


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
            # Each takes a child process, and perhaps a directory lookup.
            large_forms=Turns("proposals"),
        ),
    ),
)
