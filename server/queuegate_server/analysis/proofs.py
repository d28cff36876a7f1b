"""Proves claims about a policy, or refutes them with reproducible decisions."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache

from queuegate.policy.claims import (
    Answer,
    Claim,
    Everyone,
    Never,
    Refutation,
    Use,
    Uses,
    refute,
)
from queuegate.policy.decide import decide
from queuegate.policy.decision import IN_RECOVERY_QUEUE
from queuegate.policy.explain import ambiguity
from queuegate.policy.names import DEFAULT_PARTITION
from queuegate.policy.reach import grant_of
from queuegate.policy.tree import Partition
from queuegate.policy.worlds import Person, World
from queuegate_server.analysis.policy_file import PolicyFile, in_words
from queuegate_server.formats.acl_positions import Place
from queuegate_server.formats.claims import BadClaim, ClaimsFile, StatedClaim, bind
from queuegate_server.formats.diagnostics import Diagnostic, quoted
from queuegate_server.formats.findings.finding import Severity


@dataclass(frozen=True, slots=True)
class Counterexample:
    """A decision that refutes a claim, with the command that reproduces the decision."""

    text: str
    place: Place
    command: str
    answer: Answer
    note: str = ""
    """Why reproducing the decision requires a resolver's groups; empty if it does not."""


@dataclass(frozen=True, slots=True)
class Proof:
    """A proved or refuted claim."""

    stated: StatedClaim
    refutation: Refutation | None
    shown: tuple[Counterexample, ...] = ()


class CannotProve(Exception):
    """The claims cannot be evaluated against the policy."""

    def __init__(self, message: str, diagnostics: Sequence[Diagnostic] = ()) -> None:
        """Create the error. `diagnostics` describes the invalid claims, with their positions."""
        super().__init__(message)
        self.diagnostics = diagnostics


class Prover:
    """Proves or refutes the claims about a policy in a claims file."""

    def __init__(
        self,
        policy: PolicyFile,
        stated: ClaimsFile,
        file: str,
        read_old: Callable[[str], PolicyFile],
    ) -> None:
        """Create a prover for the partition to which the claims apply.

        `read_old` loads the old policy from the file named in a claim. Raises CannotProve.
        """
        self.policy = policy
        self.file = file
        self.notes: list[str] = []
        self._stated = stated
        self._read_old = cache(read_old)
        self.partition = self._partition(policy)

    def _partition(self, policy: PolicyFile) -> Partition:
        """Return the partition to which the claims apply. Raises CannotProve."""
        partitions, name = policy.partitions, self._stated.partition
        if not name:
            name = next(iter(partitions)) if len(partitions) == 1 else DEFAULT_PARTITION
        if name not in partitions:
            known = ", ".join(map(quoted, partitions)) or "none"
            message = f"{policy.name}: there is no partition {quoted(name)}; it has {known}"
            raise CannotProve(f"{message}: write `partition: NAME` in {self.file}")
        return partitions[name]

    def _old_policy(self, name: str) -> PolicyFile:
        policy = self._read_old(name)
        if policy.system != self.policy.system:
            raise CannotProve(
                f"{policy.name}: one policy is for {policy.system} and the other for"
                f" {self.policy.system}"
            )
        return policy

    def proofs(self, world: World) -> Iterator[Proof]:
        """Prove or refute each claim. Raises CannotProve, before the first proof, if any claim is
        not valid.
        """
        claims = []
        faults = []
        for stated in self._stated.claims:
            try:
                claim = bind(
                    stated, self.partition, lambda name: self._partition(self._old_policy(name))
                )
                self._check_queues(stated, claim)
                claims.append((stated, claim))
            except BadClaim as error:
                faults.append(
                    Diagnostic(self.file, stated.line, stated.column, Severity.ERROR, str(error))
                )
        if faults:
            raise CannotProve("the claims are not valid:", faults)
        for stated, claim in claims:
            self._note_nobody(stated, claim, world)
            refutation = refute(self.partition, claim, world)
            shown = tuple(self._shown(stated, refutation)) if refutation else ()
            yield Proof(stated, refutation, shown)

    def _check_queues(self, stated: StatedClaim, claim: Claim) -> None:
        """Add a note about each queue of the claim that only YARN or YuniKorn will create.

        Raises BadClaim if another queue decides instead: the name may be misspelled, or may be
        that of a renamed queue, and then the claim would hold without protecting anything.
        """
        names = ("uses", "first", "second", "inner", "outer")
        for use in (getattr(claim, name, None) for name in names):
            if not isinstance(use, Use | Uses) or use.queue in self.partition.queues:
                continue
            if shared := ambiguity(self.partition, use.queue):
                raise BadClaim(shared)
            text = f"queue {quoted(use.queue)} does not exist"
            if self.partition.chain(use.queue, use.access).otherwise is not IN_RECOVERY_QUEUE:
                nearest = self.partition.nearest_path(use.queue)
                if nearest != use.queue:
                    remedy = f"correct the name, or name {nearest} if the claim is about new queues"
                    raise BadClaim(f"{text}, and {nearest} decides instead: {remedy}")
                is_named = self.partition.named_grants is not None
                text += ", but a grant names it" if is_named else "; YARN creates it"
            self.notes.append(f"{self.file}:{stated.line}: {text}")

    def _note_nobody(self, stated: StatedClaim, claim: Claim, world: World) -> None:
        """Add a note if a claim about a user or group holds because no such person exists."""
        subject = claim.subject if isinstance(claim, Never | Everyone) else None
        if subject is not None and next(iter(world.people((subject,))), None) is None:
            text = f"nobody matches {subject}, so the claim holds whatever the policy says"
            self.notes.append(f"{self.file}:{stated.line}: {text}")

    def _shown(self, stated: StatedClaim, refutation: Refutation) -> Iterator[Counterexample]:
        person = refutation.person
        for answer in refutation.answers:
            policy = self.policy
            if answer.is_old:
                policy = self._old_policy(stated.match["file"].strip('"'))
            yield self._answer(policy, person, answer)

    def _answer(self, policy: PolicyFile, person: Person, answer: Answer) -> Counterexample:
        partition = self._partition(policy)
        access, queue = answer.use
        command = policy.command(partition.name, person, answer)
        verb = f"{'may' if answer.is_allowed else 'may not'} {access} {queue}"
        place, why = Place(policy.name), "no ACL from the queue up to the root lists them"
        user = policy.user(person)
        decision = decide(partition, queue, access, user, person.groups, real_user=person.real_user)
        if decision is IN_RECOVERY_QUEUE:
            why = "access to the recovery queue is never granted"
        elif decision is not None and decision.allowed:
            grant = grant_of(partition, queue, access, decision, user)
            place, why = policy.place(partition.name, queue, grant), in_words(grant)
        text = f"{_described(user, person)} {verb}: {why}"
        note = policy.note(partition.name, person)
        return Counterexample(text, place, command, answer, note)


def _described(user: str, person: Person) -> str:
    text = user
    if person.groups:
        text += f" in {', '.join(person.groups)}"
    if person.real_user:
        text += f" by way of {person.real_user}"
    return text
