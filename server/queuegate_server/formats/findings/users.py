"""Findings that compare a policy with a list of users and their groups."""

from typing import Final

from queuegate_server.formats.findings.finding import read_table

TABLE: Final = read_table("users")

GROUP_AS_USER: Final = TABLE["group-listed-as-user"]
GROUPS_AS_USERS: Final = TABLE["groups-listed-as-users"]
USER_AS_GROUP: Final = TABLE["user-listed-as-group"]
USERS_AS_GROUPS: Final = TABLE["users-listed-as-groups"]
SPLIT_GROUP: Final = TABLE["group-split-at-space"]
USE_HADOOP: Final = f"{SPLIT_GROUP.remedy}, and use semantics hadoop"
NO_SPACES: Final = "list another group: YuniKorn's ACLs have no names with spaces"
