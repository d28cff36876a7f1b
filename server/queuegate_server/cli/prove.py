"""`queuegate-server prove`: proves claims about a policy, or gives counterexamples."""

import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import click

from queuegate.cli.documented_command import DocumentedCommand
from queuegate.cli.terminal import colors_for
from queuegate.policy.worlds import ClosedWorld, World
from queuegate_server.analysis.access_changes import counting
from queuegate_server.analysis.policy_file import PolicyFile
from queuegate_server.analysis.proofs import CannotProve, Proof, Prover
from queuegate_server.cli import EXIT_FAILURE, EXIT_INCOMPLETE, EXIT_NO, output_formats, policies
from queuegate_server.cli.command import (
    STDIN,
    Failure,
    config_option,
    old_site_option,
    read_or_fail,
    reading_options,
)
from queuegate_server.cli.output_formats import code
from queuegate_server.cli.users_from import (
    exit_status,
    groups_by_partition,
    read_users,
    users_from_option,
)
from queuegate_server.formats.acl_positions import Place
from queuegate_server.formats.claims import load_claims
from queuegate_server.formats.diagnostics import Diagnostic, Diagnostics, printable, quoted
from queuegate_server.formats.findings.finding import Severity
from queuegate_server.formats.registry import FormatOptions


@click.command(
    cls=DocumentedCommand,
    example="queuegate-server prove queues.yaml claims.yaml",
    exit_statuses={
        0: "all claims are proved",
        EXIT_NO: "a claim is refuted",
        EXIT_FAILURE: "incorrect usage, or an unreadable or invalid file",
        EXIT_INCOMPLETE: "all claims are proved, but the list of users is incomplete",
    },
)
@click.argument("policy", metavar="POLICY")
@click.argument("claims", metavar="CLAIMS")
@users_from_option
@config_option(
    "Read the policy, and look up groups for --users-from, as a server with this "
    "queuegate.yaml does.",
    variable=None,
)
@output_formats.output_option_with_markdown
@reading_options
@old_site_option
def prove(
    *,
    policy: str,
    claims: str,
    users_from: tuple[str, ...],
    config: Path | None,
    output: str,
    options: FormatOptions,
    old_yarn_site: Path | None,
) -> None:
    """Prove or refute claims about who may use which queues.

    CLAIMS is a file with claims about the policy in POLICY. A claim is a sentence such as `only
    group:ml may submit root.ml`, `never user:bob admin root` or `no new access compared with
    old.yaml`. It must hold for every possible user and set of groups, unless the file states facts
    such as `ml-admins within ml`, or --users-from lists the users that exist. With --old-yarn-site,
    `no new access compared with` uses that file for the old policy. A claim about a queue that does
    not exist is an error. Needs no server.

    A false claim is refuted by one counterexample, even if there are others: a person, a command
    that shows the decision for that person, and the file and line of the ACL that grants access.
    """
    if policy == claims == STDIN:
        raise Failure("only one of the two can be standard input")
    if config is not None:
        policies.refuse_reading_options()
        if old_yarn_site is not None:
            message = "--old-yarn-site: not allowed with --config; pass --yarn-site instead"
            raise click.UsageError(message, click.get_current_context())
    loaded = policies.load(policy, options, config)
    data, name = read_or_fail(claims)
    diagnostics = Diagnostics(name)
    stated = load_claims(data, diagnostics, name)
    if diagnostics.error_count:
        raise Failure.of("the claims are not valid:", diagnostics.sorted())

    def read_old(file: str) -> PolicyFile:
        return policies.load(str(Path(name).parent / file), options, config, old_yarn_site)

    try:
        prover = Prover(loaded, stated, name, read_old)
        world: World = stated.world
        extent, users = "", None
        if users_from:
            users = read_users(users_from)
            people = groups_by_partition(users, loaded.partitions, config, loaded.name)
            world = ClosedWorld(counting(prover.partition, people[prover.partition.name]))
            number = len(world.directory)
            if not number:
                raise Failure(f"{', '.join(users_from)}: no users, so every claim would hold")
            noun = "person" if number == 1 else "people"
            extent = f" (for the {number} {noun} in {', '.join(users_from)})"
        proofs = [*prover.proofs(world)]
    except CannotProve as error:
        raise Failure.of(str(error), error.diagnostics) from None
    for note in prover.notes:
        click.echo(f"note: {printable(note)}", err=True)
    output_formats.write(
        output,
        "prove",
        (_diagnostic(name, each) for each in proofs if each.refutation),
        text=_lines(name, proofs, extent),
        markdown=_markdown(proofs),
        document={"claims": [_document(name, each, prover) for each in proofs]},
    )
    sys.exit(exit_status(users, EXIT_NO if any(each.refutation for each in proofs) else 0))


def _lines(file: str, proofs: list[Proof], extent: str) -> Iterator[str]:
    colors = colors_for(sys.stdout)
    for each in proofs:
        verdict = colors.bad("refuted") if each.refutation else colors.good("proved")
        place = f"{file}:{each.stated.line}:{each.stated.column}"
        yield f"{printable(place)}: {verdict}: {printable(each.stated.text)}"
        for shown in each.shown:
            yield printable(f"  {shown.place}: {shown.text}")
            if shown.note:
                yield printable(f"  note: {shown.note}")
            yield f"  $ {printable(shown.command)}"
    refuted = sum(bool(each.refutation) for each in proofs)
    others = " (one counterexample each; there may be others)" if refuted else ""
    claims = f"{len(proofs)} claim{'' if len(proofs) == 1 else 's'}"
    yield f"{claims}: {refuted} refuted{printable(extent)}{others}"


def _document(file: str, proof: Proof, prover: Prover) -> Mapping[str, Any]:
    stated = proof.stated
    document: dict[str, Any] = {
        "claim": stated.text,
        "file": file,
        "line": stated.line,
        "column": stated.column,
        "proved": proof.refutation is None,
    }
    if proof.refutation:
        person = proof.refutation.person
        document["person"] = {
            "user": prover.policy.user(person),
            "groups": [*person.groups],
            "real_user": person.real_user,
        }
        document["decisions"] = [
            {
                "partition": prover.partition.name,
                "queue": shown.answer.use.queue,
                "access": str(shown.answer.use.access),
                "allowed": shown.answer.is_allowed,
                "text": shown.text,
                **shown.place._asdict(),
                "command": shown.command,
                "note": shown.note,
            }
            for shown in proof.shown
        ]
    return document


def _markdown(proofs: list[Proof]) -> Iterator[str]:
    yield "| claim | | one counterexample |"
    yield "|---|---|---|"
    for each in proofs:
        shown = "<br>".join(
            f"{code(each.text)} ({code(str(each.place))})<br>{code(each.command)}"
            for each in each.shown
        )
        verdict = "❌ refuted" if each.refutation else "✅ proved"
        yield f"| {code(each.stated.text)} | {verdict} | {shown} |"


def _diagnostic(file: str, proof: Proof) -> Diagnostic:
    stated, shown = proof.stated, proof.shown
    place = next((each.place for each in shown if each.place.line), None)
    place = place or Place(file, stated.line, stated.column)
    facts = "; ".join(each.text for each in shown)
    message = f"{quoted(stated.text)} ({file}:{stated.line}) is refuted, for example: {facts}"
    remedy = "; ".join(each.command for each in shown)
    queue = shown[0].answer.use.queue
    return Diagnostic(
        *place, Severity.ERROR, message, f"see it with: {remedy}", queue, "claim-refuted"
    )
