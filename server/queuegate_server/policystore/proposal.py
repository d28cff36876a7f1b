"""Assesses a proposed policy: its diagnostics, changes in access, and claims about it.

Because the proposal is untrusted, a child process compares it with the served policies. It returns
a result of bounded size, in lines that each take about a millisecond to decode.
"""

import asyncio
import io
import itertools
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, Final, NamedTuple

from queuegate.policy.chain import CLUSTER
from queuegate.policy.decision import Access
from queuegate.policy.difference import walk
from queuegate.policy.names import parent_path
from queuegate.policy.tree import Partition
from queuegate_server.analysis.access_changes import (
    AffectedPeople,
    GroupsByUser,
    access_changes,
    partition_pairs,
)
from queuegate_server.analysis.policy_file import PolicyFile
from queuegate_server.analysis.proofs import CannotProve, Proof, Prover
from queuegate_server.formats.acl_positions import AclKey, Place
from queuegate_server.formats.claims import load_claims
from queuegate_server.formats.detection import detect_policy_format
from queuegate_server.formats.diagnostics import (
    Diagnostic,
    Diagnostics,
    has_errors,
    shortened,
    sort_diagnostics,
)
from queuegate_server.formats.registry import lint_policy
from queuegate_server.policystore import parser_process
from queuegate_server.policystore.parser_child import encode_result, end_child, json_line
from queuegate_server.policystore.parsing import File, ParsedPolicies, ParseJob, parse
from queuegate_server.runtime.pacing import Pace

SERVED: Final = "the served policy"
MAX_FINDINGS: Final = 200
MAX_CHANGES: Final = 200
MAX_NAMES: Final = 50
"""The maximum number of names in one change."""
MAX_CLAIMS: Final = 200
MAX_GROUPS: Final = 2_000
"""The maximum number of groups whose members are listed to compare people."""
MAX_NAME_BYTES: Final = 1_024
"""The maximum length of a name, as in requests."""
MAX_TEXT: Final = 1_000
"""The maximum length of a string, such as a name or a claim."""
MAX_PATH: Final = 4_096
"""The maximum length of a path or command. It is higher than `MAX_TEXT` because a truncated path or
command is useless."""
MAX_LIST_BYTES: Final = 1024 * 1024
"""The maximum JSON size of the changes, and of the refuting decisions."""
MAX_RESULT_BYTES: Final = 8 * 1024 * 1024
_LINE_BYTES: Final = 16 * 1024
_COMPLETE: Final = frozenset({"command", "queue", "place"})
"""Keys whose values are paths or commands and may therefore be as long as `MAX_PATH`."""


class ProposalJob(NamedTuple):
    """A proposed policy, and the served policies to compare it with."""

    job: ParseJob
    """A job whose only text is the proposed policy."""
    served: bytes
    """The served partitions, as encoded by `served_lines`."""
    replaces_all: bool
    """Whether the proposal removes partitions that it does not define."""
    claims: File | None
    people: Mapping[str, GroupsByUser] | None
    """Each partition's users with their groups; None to compare names instead of people."""
    wants_groups: bool
    """Whether to return the groups whose members affect who gains or loses access."""


def served_lines(partitions: Mapping[str, Partition]) -> Iterator[bytes]:
    """Encode partitions as lines, taking about a millisecond each so that the caller can pause."""
    plain = ParsedPolicies(partitions, {}, (), {}, {}, "")
    return encode_result(plain)


async def run(job: ProposalJob) -> dict[str, Any]:
    """Run `assess` in a child process. Other tasks can run while the result is decoded.

    Raises ParserError if the child reaches a limit or crashes, and OSError if no child can be
    started.
    """
    output = await parser_process.run_job(__name__, job, MAX_RESULT_BYTES)
    result: dict[str, Any] = {}
    pace = Pace()
    for line in io.BytesIO(output):
        (*above, name), value = json.loads(line)
        holder = result
        for each in above:
            holder = holder[each]
        if isinstance(value, list):
            holder.setdefault(name, []).extend(value)
        else:
            holder[name] = value
        await pace.pause_if_due()
    return result


def run_child() -> None:
    """Read a job from standard input, write the proposal's assessment, and exit."""
    end_child(lambda job: _lines((), _cut_texts(assess(job))))


def _lines(above: tuple[str, ...], result: Mapping[str, Any]) -> Iterator[bytes]:
    """Encode the result as lines of JSON, each containing a value and the keys that lead to it.

    Long lists are split into several lines.
    """
    for name, value in result.items():
        path = (*above, name)
        if isinstance(value, dict):
            yield json_line(path, {})
            yield from _lines(path, value)
        elif isinstance(value, list):
            yield json_line(path, [])
            for part in _parts(value):
                yield json_line(path, part)
        else:
            yield json_line(path, value)


def _parts(items: Iterable[Any]) -> Iterator[list[Any]]:
    part: list[Any] = []
    size = 0
    for item in items:
        part.append(item)
        size += len(json.dumps(item))
        if size > _LINE_BYTES:
            yield part
            part, size = [], 0
    if part:
        yield part


def _cut_texts(value: Any, key: str = "") -> Any:
    """Return a JSON value with its long strings truncated."""
    if isinstance(value, str):
        return shortened(value, MAX_PATH if key in _COMPLETE else MAX_TEXT)
    if isinstance(value, dict):
        return {name: _cut_texts(each, name) for name, each in value.items()}
    if isinstance(value, list):
        return [_cut_texts(each, key) for each in value]
    return value


def _some(entries: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return as many leading entries as fit within the size limit."""
    first = []
    size = 0
    for entry in entries:
        size += len(json.dumps(_cut_texts(entry)))
        if size > MAX_LIST_BYTES:
            break
        first.append(entry)
    return first


class _ServedPolicy(PolicyFile):
    """The served policy. Its source text is unknown, so its ACLs have no positions."""

    @cached_property
    def positions(self) -> Mapping[AclKey, Place]:
        return {}

    def reading_words(self, partition: str) -> Sequence[str]:
        del partition
        return ()


def assess(proposal: ProposalJob) -> dict[str, Any]:
    """Return a proposal's diagnostics, its changes in access, and the proofs of its claims."""
    job = proposal.job
    [text] = job.texts
    name, data = text.policy
    format_name = text.format or detect_policy_format(data)
    parsed = parse(job)
    diagnostics = list(parsed.diagnostics)
    valid = not has_errors(diagnostics)
    if valid:
        lint = lint_policy(format_name, data, name, text.options)
        # Remove duplicates, because the loader and the linter may report the same problem.
        diagnostics = sort_diagnostics(dict.fromkeys((*diagnostics, *lint)))
    result: dict[str, Any] = {
        "valid": valid,
        "findings": [*map(_finding, diagnostics[:MAX_FINDINGS])],
        "findings_not_shown": max(0, len(diagnostics) - MAX_FINDINGS),
    }
    if not valid:
        return result
    served = asyncio.run(parser_process.decode(io.BytesIO(proposal.served))).partitions
    new = PolicyFile(name, data, format_name, text.options, parsed.partitions)
    old = {
        each: partition
        for each, partition in served.items()
        # The proposal does not replace a policy for the other scheduler.
        if (partition.cluster is None) is new.is_yunikorn
        and (proposal.replaces_all or each in parsed.partitions)
    }
    before = _ServedPolicy(SERVED, proposal.served, format_name, text.options, old)
    result |= _compared(before, new, proposal.people)
    if proposal.wants_groups:
        result["groups"] = _groups(before, new)
    if proposal.claims is not None:
        result["claims"] = _proved(before, new, proposal.claims)
    return result


def _compared(
    old: PolicyFile, new: PolicyFile, people: Mapping[str, GroupsByUser] | None
) -> dict[str, Any]:
    changes = [*access_changes(old, new, people, ())]
    shown = _some(
        {
            "partition": each.partition,
            "queue": each.queue,
            "access": str(each.access),
            "gained": _affected(each.gained),
            "lost": _affected(each.lost),
            "below": each.below,
            "partly_below": each.partly_below,
            "place": str(each.place) if each.place.line else "",
        }
        for each in changes[:MAX_CHANGES]
    )
    return {
        "added_partitions": _first(sorted(new.partitions.keys() - old.partitions)),
        "removed_partitions": _first(sorted(old.partitions.keys() - new.partitions)),
        "changes": shown,
        "changes_not_shown": len(changes) - len(shown),
    }


def _first(names: Sequence[str]) -> list[str]:
    """Return the first `MAX_NAMES` names. If there are more, append a note with their number."""
    more = [f"and {len(names) - MAX_NAMES} more"] if len(names) > MAX_NAMES else []
    return [*names[:MAX_NAMES], *more]


def _groups(old: PolicyFile, new: PolicyFile) -> dict[str, list[str]] | None:
    """Return `_groups_that_matter` by partition; None if there are too many groups in total."""
    groups = {
        name: sorted(_groups_that_matter(before, after))
        for name, before, after in partition_pairs(old, new)
    }
    return groups if sum(map(len, groups.values())) <= MAX_GROUPS else None


def _groups_that_matter(old: Partition, new: Partition) -> set[str]:
    """Return the groups whose members affect who gains or loses access."""
    paths = {queue.queue for access in Access for queue in walk(old, new, access)}
    waiting = [*paths]
    while waiting:
        if (above := parent_path(waiting.pop())) and above not in paths:
            paths.add(above)
            waiting.append(above)
    groups: set[str] = set()
    for partition in (old, new) if paths else ():
        if partition.cluster is not None:
            groups |= partition.cluster.admins.groups
        for path in paths - {CLUSTER}:
            queue = partition.queues.get(path)
            for each in partition.created(path) if queue is None else (queue,):
                groups |= each.submit_acl.groups | each.admin_acl.groups
    # Omit overlong names. Requests cannot contain them, and they are never looked up.
    return {name for name in groups if len(name.encode(errors="replace")) <= MAX_NAME_BYTES}


def _affected(side: AffectedPeople) -> dict[str, Any]:
    return {
        "everyone": side.everyone,
        "names": _cut(side.subjects),
        "names_not_shown": max(0, len(side.subjects) - MAX_NAMES),
        "except": _cut(side.but),
        "except_not_shown": max(0, len(side.but) - MAX_NAMES),
    }


def _cut(names: Sequence[str]) -> list[list[str]]:
    return [name.split(":", 1) for name in names[:MAX_NAMES]]


def _proved(old: PolicyFile, new: PolicyFile, claims: File) -> dict[str, Any]:
    diagnostics = Diagnostics(claims.name)
    stated = load_claims(claims.data, diagnostics, claims.name)
    if diagnostics.error_count:
        return _no_claims("the claims are not valid", diagnostics.sorted())
    if len(stated.claims) > MAX_CLAIMS:
        return _no_claims(
            f"there are {len(stated.claims)} claims, more than the {MAX_CLAIMS} that are checked"
            " here: use queuegate-server prove",
            (),
        )
    try:
        prover = Prover(new, stated, claims.name, lambda _: old)
        proofs = [*prover.proofs(stated.world)]
    except CannotProve as error:
        return _no_claims(str(error), error.diagnostics)
    return {
        "error": "",
        "findings": [],
        "notes": prover.notes[:MAX_FINDINGS],
        "proofs": _proofs(proofs),
    }


def _no_claims(error: str, diagnostics: Iterable[Diagnostic]) -> dict[str, Any]:
    shown = [*diagnostics][:MAX_FINDINGS]
    return {"error": error, "findings": [*map(_finding, shown)], "notes": [], "proofs": []}


def _proofs(proofs: Sequence[Proof]) -> list[dict[str, Any]]:
    """Return all proofs, with as many refuting decisions as fit within the size limit."""
    refuting = _some(
        {"text": each.text, "place": str(each.place), "command": each.command}
        for proof in proofs
        for each in proof.shown
    )
    shown = iter(refuting)
    return [
        {
            "text": proof.stated.text,
            "line": proof.stated.line,
            "proved": proof.refutation is None,
            "shown": [*itertools.islice(shown, len(proof.shown))],
        }
        for proof in proofs
    ]


def _finding(diagnostic: Diagnostic) -> dict[str, Any]:
    return {
        "place": str(Place(diagnostic.file, diagnostic.line, diagnostic.column)),
        "severity": str(diagnostic.severity),
        "message": diagnostic.message,
        "remedy": diagnostic.remedy,
    }
