"""The `keycloak` resolver."""

import logging
from collections.abc import Callable

from queuegate_server.identity.resolvers.keycloak.keycloak_options import KeycloakOptions
from queuegate_server.identity.resolvers.keycloak.realm import Realm
from queuegate_server.identity.rest.rest_client import RestClient
from queuegate_server.identity.rest.rest_resolver import RestResolver

_LOG = logging.getLogger("queuegate_server.identity.keycloak")


class KeycloakResolver(RestResolver[KeycloakOptions]):
    """Resolves groups from a Keycloak realm."""

    Options = KeycloakOptions

    def connect(self, client: RestClient, clock: Callable[[], float]) -> Realm:
        """Return the realm behind a client."""
        return Realm(self.options, client, clock)

    async def open(self) -> None:
        """Prepare for lookups, without sending requests."""
        if self.options.allow_plaintext:
            _LOG.warning("allow_plaintext is on: the secret may be sent without encryption")
        await super().open()
