"""The `okta` resolver."""

from collections.abc import Callable

from queuegate_server.identity.resolvers.okta.okta_options import OktaOptions
from queuegate_server.identity.resolvers.okta.organization import Organization
from queuegate_server.identity.rest.rest_client import RestClient
from queuegate_server.identity.rest.rest_resolver import RestResolver


class OktaResolver(RestResolver[OktaOptions]):
    """Resolves groups from an Okta organization."""

    Options = OktaOptions

    def connect(self, client: RestClient, clock: Callable[[], float]) -> Organization:
        """Return the organization behind a client."""
        return Organization(self.options, client, clock)
