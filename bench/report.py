"""Puts everything that was measured into one Markdown document."""

from collections.abc import Sequence
from typing import Final, NamedTuple

from bench.results import Part, Table, Target

MARK: Final = "<!-- make bench writes all that follows -->"
"""The text above it in the document is kept: comparisons that need another checkout."""
_HOW_TO_READ: Final = """\
- A figure such as `5,800 (5,700 to 5,900)` is the median of all rounds, with the smallest and
  the largest. Ratios are taken within each round, in which everything of a table is measured
  in turn (every other round in reverse order), and then their median is shown.
- The fixed loop shows how even the machine was: where its longest time is far above its shortest,
  other machines' work took a part of the processor, and only ratios within a round say something.
- The bare handler is a `grpc.aio` server with the same event loop (uvloop), options and
  raw-bytes codecs that returns constant bytes, as many as a real answer has. gRPC is set for it
  as it comes. What our server itself needs is seen beside the bare handler with *gRPC set as
  ours*: the rest of the ratio is what that setting saves.
- Where a server is measured under load, it has one core for itself, and the load generator
  has the other ones. *Core busy* says which part of its core the server used: well below
  100 %, the load generator was the slower one, and calls/s of both servers are then nearer to
  each other than they really are. *CPU* is the processor time of the server for one call, from
  the kernel's account of all its threads; *CPU ratio* compares it to the bare handler's
  (smaller is better).
- *checks/s on one core* is checks divided by that processor time.
- Real traffic is between *asked before* (the response cache answers everything) and *never
  asked before* (it answers nothing). A question is answered from the cache if the same question
  has been answered on the same policy, and as long as the groups that it depends on are fresh.
- Policies, users and questions are generated, the same ones in each run, and every answer is
  known: before a server is measured, its answers to thousands of questions are compared with
  what they must be, and any call that fails ends the measurement."""


class Measured(NamedTuple):
    """A part, and the command that measures it alone."""

    command: str
    part: Part


def markdown(
    measured: Sequence[Measured],
    facts: Sequence[tuple[str, str]],
) -> str:
    """Return the document. The facts describe the machine and the run."""
    targets = [target for one in measured for target in one.part.targets]
    machine = Table("", "", ("what", "value"), [list(fact) for fact in facts])
    parts = [
        MARK,
        "Written by `make bench`. How to read it: at the end.",
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
