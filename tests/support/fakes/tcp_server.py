"""A TCP server whose connections a test answers, and which leaves none behind."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, Final

_STEPS: Final = 10
"""More steps of the event loop than accepting a connection takes."""

Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@contextlib.asynccontextmanager
async def running_tcp(serve: Serve) -> AsyncIterator[int]:
    """Yield the port on 127.0.0.1. At the end, all connections are reset."""
    tasks: set[asyncio.Task[None]] = set()

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task
        tasks.add(task)
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            await serve(reader, writer)
        writer.close()

    server = await asyncio.start_server(accept, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    try:
        yield port
    finally:
        await close_server(server, port)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def close_server(server: asyncio.Server, port: int) -> None:
    """Close a server, and reset its connections, whether or not TLS has started."""
    loop: Any = asyncio.get_running_loop()
    # If a server is closed, asyncio forgets the connections that it is accepting.
    for listening in server.sockets:
        loop.remove_reader(listening.fileno())
    for _ in range(_STEPS):
        await asyncio.sleep(0)
    server.close()
    # No interface lists connections before the handshake is complete.
    for transport in list(loop._transports.values()):
        if (transport.get_extra_info("sockname") or (None, None))[1] == port:
            transport.abort()
    await asyncio.sleep(0)
