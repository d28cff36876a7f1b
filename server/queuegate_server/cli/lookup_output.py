"""Prints the steps and the outcome of a lookup that `source-check` runs."""

from collections.abc import Iterable
from typing import Protocol

import click

from queuegate.cli.terminal import join_names, unlistable
from queuegate_server.formats.diagnostics import printable
from queuegate_server.formats.suspicious_names import OTHER_WHITE_SPACE
from queuegate_server.identity.resolver import KnownUser, NoSuchUser, Outcome


class Step(Protocol):
    """A timed step of a lookup."""

    @property
    def name(self) -> str:
        """What the step does."""

    @property
    def seconds(self) -> float:
        """How long the step took."""

    @property
    def detail(self) -> str:
        """A description of the result."""

    @property
    def fault(self) -> str:
        """The cause of a failure; empty on success."""

    @property
    def advice(self) -> str:
        """What to do about the failure."""


def show_step(step: Step) -> None:
    """Print a step, its duration and its result."""
    mark = "FAIL" if step.fault else "ok"
    detail = printable(step.fault or step.detail)
    click.echo(f"  {mark:<4}  {step.name:<13}  {step.seconds * 1000:7.1f} ms  {detail}")
    if step.fault and step.advice:
        click.echo(f"        advice: {step.advice}")


def show_outcome(
    outcome: Outcome,
    notes: Iterable[str] = (),
    warnings: Iterable[str] = (),
    *,
    is_for_yunikorn: bool = False,
) -> None:
    """Print a lookup's outcome, warnings about groups that users may have by mistake, and notes.

    `is_for_yunikorn` says whether a policy is for YuniKorn, whose ACLs accept fewer names.
    """
    more: list[str] = []
    if isinstance(outcome, KnownUser):
        groups = outcome.groups
        click.echo(f"  groups ({len(groups)}): {join_names(groups) or 'none'}")
        more += filter(None, [unlistable(groups), _spaced(groups) if is_for_yunikorn else ""])
    elif isinstance(outcome, NoSuchUser):
        click.echo(f"  no such user: {printable(outcome.detail)}")
    else:
        click.echo(f"  lookup failed: {printable(outcome.detail)}")
    for warning in warnings:
        click.echo(f"  warning: {printable(warning)}")
    for note in (*notes, *more):
        click.echo(f"  note: {printable(note)}")


def _spaced(groups: Iterable[str]) -> str:
    """Return a note on names with spaces or other white space; "" if there are none."""
    listable = [name for name in groups if "," not in name]
    spaced = [name for name in listable if " " in name.strip()]
    others = [name for name in listable if OTHER_WHITE_SPACE.search(name) and name not in spaced]
    notes = []
    if spaced:
        notes.append(
            f"no ACL of a queues.yaml can list {join_names(spaced)}: a space separates users from "
            "groups; use groups without spaces"
        )
    if others:
        notes.append(
            f"YuniKorn ignores {join_names(others)} in an ACL: the name contains white space other "
            "than spaces; use groups without white space"
        )
    return "; ".join(notes)
