"""Writes all measurements as one Markdown document."""

from collections.abc import Sequence
from typing import Final, NamedTuple

from bench.results import Part, Table, Target

MARK: Final = "<!-- make bench writes all that follows -->"
"""The text above it in the document is kept: comparisons that need another checkout."""
_HOW_TO_READ: Final = """\
- A figure such as `5,800 (5,700 to 5,900)` is the median of all rounds, with the smallest and
  largest. A ratio is the median of the ratios within each round, in which everything in a table
  is measured in turn (in reverse order in every other round).
- The fixed loop shows how steady the machine was: where its longest time is far above its
  shortest, other machines used part of the processor, and only ratios within a round are
  meaningful.
- The bare handler is a `grpc.aio` server with the same event loop (uvloop), options and
  raw-bytes codecs that returns constant bytes, as many as a real answer has. It runs with
  gRPC's defaults. Comparison with the bare handler with *gRPC set as ours* shows the cost of
  our server itself; the rest of the ratio is what that setting saves.
- A server that is measured under load has one core to itself, and the load generator has the
  others. *Core busy* is the share of its core that the server used: if it is well below 100%,
  the load generator was the bottleneck, and the servers' calls/s differ less than they really
  would. *CPU* is the server's processor time per call, from the kernel's accounting of all its
  threads; *CPU ratio* compares it with the bare handler's (smaller is better).
- *checks/s on one core* is checks divided by that processor time.
- Real traffic is between *asked before* (the response cache answers everything) and *never
  asked before* (it answers nothing). A question is answered from the cache if it has been
  answered before on the same policy and the groups that it depends on are still fresh.
- Policies, users and questions are generated, and are the same in each run, so every answer is
  known: before a server is measured, its answers to thousands of questions are compared with
  the correct ones, and any failed call ends the measurement."""


class ReportPart(NamedTuple):
    """A part, and the command that measures it alone."""

    command: str
    part: Part


def markdown(
    measured: Sequence[ReportPart],
    facts: Sequence[tuple[str, str]],
) -> str:
    """Return the document. The facts describe the machine and the run."""
    targets = [target for one in measured for target in one.part.targets]
    machine = Table("", "", ("what", "value"), [list(fact) for fact in facts])
    parts = [
        MARK,
        "Written by `make bench`. The last section explains how to read it.",
        "## Targets",
        _targets(targets).markdown(),
        "## Machine and versions",
        machine.markdown(),
    ]
    for command, part in measured:
        for table in part.tables:
            parts += [
                f"## {table.title}",
                f"`{command}`",
                table.note,
                table.markdown(),
            ]
        parts += part.remarks
    return "\n\n".join([*parts, "## How to read it", _HOW_TO_READ]) + "\n"


def _targets(targets: Sequence[Target]) -> Table:
    table = Table("", "", ("what", "goal", "reached", ""))
    for target in targets:
        table.add(target.what, target.goal, target.reached, "yes" if target.is_met else "**no**")
    return table
