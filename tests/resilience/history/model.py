"""The policies of a run, and which answers a policy and the groups of a user explain.

An answer should reveal as much as possible of what decided it: each version of a user has a group
of its own, and each policy grants these groups at another level of the same path.
"""

import random
from collections.abc import Sequence
from functools import lru_cache

from tests.resilience.history.records import FAILED, Acls, Answer, Groups, Question
from tests.support.oracles.queue_access import AclOracle, PolicyOracle

USERS = tuple(f"u{number}" for number in range(8))
GROUPS = tuple(f"g{number}" for number in range(64))
CLAIMED = "claimed"
LEVELS = 8
DEEP = ".".join(("root", *(f"l{level}" for level in range(LEVELS))))
"""The queue at whose ancestors the policies grant all groups."""
WORK, OPEN, CLAIM = "root.work", "root.open", "root.claim"
QUEUES = (DEEP, DEEP, DEEP, WORK, WORK, OPEN, CLAIM)

INVALID = "partitions: [{name: default, queues: [{name: root, submitacl: 'a b c'}]}]\n"
"""A policy that is never served."""


def acls(number: int) -> Acls:
    """Return the ACLs of the policy of a number."""
    chance = random.Random(number)
    path = DEEP.split(".")
    queues = {".".join(path[: length + 1]): ("", "") for length in range(len(path))}
    queues[".".join(path[: number % LEVELS + 2])] = (" " + ",".join(GROUPS), "")
    some_users = ",".join(chance.sample(USERS, 2))
    some, admins = (",".join(chance.sample(GROUPS, 24)) for _ in range(2))
    queues[WORK] = (f"{some_users} {some}", f" {admins}")
    queues[OPEN] = (chance.choice(("*", " ")), "")
    queues[CLAIM] = (f" {CLAIMED}", "")
    return queues


def text(queues: Acls) -> str:
    """Return a `queues.yaml` with these ACLs."""

    def lines(path: str, indent: str) -> Sequence[str]:
        submit, admin = queues[path]
        children = [other for other in queues if other.rpartition(".")[0] == path]
        own = [f"{indent}- name: {path.rpartition('.')[2]}"]
        own += [f'{indent}  submitacl: "{submit}"'] if submit else []
        own += [f'{indent}  adminacl: "{admin}"'] if admin else []
        own += [f"{indent}  queues:"] if children else []
        return [*own, *(line for child in children for line in lines(child, indent + "  "))]

    return "\n".join(["partitions:", "- name: default", "  queues:", *lines("root", "  "), ""])


def explains(queues: Acls, groups: Groups, question: Question, answer: Answer) -> bool:
    """Say whether a policy and the groups of the user lead to the answer."""
    user, queue, access, claimed = question
    oracle = _oracle(tuple(queues.items()))
    if oracle.allows(queue, access, user, ()) or not oracle.needs_groups(queue, access, user):
        groups = ()
    elif claimed:
        groups = claimed
    if groups is None:
        return answer == Answer(allowed=False, reason="unknown_user")
    if groups == FAILED:
        return False
    if not oracle.allows(queue, access, user, groups):
        return answer == Answer(allowed=False, reason="no_match")
    return answer.allowed and _has_evidence(queues, groups, question, answer)


def _has_evidence(queues: Acls, groups: Sequence[str], question: Question, answer: Answer) -> bool:
    """Say whether an ACL on the way up lists what the answer names."""
    if not f"{question.queue}.".startswith(f"{answer.queue}.") or answer.queue not in queues:
        return False
    for acl in map(_acl, queues[answer.queue][question.access == "admin" :]):
        subjects = {
            "wildcard": {"*"} if acl.everyone else set(),
            "user": {question.user}.intersection(acl.users),
            "group": set(groups).intersection(acl.groups),
        }
        if answer.subject in subjects.get(answer.reason, ()):
            return True
    return False


_acl = lru_cache(maxsize=4096)(AclOracle)


@lru_cache(maxsize=256)
def _oracle(queues: tuple[tuple[str, tuple[str, str]], ...]) -> PolicyOracle:
    return PolicyOracle(dict(queues))
