"""The `entra` resolver."""

from collections.abc import Callable

from queuegate_server.identity.resolvers.entra.entra_options import EntraOptions
from queuegate_server.identity.resolvers.entra.tenant import Tenant
from queuegate_server.identity.rest.rest_client import RestClient
from queuegate_server.identity.rest.rest_resolver import RestResolver


class EntraResolver(RestResolver[EntraOptions]):
    """Resolves groups from a Microsoft Entra ID tenant."""

    Options = EntraOptions

    def connect(self, client: RestClient, clock: Callable[[], float]) -> Tenant:
        """Return the tenant behind a client."""
        return Tenant(self.options, client, clock)
