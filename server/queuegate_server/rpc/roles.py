"""The role that each call needs. A call without one cannot be served."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from queuegate_server.settings.callers import Role

_ACCESS: Final = "queuegate.v1.AccessService."
_POLICY: Final = "queuegate.v1.PolicyService."
_USER_GROUPS: Final = "queuegate.v1.UserGroupService."

ROLES: Final[Mapping[str, Role]] = MappingProxyType(
    {
        f"{_ACCESS}CheckQueueAccess": Role.CHECK,
        f"{_ACCESS}BatchCheckQueueAccess": Role.CHECK,
        f"{_ACCESS}CheckQueueAccessColumns": Role.CHECK,
        f"{_ACCESS}StreamQueueAccess": Role.CHECK,
        f"{_ACCESS}CheckApplicationAccess": Role.CHECK,
        f"{_ACCESS}BatchCheckApplicationAccess": Role.CHECK,
        f"{_ACCESS}ExplainQueueAccess": Role.READ,
        f"{_ACCESS}ExplainApplicationAccess": Role.READ,
        f"{_ACCESS}ListQueues": Role.READ,
        f"{_USER_GROUPS}ResolveUserGroups": Role.READ,
        f"{_POLICY}GetPolicy": Role.READ,
        f"{_POLICY}ValidatePolicy": Role.READ,
        f"{_USER_GROUPS}InvalidateUserGroups": Role.ADMIN,
        f"{_POLICY}ReloadPolicy": Role.ADMIN,
    }
)
"""By the full name of the method. The health is open to everybody and not listed."""
