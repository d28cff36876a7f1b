"""`queuegate-server prove`: proves claims about a policy, or shows who refutes them."""

import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from queuegate.cli.documents import to_json
from queuegate.cli.terminal import colours_for
from queuegate.policy.claims import Answer, Refutation, Use, Uses, refute
from queuegate.policy.decide import decide
from queuegate.policy.decision import IN_RECOVERY_QUEUE
from queuegate.policy.names import DEFAULT_PARTITION
from queuegate.policy.reach import grant_of
from queuegate.policy.tree import Partition
from queuegate.policy.worlds import ClosedWorld, Person, World
from queuegate_server.cli import EXIT_NO, findings, policies
from queuegate_server.cli.command import (
    STDIN,
    Failure,
    config_option,
    read_or_fail,
    reading_options,
    resolver_types_option,
)
from queuegate_server.cli.findings import MARKDOWN, code
from queuegate_server.cli.policies import PolicyFile
from queuegate_server.cli.users_from import read_users, users_from_option
from queuegate_server.formats.acl_positions import Place
from queuegate_server.formats.claims import BadClaim, ClaimsFile, StatedClaim, bind, load_claims
from queuegate_server.formats.diagnostics import (
    Diagnostic,
    Diagnostics,
    Severity,
    printable,
    quoted,
)
from queuegate_server.formats.registry import FormatOptions


@dataclass(frozen=True, slots=True)
class Shown:
    """A decision that refutes a claim, and how to see it."""

    text: str
    place: Place
    command: str
    answer: Answer


@dataclass(frozen=True, slots=True)
class Proof:
    """A claim, proved or refuted."""

    stated: StatedClaim
    refutation: Refutation | None
    shown: tuple[Shown, ...] = ()


@click.command()
@click.argument("policy", metavar="POLICY")
@click.argument("claims", metavar="CLAIMS")
@users_from_option
@config_option(
    "Read the policy, and look up groups for --users-from, as a server with this queuegate.yaml.",
    variable=None,
)
@findings.output_option_with_markdown
@reading_options
@resolver_types_option
def prove(
    *,
    policy: str,
    claims: str,
    users_from: tuple[str, ...],
    config: Path | None,
    output: str,
    options: FormatOptions,
) -> None:
    """Prove each claim of the file CLAIMS about the POLICY for everybody, or refute it.

    Needs no server. A claim is a sentence such as `only group:ml may submit root.ml`, `never
    user:bob admin root` or `no new access compared with old.yaml`. It holds for every user with
    any groups, unless the file states facts such as `ml-admins within ml`, or --users-from says
    who exists.

    A claim that does not hold is refuted by a person whom it excludes: with the command that
    shows the decision about them, and the place of the ACL that lets them in.

    Exit status: 0 all claims proved, 1 a claim is refuted, 2 wrong usage, or a file that cannot
    be read or is not valid.
    """
    if policy == claims == STDIN:
        raise Failure("only one of the two can be standard input")
    loaded = policies.load(policy, options, config)
    data, name = read_or_fail(claims)
    diagnostics = Diagnostics(name)
    stated = load_claims(data, diagnostics, name)
    if diagnostics.error_count:
        raise Failure.of("the claims are not valid:", diagnostics.sorted())
    prover = _Prover(loaded, stated, name, options, config)
    world: World = stated.world
    if users_from:
        world = ClosedWorld(read_users(users_from, config, loaded)[prover.partition.name])
    proofs = [*prover.proofs(world)]
    for note in prover.notes:
        click.echo(f"note: {printable(note)}", err=True)
    _write(output, name, proofs, prover)
    sys.exit(EXIT_NO if any(each.refutation for each in proofs) else 0)


class _Prover:
    def __init__(
        self,
        policy: PolicyFile,
        stated: ClaimsFile,
        file: str,
        options: FormatOptions,
        config: Path | None,
    ) -> None:
        self.policy = policy
        self.file = file
        self.notes: list[str] = []
        self._stated = stated
        self._options = options
        self._config = config
        self._old: dict[str, PolicyFile] = {}
        self.partition = self._partition(policy)

    def _partition(self, policy: PolicyFile) -> Partition:
        """Return the partition that the claims are about. Raises Failure."""
        partitions, name = policy.partitions, self._stated.partition
        if not name:
            name = next(iter(partitions)) if len(partitions) == 1 else DEFAULT_PARTITION
        if name not in partitions:
            known = ", ".join(map(quoted, partitions)) or "none"
            message = f"{policy.name}: there is no partition {quoted(name)}; it has {known}"
            raise Failure(f"{message}: write `partition: NAME` in {self.file}")
        return partitions[name]

    def old(self, name: str) -> PolicyFile:
        """Return the policy of a file that a claim names, relative to the claims."""
        if name not in self._old:
            path = str(Path(self.file).parent / name)
            found = self._old[name] = policies.load(path, self._options, self._config)
            if found.is_yunikorn is not self.policy.is_yunikorn:
                raise Failure(f"{path}: one policy is YuniKorn's and the other YARN's")
        return self._old[name]

    def proofs(self, world: World) -> Iterator[Proof]:
        """Yield each claim, proved or refuted. Raises Failure."""
        for stated in self._stated.claims:
            try:
                claim = bind(stated, self.partition, lambda name: self._partition(self.old(name)))
            except BadClaim as error:
                found = Diagnostic(
                    self.file, stated.line, stated.column, Severity.ERROR, str(error)
                )
                raise Failure.of("the claims are not valid:", [found]) from None
            self._note_missing(stated, claim)
            refutation = refute(self.partition, claim, world)
            shown = tuple(self._shown(stated, refutation)) if refutation else ()
            yield Proof(stated, refutation, shown)

    def _note_missing(self, stated: StatedClaim, claim: object) -> None:
        """Note queues that do not exist: a name may be misspelt."""
        names = ("uses", "first", "second", "inner", "outer")
        for use in (getattr(claim, name, None) for name in names):
            if not isinstance(use, Use | Uses) or use.queue in self.partition.queues:
                continue
            text = f"{self.file}:{stated.line}: queue {quoted(use.queue)} does not exist"
            if self.partition.chain(use.queue, use.access).otherwise is not IN_RECOVERY_QUEUE:
                text += f"; decided at {self.partition.nearest_path(use.queue)}"
            self.notes.append(text)

    def _shown(self, stated: StatedClaim, refutation: Refutation) -> Iterator[Shown]:
        person = refutation.person
        for answer in refutation.answers:
            policy = self.policy
            if answer.is_old:
                policy = self.old(stated.match["file"].strip('"'))
            yield self._answer(policy, person, answer)

    def _answer(self, policy: PolicyFile, person: Person, answer: Answer) -> Shown:
        partition = self._partition(policy)
        access, queue = answer.use
        command = policy.command(partition.name, person, answer)
        verb = f"{'may' if answer.is_allowed else 'may not'} {access} {queue}"
        place, why = Place(policy.name), "no ACL from the queue up to the root lists them"
        user = policy.user(person)
        decision = decide(partition, queue, access, user, person.groups, real_user=person.real_user)
        if decision is not None and decision.allowed:
            grant = grant_of(partition, access, decision, user)
            place, why = policy.place(partition.name, grant), policies.in_words(grant)
        return Shown(f"{_described(user, person)} {verb}: {why}", place, command, answer)


def _described(user: str, person: Person) -> str:
    text = user
    if person.groups:
        text += f" in {', '.join(person.groups)}"
    if person.real_user:
        text += f" by way of {person.real_user}"
    return text


def _write(output: str, file: str, proofs: list[Proof], prover: _Prover) -> None:
    refuted = [each for each in proofs if each.refutation]
    if output == findings.TEXT:
        _print(file, proofs)
        plural = "" if len(proofs) == 1 else "s"
        click.echo(f"{len(proofs)} claim{plural}: {len(refuted)} refuted")
    elif output == findings.JSON:
        click.echo(to_json({"claims": [_document(file, each, prover) for each in proofs]}))
    elif output == MARKDOWN:
        click.echo("\n".join(_markdown(proofs)))
    else:
        diagnostics = [_diagnostic(file, each) for each in refuted]
        findings.write(output, "prove", diagnostics, {})


def _print(file: str, proofs: list[Proof]) -> None:
    colours = colours_for(sys.stdout)
    for each in proofs:
        verdict = colours.bad("refuted") if each.refutation else colours.good("proved")
        place = f"{file}:{each.stated.line}:{each.stated.column}"
        click.echo(f"{printable(place)}: {verdict}: {printable(each.stated.text)}")
        for shown in each.shown:
            click.echo(printable(f"  {shown.place}: {shown.text}"))
            click.echo(f"  $ {printable(shown.command)}")


def _document(file: str, proof: Proof, prover: _Prover) -> Mapping[str, Any]:
    stated = proof.stated
    found: dict[str, Any] = {
        "claim": stated.text,
        "file": file,
        "line": stated.line,
        "column": stated.column,
        "proved": proof.refutation is None,
    }
    if proof.refutation:
        person = proof.refutation.person
        found["person"] = {
            "user": prover.policy.user(person),
            "groups": [*person.groups],
            "real_user": person.real_user,
        }
        found["decisions"] = [
            {
                "partition": prover.partition.name,
                "queue": shown.answer.use.queue,
                "access": str(shown.answer.use.access),
                "allowed": shown.answer.is_allowed,
                "text": shown.text,
                **shown.place._asdict(),
                "command": shown.command,
            }
            for shown in proof.shown
        ]
    return found


def _markdown(proofs: list[Proof]) -> Iterator[str]:
    yield "| claim | | shown by |"
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
    message = f"{quoted(stated.text)} ({file}:{stated.line}) is refuted: {facts}"
    remedy = "; ".join(each.command for each in shown)
    return Diagnostic(
        *place, Severity.ERROR, message, f"see it with: {remedy}", shown[0].answer.use.queue
    )
