"""All calls of `queuegate.aio.Client`.

Those of `queuegate.Client` are generated from them: run `make blocking` after a change.
"""

from queuegate._calls import AsyncCalls
from queuegate._methods.async_applications import AsyncApplicationMethods
from queuegate._methods.async_queues import AsyncQueueMethods
from queuegate._methods.async_server import AsyncServerMethods


class AsyncClientMethods(AsyncQueueMethods, AsyncApplicationMethods, AsyncServerMethods):
    """The calls of a client."""

    def __init__(self, calls: AsyncCalls) -> None:
        self._calls = calls
