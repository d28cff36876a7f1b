"""Types shared by all pages: requests, results and routes."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple
from urllib.parse import urlencode

from queuegate.policy.decision import Access
from queuegate.policy.names import DEFAULT_PARTITION
from queuegate_server.admin.readiness import Readiness
from queuegate_server.console.annotations import Annotator
from queuegate_server.console.forms import Turns
from queuegate_server.decisions.core import DecisionCore
from queuegate_server.files.certificates import CertificateReloader
from queuegate_server.rpc.access_service import AccessServicer
from queuegate_server.rpc.authentication import Principal
from queuegate_server.rpc.user_group_service import UserGroupServicer
from queuegate_server.settings.callers import Role
from queuegate_server.settings.model import Settings

PREFIX: Final = "/console/"
SMALL_FORM_BYTES: Final = 16 * 1024
"""The maximum size of forms without long text fields."""


@dataclass(frozen=True, slots=True)
class Services:
    """The server components used by pages."""

    settings: Settings
    core: DecisionCore
    access: AccessServicer
    user_groups: UserGroupServicer
    checking: asyncio.Lock
    """The lock held while text sent by a caller is parsed."""
    certificates: Sequence[CertificateReloader]
    """The listeners' certificates."""
    readiness: Readiness
    annotator: Annotator
    addresses: Sequence[str]
    """The gRPC addresses; empty until bound."""
    http_addresses: Sequence[str]
    """The HTTP addresses; empty until bound, or if HTTP is not configured."""
    http_counts: Mapping[tuple[str, int], int]
    """The number of responses over HTTP by endpoint and status."""
    sign_ins: dict[str, int]
    """The number of sign-in attempts by result."""


class Url(str):
    """A page's URL. Pages never truncate it."""

    __slots__ = ()


def url(path: str, **query: object) -> Url:
    """Return the URL for a page under `/console/`, omitting empty parameters."""
    parameters = {
        name: str(value) for name, value in query.items() if value not in {None, "", False}
    }
    return Url(f"{PREFIX}{path}?{urlencode(parameters)}" if parameters else f"{PREFIX}{path}")


@dataclass(frozen=True, slots=True)
class Visit:
    """An authorized caller's page request."""

    services: Services
    principal: Principal
    query: Mapping[str, str]
    """The URL's parameters, each with its first value."""
    form: Mapping[str, str]

    @property
    def access(self) -> Access:
        """The access type in the URL; `submit` by default."""
        return Access.ADMIN if self.query.get("access") == Access.ADMIN else Access.SUBMIT

    @property
    def partition(self) -> str:
        """The partition in the URL; by default, `default` or, if there is none, the first."""
        served = self.services.core.engine.snapshot.served
        default = DEFAULT_PARTITION if DEFAULT_PARTITION in served else ""
        return self.query.get("partition") or default or next(iter(served), DEFAULT_PARTITION)

    @property
    def trusted(self) -> bool:
        """Whether to trust groups provided by the caller."""
        return self.principal.rights.assert_groups


class View(NamedTuple):
    """A template to render as a page, with its variables."""

    template: str
    title: str
    model: object
    """The value of the template variable `page`."""
    status: int = 200


Handler = Callable[[Visit], Awaitable[View | Url]]
"""Returns the page to show, or the URL to which to redirect after a change."""


class Route(NamedTuple):
    """A handler with its HTTP method and path under `/console/`."""

    method: str
    path: str
    handler: Handler
    role: Role = Role.READ
    max_form_bytes: int = SMALL_FORM_BYTES
    large_forms: Turns | None = None
    """The queue for requests with large forms, entered once the form is read; None if all forms
    are small."""


class Page(NamedTuple):
    """An entry in the navigation, with its routes."""

    name: str
    path: str
    """The path of the entry's first page, under `/console/`."""
    routes: tuple[Route, ...]
