"""The `entra` resolver."""

import logging
from collections.abc import Callable

from queuegate_server.files.safe_open import PUBLIC, warn_of_mode
from queuegate_server.identity.resolvers.entra.options import EntraOptions
from queuegate_server.identity.resolvers.entra.tenant import Tenant
from queuegate_server.identity.rest.client import RestClient
from queuegate_server.identity.rest.resolver import RestResolver

_LOG = logging.getLogger("queuegate_server.identity.entra")


class EntraResolver(RestResolver[EntraOptions]):
    """Resolves groups from a tenant of Microsoft Entra ID."""

    Options = EntraOptions

    def connect(self, client: RestClient, clock: Callable[[], float]) -> Tenant:
        """Return the tenant behind a client."""
        return Tenant(self.options, client, clock)

    async def open(self) -> None:
        """Prepare for lookups, without sending requests."""
        for contradiction, _ in self.options.contradictions().values():
            _LOG.warning("%s", contradiction)
        for file in (self.options.client_secret_file, self.options.certificate_file):
            if file is not None:
                warn_of_mode(file, PUBLIC)
        await super().open()
