"""All methods of `queuegate.aio.Client`.

`make blocking` generates the methods of `queuegate.Client` from this module.
"""

from queuegate._calls import AsyncCalls
from queuegate._methods.async_applications import AsyncApplicationMethods
from queuegate._methods.async_policy import AsyncPolicyMethods
from queuegate._methods.async_queues import AsyncQueueMethods
from queuegate._methods.async_server import AsyncServerMethods
from queuegate._methods.async_user_groups import AsyncUserGroupMethods


class AsyncClientMethods(
    AsyncQueueMethods,
    AsyncApplicationMethods,
    AsyncUserGroupMethods,
    AsyncPolicyMethods,
    AsyncServerMethods,
):
    """All client methods."""

    def __init__(self, calls: AsyncCalls) -> None:
        self._calls = calls
