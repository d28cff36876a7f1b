"""Render a server's policy, fleet and diagnostics as text."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from queuegate._results import (
    Diagnostic,
    FleetGate,
    FleetInfo,
    PolicyInfo,
    PolicyQueue,
    Replica,
    ReplicaRole,
    ReplicaState,
    Severity,
)
from queuegate.cli.render import moment
from queuegate.cli.terminal import Colors, escape
from queuegate.policy.decision import Access

_CHECKSUM_SHOWN: Final = 12
"""The number of checksum characters to show."""
_NOUNS: Final = {Access.SUBMIT: "submission", Access.ADMIN: "administration"}


def policy_lines(answer: PolicyInfo, colors: Colors) -> Iterator[str]:
    """Yield lines with a policy's source, queues and diagnostics."""
    yield f"source      {escape(answer.source)}"
    yield f"revision    {answer.revision}"
    if answer.loaded_at:
        yield f"loaded      {moment(answer.loaded_at)}"
    yield f"checksum    {escape(answer.checksum)}"
    yield f"resolver    {escape(answer.resolver)}"
    yield f"partitions  {', '.join(escape(name) for name in answer.partitions)}"
    yield ""
    yield from unenforced_acls(answer)
    for queue in answer.queues:
        yield _queue(queue, colors)
    if answer.templates:
        yield ""
        yield "queues that will be created below"
        for template in answer.templates:
            text = f"  {escape(template.path)}  {colors.faint(escape(template.kind))}"
            for kind, acl in (("submit", template.submit_acl), ("admin", template.admin_acl)):
                text += f"  {colors.faint(kind)} '{escape(acl)}'" if acl is not None else ""
            yield text
    if answer.diagnostics:
        yield ""
        yield from diagnostic_lines(answer.diagnostics, colors)
    if answer.reload_failed_at:
        yield ""
        yield colors.bad(f"the reload at {moment(answer.reload_failed_at)} failed:")
        yield from diagnostic_lines(answer.reload_diagnostics, colors)


def unenforced_acls(answer: PolicyInfo) -> Iterator[str]:
    """Yield a note if YARN does not enforce all of the policy's ACLs."""
    if answer.unenforced:
        enforced = [noun for access, noun in _NOUNS.items() if access not in answer.unenforced]
        extent = f"these ACLs only for {enforced[0]}" if enforced else "none of these ACLs"
        yield f"note: YARN enforces {extent}, because yarn.acl.enable is not true"


def fleet_lines(answer: FleetInfo, colors: Colors) -> Iterator[str]:
    """Yield lines that describe a fleet's replicas and gates."""
    for replica in answer.replicas:
        yield _replica_line(replica, colors)
        yield f"  {', '.join(_replica_notes(replica))}"
        for row in replica.queue_decisions:
            mode = f" ({escape(row.mode)})" if row.mode else ""
            yield (
                f"  {escape(row.scheduler)}{mode}: {row.allowed} allowed, {row.denied} denied,"
                f" {row.warned} warned, {row.failed} failed"
            )
    yield from _gates(answer.gates, colors)


def _replica_line(replica: Replica, colors: Colors) -> str:
    """Return a line with a replica's name and state."""
    paint, state = colors.bad, str(replica.state)
    match replica.state:
        case ReplicaState.SILENT:
            silence = f"{state} for {replica.silent_seconds:.0f} s"
            state = "alone" if replica.is_self else silence
        case ReplicaState.STARTING:
            paint, state = colors.doubtful, "starting: it has not joined the fleet yet"
        case ReplicaState.FOLLOWING:
            paint = colors.good
    return f"{escape(replica.name)}{' (this server)' if replica.is_self else ''}  {paint(state)}"


def _replica_notes(replica: Replica) -> Iterator[str]:
    """Yield what a replica runs and serves."""
    if replica.role is not ReplicaRole.UNKNOWN:
        yield str(replica.role)
    yield f"queuegate {escape(replica.version)}"
    has_gates = replica.role is not ReplicaRole.WEBHOOK
    if has_gates and replica.state is not ReplicaState.SILENT:
        yield _pluralize(replica.gates, "gate")
    if replica.lag:
        yield f"{_pluralize(replica.lag, 'change')} behind"
    if replica.http_addresses:
        yield f"HTTP on {escape(' '.join(replica.http_addresses))}"
    checksum = escape(replica.policy_checksum[:_CHECKSUM_SHOWN]) or "none"
    yield f"policy {checksum} revision {replica.policy_revision}"


def _gates(gates: Iterable[FleetGate], colors: Colors) -> Iterator[str]:
    """Yield two lines for each gate: its name, and what it has decided."""
    for gate in gates:
        place = f" (replica {escape(gate.replica)})" if gate.replica else ""
        yield f"gate {escape(gate.name) or '-'}{place}"
        notes = [f"caller {escape(gate.caller)}"]
        notes += [escape(gate.agent)] if gate.agent else []
        if gate.stale:
            notes.append(f"may use its last state for {gate.stale:g} s")
        if gate.decided is not None:
            notes.append(f"{_pluralize(gate.decided, 'decision')}, {gate.decided_stale} stale")
        if gate.fallbacks is not None:
            count = _pluralize(gate.fallbacks, "fallback")
            notes.append(colors.doubtful(count) if gate.fallbacks else count)
        yield f"  {', '.join(notes)}"


def _pluralize(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _queue(queue: PolicyQueue, colors: Colors) -> str:
    """Return a line with a queue's ACLs, and the names in them that never match."""
    name = queue.path.rpartition(".")[2]
    indent = "  " * queue.path.count(".")
    text = f"{indent}{escape(name)}"
    for kind, acl, dropped in (
        ("submit", queue.submit_acl, queue.submit_acl_dropped_names),
        ("admin", queue.admin_acl, queue.admin_acl_dropped_names),
    ):
        if acl:
            text += f"  {colors.faint(kind)} '{escape(acl)}'"
        if dropped:
            names = ", ".join(escape(entry) for entry in dropped)
            text += colors.doubtful(f" (never match: {names})")
    return text


def diagnostic_lines(entries: Sequence[Diagnostic], colors: Colors) -> Iterator[str]:
    """Yield diagnostics, one per line: `file:line:column: severity: message (remedy)`."""
    for diagnostic in entries:
        place = f"{escape(diagnostic.file)}:" if diagnostic.file else ""
        place += f"{diagnostic.line}:{diagnostic.column}:" if diagnostic.line else ""
        place += " " if place else ""
        color = colors.bad if diagnostic.severity is Severity.ERROR else colors.doubtful
        remedy = f" ({escape(diagnostic.remedy)})" if diagnostic.remedy else ""
        yield f"{place}{color(diagnostic.severity)}: {escape(diagnostic.message)}{remedy}"
