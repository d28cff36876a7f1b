"""All methods of `queuegate.Client`.

Generated from `_methods/async_client.py` by `make blocking`. Do not edit.
"""

from queuegate._calls import BlockingCalls
from queuegate._methods.applications import ApplicationMethods
from queuegate._methods.policy import PolicyMethods
from queuegate._methods.queues import QueueMethods
from queuegate._methods.server import ServerMethods
from queuegate._methods.user_groups import UserGroupMethods


class ClientMethods(
    QueueMethods,
    ApplicationMethods,
    UserGroupMethods,
    PolicyMethods,
    ServerMethods,
):
    """All client methods."""

    def __init__(self, calls: BlockingCalls) -> None:
        self._calls = calls
