"""The yardstick for HTTP: our own aiohttp server with a handler that returns a constant.

It has the connections, the event loop and the kind of response of the product, reads each body, and
does nothing else.
"""

import asyncio
import logging
from typing import Final

import uvloop
from aiohttp import web

from queuegate_server.admin.connections import HEADERS, Bounds, HttpConnections
from queuegate_server.admin.keep_alive import KeepAliveConnection
from queuegate_server.runtime.tcp import open_tcp

_LOG: Final = logging.getLogger("bench")
_ANSWER: Final = (
    b'{"decision":true,"context":{"reason":"group","message":"allowed: user1 may submit to'
    b' root.q1.q5.q20: an ACL of root.q1.q5 lists the group group100","queue":"root.q1.q5",'
    b'"policy_revision":1}}'
)


async def serve() -> None:
    """Serve on a free port until the process ends."""
    headers = {**HEADERS, "Content-Type": "application/json", "Server": "bare"}

    async def answer(request: web.BaseRequest) -> web.Response:
        await request.read()
        if isinstance(request.protocol, KeepAliveConnection):
            request.protocol.touch()
        return web.Response(body=_ANSWER, headers=headers)

    connections: HttpConnections[KeepAliveConnection] = HttpConnections(
        open_tcp("127.0.0.1", 0),
        None,
        Bounds(10_000, backlog=2_048, handshake_seconds=10.0, handshake_pause=0.0),
        lambda server, counted: KeepAliveConnection(server, counted, _LOG),
        _LOG,
    )
    await connections.start(web.ServerRunner(web.Server(answer)))
    print(f"serving constants on {connections.address}", flush=True)
    await asyncio.get_running_loop().create_future()


def main() -> None:
    """Serve."""
    uvloop.run(serve())


if __name__ == "__main__":
    main()
