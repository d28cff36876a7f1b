"""The `entra` resolver."""

from collections.abc import Callable

from queuegate_server.identity.resolvers.entra.options import EntraOptions
from queuegate_server.identity.resolvers.entra.tenant import Tenant
from queuegate_server.identity.rest.client import RestClient
from queuegate_server.identity.rest.resolver import RestResolver


class EntraResolver(RestResolver[EntraOptions]):
    """Resolves groups from a tenant of Microsoft Entra ID."""

    Options = EntraOptions

    def connect(self, client: RestClient, clock: Callable[[], float]) -> Tenant:
        """Return the tenant behind a client."""
        return Tenant(self.options, client, clock)
