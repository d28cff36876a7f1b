"""Which server is asked: the first one that answers, and the first one again later."""

from collections.abc import Sequence

from queuegate_server.identity.resolvers.ldap.binding import Connector
from queuegate_server.identity.resolvers.ldap.connection import Connection
from queuegate_server.identity.resolvers.ldap.errors import LdapFault, ServerFault
from queuegate_server.identity.resolvers.ldap.options import LdapOptions
from queuegate_server.identity.resolvers.ldap.pool import Server
from queuegate_server.identity.resolvers.ldap.urls import ServerUrl


class Servers:
    """The servers of a directory, the preferred one first. Used from one event loop."""

    def __init__(
        self, urls: Sequence[ServerUrl], options: LdapOptions, connector: Connector
    ) -> None:
        self.all = tuple(
            Server(
                url,
                options,
                connector.connect,
                connector.password,
                is_first=position == 0,
                others_answer=self._others_answer,
            )
            for position, url in enumerate(urls)
        )

    def start(self) -> None:
        """Begin to connect to the first server."""
        for server in self.all:
            server.start()

    async def connection(self, avoid: Server | None = None) -> tuple[Server, Connection]:
        """Return a connection, and whose it is. Raises LdapFault if no server answers.

        `avoid` is asked last.
        """
        faults: list[str] = []
        advice = ""
        for server in sorted(self.all, key=lambda server: server is avoid):
            try:
                return server, await server.connection()
            except LdapFault as fault:
                faults.append(f"{server.url}: {fault.detail}")
                advice = advice or fault.advice
        raise ServerFault("no directory server answers: " + "; ".join(faults), advice)

    async def close(self) -> None:
        """Close all connections."""
        for server in self.all:
            await server.close()

    def _others_answer(self, server: Server) -> bool:
        return any(other.answers for other in self.all if other is not server)
