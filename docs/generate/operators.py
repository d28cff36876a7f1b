"""operators.md: the operators that queuegate knows, their accounts and kinds."""

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Final

from docs.generate.markdown import code, page, table
from queuegate.policy.named_grants import SERVICE_ACCOUNT
from queuegate_server.admission.queues.kinds import Kind
from queuegate_server.admission.queues.listed_kinds import ListedKinds
from queuegate_server.admission.queues.operators import OPERATORS, Operator
from queuegate_server.admission.queues.places import build_places
from queuegate_server.settings.admission import QueueChecks
from queuegate_server.settings.queue_schedulers import FLAT, KUEUE, YUNIKORN

_INTRODUCTION: Final = """\
An operator creates pods, or other objects that name queues, with its own account. [Workloads whose
pods are created by a controller](../how-to/queue-access-workloads.md) says when to list such an
account in `admission.queues.controllers`, and [settings for
operators](../how-to/queue-access-operators.md) has examples to copy. `queuegate-server validate
--config` and the webhook warn about each entry in `controllers` that is not on this page, and about
each operator with a kind that the settings do not check.

An account is written as NAMESPACE:NAME, for the user `system:serviceaccount:NAMESPACE:NAME`. A
chart can give it a different name. Only the accounts of Kubernetes and Kueue were tried in a
cluster. The others come from the projects' manifests, charts and guides, except those of Airflow,
JupyterHub and the training operator, that of KEDA in `kube-system`, and that of KubeRay in
`kuberay-operator`. These exceptions have not been checked against a project's files, so compare
them with your cluster. Where the column says "not published", queuegate does not know the account,
and warns about it as it does about any unknown account.
"""
_KINDS: Final = """\
Whether a kind is checked depends on the settings. The last column assumes settings that list all
schedulers: without `koordinator`, for example, its ElasticQuotaProfile is not checked. For an
unchecked kind, add a [place](queue-checks.md#places) with the kind and one of its fields.
"""


def generate() -> str:
    """Return the page."""
    schedulers = {
        **{name: dict[str, str]() for name in (YUNIKORN, KUEUE)},
        **{name: {"below": f"root.{name}"} for name in FLAT},
    }
    kinds = ListedKinds(build_places(QueueChecks.model_validate({"schedulers": schedulers})))
    head = ("operator", "accounts", "creates objects from", "in `controllers`")
    rows = [
        (each.name, _accounts(each), _kinds(each.kinds), _verdict(each, kinds))
        for each in OPERATORS
    ]
    return page("Operators and their accounts", _INTRODUCTION, table(head, rows), _KINDS)


def _accounts(operator: Operator) -> str:
    accounts = (code(each.removeprefix(SERVICE_ACCOUNT)) for each in operator.accounts)
    return ", ".join(accounts) or "not published"


def _kinds(kinds: Sequence[Kind]) -> str:
    """Return kinds as text, with each group once."""
    return "; ".join(_of_groups(kinds)) or "what its users choose"


def _of_groups(kinds: Sequence[Kind]) -> Iterator[str]:
    for group, found in groupby(sorted(kinds), key=lambda kind: kind[0]):
        names = ", ".join(kind for _, kind in found)
        yield f"{names} ({code(group)})" if group else names


def _verdict(operator: Operator, kinds: ListedKinds) -> str:
    if operator.chooses:
        return "no: list the account in the ACLs of its queues"
    missing = [kind for kind in operator.kinds if not kinds.includes(kind)]
    if not missing:
        if operator.fetched:
            return f"only if {operator.condition or f'it cannot fetch {operator.fetched}'}"
        return "yes" if operator.accounts else "if you know the account; a warning remains"
    return f"only with places for {_kinds(missing)}"
