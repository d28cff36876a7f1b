"""Operators whose accounts administrators list in `admission.queues.controllers`.

An operator may be trusted with queue names only if objects of every kind from which it creates pods
are checked when they are created. operators.toml lists the operators of the kinds that Kueue
(`pkg/controller/jobs`), KAI-Scheduler (`pkg/podgrouper/podgrouper/hub`), Volcano and YuniKorn
integrate, and other widely used operators. The page generated from it says where the accounts come
from (`docs/generate/operators.py`). `ListedKinds` determines which kinds are checked.
"""

from collections.abc import Sequence
from typing import Annotated, Final

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, TypeAdapter

from queuegate.policy.named_grants import SERVICE_ACCOUNT, SYSTEM
from queuegate_server.admission.queues.kinds import Kind, in_groups
from queuegate_server.files.toml import read_toml


def _user(account: str) -> str:
    return account if account.startswith(SYSTEM) else f"{SERVICE_ACCOUNT}{account}"


class Operator(BaseModel):
    """A program that creates pods, or objects that name queues, from other objects."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str
    accounts: tuple[Annotated[str, AfterValidator(_user)], ...] = ()
    """Its user names in usual installations; empty if its project does not publish them. The file
    omits the prefix of service accounts."""
    kinds: Annotated[tuple[Kind, ...], BeforeValidator(in_groups)] = ()
    """The kinds from which it takes templates or queue names."""
    chooses: bool = False
    """Whether its users choose queues in a way that the API server does not see, such as in a file
    or on a web page. If so, the operator counts as a user.
    """
    fetched: str = ""
    """The templates that it may fetch from places where nobody checks them."""
    condition: str = ""
    """When it may be trusted although it fetches templates; empty if never."""


OPERATORS: Final[Sequence[Operator]] = TypeAdapter(list[Operator]).validate_python(
    read_toml(__file__, "operators.toml")["operators"]
)
"""The operators that queuegate knows."""
