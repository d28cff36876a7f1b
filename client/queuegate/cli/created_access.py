"""Decides access to queues that YARN will create, based on a server's policy and its queues."""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Final, NamedTuple

from queuegate._results import PolicyInfo
from queuegate.policy.acl import Acl
from queuegate.policy.chain import CLUSTER, Chain, ChainEnd, ChainIndexes
from queuegate.policy.created_queues import (
    ANY_NAME,
    DEFAULT_DEPTH,
    CreatedAcls,
    Creator,
    QueueCreation,
    Template,
    TemplateKind,
)
from queuegate.policy.decision import NO_MATCH, Access, Decision, Reason
from queuegate.policy.names import SEPARATOR, parent_path
from queuegate.policy.queue import granting
from queuegate.policy.yarn_acl import Semantics

SEMANTICS: Final = frozenset(map(str, Semantics))
"""The semantics that this client knows, as named in responses."""
_INHERITED: Final = Decision(True, Reason.USER, CLUSTER, "")
"""A placeholder for the decision on an existing queue that the user may use."""


class Asker(NamedTuple):
    """The user in a question, with the groups and the service given in the question."""

    user: str
    groups: Sequence[str] | None
    real_user: str


def access_to_created(
    answer: PolicyInfo,
    usable: Mapping[Access, Collection[str]],
    parse: Callable[[str], Acl],
    asker: Asker,
) -> dict[str, list[Access]]:
    """Return the kinds of access that a user has to leaf queues yet to be created, by parent path.

    Omits paths for which access depends on unknown groups, or on settings missing from the
    response.

    Args:
        answer: The policy, with its templates.
        usable: The existing queues that the user may use.
        parse: Parses an ACL in the policy.
        asker: The user.
    """
    if not _is_understood(answer):
        return {}
    levels = {queue.path: queue.created_levels for queue in answer.queues}
    creation = _creation(answer, levels)
    allowed: dict[str, list[Access]] = {}
    for path in {each.path for each in answer.templates if each.kind != TemplateKind.PARENT}:
        nearest = path
        while nearest and nearest not in levels:
            nearest = parent_path(nearest)
        # The response does not contain the `maximum-queue-depth` of queues that do not exist.
        # Assume the default, but only if all creators have the default.
        if nearest != path and not _has_default_depth(creation):
            continue
        created = creation.created(f"{path}{SEPARATOR}{ANY_NAME}", nearest)
        if not created:
            continue
        decisions = {
            access: _decide(created, access, parse, asker, inherits=nearest in usable[access])
            for access in Access
        }
        if None not in decisions.values():
            allowed[path] = [access for access, each in decisions.items() if each and each.allowed]
    return allowed


def _is_understood(answer: PolicyInfo) -> bool:
    """Return whether this client knows the ACL semantics and all kinds of templates."""
    kinds = {each.kind for each in answer.templates}
    return answer.semantics in SEMANTICS and kinds <= {*TemplateKind}


def _has_default_depth(creation: QueueCreation) -> bool:
    return all(
        creator.is_managed or creator.levels == DEFAULT_DEPTH
        for creator in creation.creators.values()
    )


def _creation(answer: PolicyInfo, levels: Mapping[str, int]) -> QueueCreation:
    """Derive YARN's rules for creating queues from a policy's templates."""
    managed = {each.path for each in answer.templates if each.kind == TemplateKind.LEAF_OF_MANAGED}
    return QueueCreation(
        {path: Creator(levels[path], path in managed) for path in levels if levels[path]},
        tuple(
            Template(TemplateKind(each.kind), each.path, each.submit_acl, each.admin_acl)
            for each in answer.templates
        ),
        levels,
    )


def _decide(
    created: Sequence[CreatedAcls],
    access: Access,
    parse: Callable[[str], Acl],
    asker: Asker,
    *,
    inherits: bool,
) -> Decision | None:
    """Decide access to a queue that does not exist yet. `created` holds the ACLs of that queue and
    of its missing ancestors, from the queue upwards. `inherits` is whether the user may use the
    nearest existing queue.
    """
    chain: Chain = ChainEnd(_INHERITED if inherits else NO_MATCH, ChainIndexes())
    for each in reversed(created):
        texts = granting(access, each.submit_acl, each.admin_acl)
        chain = chain.extend(each.path, [*map(parse, texts)])
    return chain.decide(*asker)
