"""Findings about a queues.yaml."""

from typing import Final

from queuegate_server.formats.findings.finding import read_table

TABLE: Final = read_table("yunikorn")

LOST_BLANK: Final = TABLE["space-dropped-by-yaml"]
TOO_MANY_LISTS: Final = TABLE["too-many-lists"]
TOO_MANY_SPACES: Final = TABLE["too-many-spaces"]
NOT_A_NAME: Final = TABLE["name-that-grants-nothing"]
WILDCARD_ALONE: Final = 'to allow everyone, write "*" alone'
ON_ONE_LINE: Final = "write the ACL on one line, with commas and no white space between names"
CORRECT_THE_NAME: Final = "correct the name"
ACCEPT: Final = (
    "to accept it, set partitions.{partition}.acl_names: {value} in the server's settings"
    " (queuegate.yaml)"
)
OR_OPTION: Final = ", or pass --acl-names {value}"
ALL_WITH_NAMES: Final = TABLE["everyone-beside-names"]
ANY_GROUP: Final = TABLE["everyone-as-group"]
NOBODY: Final = TABLE["acl-for-nobody"]
POINTLESS: Final = TABLE["acl-without-effect"]
NOT_CLOSED: Final = TABLE["queue-not-closed"]
DROPPED: Final = TABLE["dropped-by-yunikorn"]
GROUP_AS_USER: Final = TABLE["group-elsewhere"]
TWO_SPELLINGS: Final = TABLE["names-that-differ-in-case-in-file"]
RECOVERY_QUEUE: Final = TABLE["recovery-queue"]
