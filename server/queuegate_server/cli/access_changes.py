"""Options and output of `diff --people`."""

import re
from collections.abc import Iterable, Iterator
from typing import Final

import click

from queuegate.policy.reach import SubjectKind
from queuegate.policy.worlds import Subject
from queuegate_server.analysis.access_changes import AccessChange, AllowedGain
from queuegate_server.cli.findings import code

_ALLOWED: Final = re.compile(r"(?:(user|group|proxy):(.+)|everyone):(root(?:\..+)?)")


def parse_allowed(
    _: click.Context, __: click.Parameter, values: tuple[str, ...]
) -> tuple[AllowedGain, ...]:
    """Return the values of `--allow-gain`. Raises click.BadParameter."""
    gains = []
    for value in values:
        match = _ALLOWED.fullmatch(value)
        if match is None:
            message = f"{value!r} is not SUBJECT:QUEUE: write for example group:ml:root.ml"
            raise click.BadParameter(message)
        kind = SubjectKind(match[1]) if match[1] else SubjectKind.EVERYONE
        gains.append(AllowedGain(Subject(kind, match[2] or "*"), match[3]))
    return tuple(gains)


def markdown(changes: Iterable[AccessChange], fail_on: str) -> Iterator[str]:
    """Yield the lines of a Markdown table for a pull request comment."""
    rows = [*changes]
    if not rows:
        yield "Nobody gains or loses access to a queue."
        return
    yield "| | queue | access | gain | lose | queues below |"
    yield "|---|---|---|---|---|---|"
    for each in rows:
        mark = "❌" if each.fails(fail_on) else "✅"
        cells = (code(side.in_words("")[1:]) if side else "" for side in (each.gained, each.lost))
        below = f"{each.below}" + (f" (+ {each.partly_below} partly)" if each.partly_below else "")
        queue = code(f"{each.partition}: {each.queue}")
        yield f"| {mark} | {queue} | {each.access} | {' | '.join(cells)} | {below} |"
