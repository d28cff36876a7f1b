"""Whether a socket takes another request whole."""

import asyncio
import select


class WriteRoom:
    """Waits until at least three quarters of a Unix socket's buffer are free.

    No request of ours is larger. libldap would lose track of one that is sent in part.
    """

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._loop = asyncio.get_running_loop()
        self._poll = select.poll()
        self._poll.register(descriptor, select.POLLOUT)
        self._changed = asyncio.Event()
        self._closed = False

    async def wait(self) -> None:
        """Return when there is room, or after `close`."""
        while not self._closed and not self._poll.poll(0):
            self._changed.clear()
            self._loop.add_writer(self._descriptor, self._writable)
            await self._changed.wait()

    def close(self) -> None:
        """Let everybody who waits go on. The descriptor must still be open."""
        self._closed = True
        self._loop.remove_writer(self._descriptor)
        self._changed.set()

    def _writable(self) -> None:
        self._loop.remove_writer(self._descriptor)
        self._changed.set()
