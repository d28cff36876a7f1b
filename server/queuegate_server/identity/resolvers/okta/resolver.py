"""The `okta` resolver."""

import logging
from collections.abc import Callable

from queuegate_server.files.safe_open import PUBLIC, warn_of_mode
from queuegate_server.identity.resolvers.okta.options import OktaOptions
from queuegate_server.identity.resolvers.okta.organization import Organization
from queuegate_server.identity.rest.client import RestClient
from queuegate_server.identity.rest.resolver import RestResolver

_LOG = logging.getLogger("queuegate_server.identity.okta")


class OktaResolver(RestResolver[OktaOptions]):
    """Resolves groups from an organization of Okta."""

    Options = OktaOptions

    def connect(self, client: RestClient, clock: Callable[[], float]) -> Organization:
        """Return the organization behind a client."""
        return Organization(self.options, client, clock)

    async def open(self) -> None:
        """Prepare for lookups, without sending requests."""
        for contradiction, _ in self.options.contradictions().values():
            _LOG.warning("%s", contradiction)
        for file in (self.options.token_file, self.options.private_key_file):
            if file is not None:
                warn_of_mode(file, PUBLIC)
        await super().open()
