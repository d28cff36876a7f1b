"""Findings that compare a policy with a list of users and their groups."""

from typing import Final

from queuegate_server.formats.findings.acls import GRAMMAR
from queuegate_server.formats.findings.finding import Finding

FOR_GROUPS: Final = "for groups write a space before the list{quotes}, or after the users"

GROUP_AS_USER: Final = Finding(
    "group-listed-as-user",
    "{names} is listed as a user, but only a group has that name",
    FOR_GROUPS,
    GRAMMAR,
)
GROUPS_AS_USERS: Final = Finding(
    "groups-listed-as-users",
    "{names} are listed as users, but only groups have those names",
    FOR_GROUPS,
    GRAMMAR,
)
USER_AS_GROUP: Final = Finding(
    "user-listed-as-group",
    "{names} is listed as a group, but only a user has that name",
    "write users before the space",
    GRAMMAR,
)
USERS_AS_GROUPS: Final = Finding(
    "users-listed-as-groups",
    "{names} are listed as groups, but only users have those names",
    USER_AS_GROUP.remedy,
    GRAMMAR,
)
SPLIT_GROUP: Final = Finding(
    "group-split-at-space",
    "{name} is the name of a group, but this ACL lists the user {user} and the group {group}",
    "write a space before it",
    GRAMMAR,
)
USE_HADOOP: Final = f"{SPLIT_GROUP.remedy}, and use semantics hadoop"
NO_SPACES: Final = "list another group: YuniKorn's ACLs have no names with spaces"
