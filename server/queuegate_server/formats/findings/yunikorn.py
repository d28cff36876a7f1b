"""Findings about a queues.yaml."""

from typing import Final

from queuegate_server.formats.findings.acls import GRAMMAR, ONE_SPELLING
from queuegate_server.formats.findings.finding import Finding

ACLS: Final = "YuniKorn's documentation of ACLs"
INHERITED: Final = "YuniKorn: a queue grants also what the queues above it grant"

FOR_GROUPS: Final = "for groups write {quoted} in quotes"

LOST_BLANK: Final = Finding(
    "space-dropped-by-yaml",
    "YAML drops the spaces before {text}: it lists users, not groups",
    f"{FOR_GROUPS}, for users leave one space",
    "YAML drops white space before a plain scalar",
)
TOO_MANY_LISTS: Final = Finding(
    "too-many-lists",
    "the ACL {text} has {count} lists instead of one list of users and one of groups",
    "separate names with commas, and users from groups with one space; a list of groups alone"
    " starts with a space",
    ACLS,
    is_error=True,
)
TOO_MANY_SPACES: Final = Finding(
    "too-many-spaces",
    "the ACL {text} has {count} spaces: YuniKorn's validator accepts it, but its scheduler does"
    " not load it",
    TOO_MANY_LISTS.remedy,
    "yunikorn-core's security.NewACL",
    is_error=True,
)
NOT_A_NAME: Final = Finding(
    "name-that-grants-nothing",
    "{name} is not a valid {kind} name in an ACL, so it grants nothing",
    "correct the name or remove it",
    "yunikorn-core's configs.UserRegExp and GroupRegExp",
)
WILDCARD_ALONE: Final = 'to allow everyone, write "*" alone'
ON_ONE_LINE: Final = "write the ACL on one line, with commas and no white space between names"
CORRECT_THE_NAME: Final = "correct the name"
ACCEPT: Final = (
    "to accept it, set partitions.{partition}.acl_names: {value} in the server's settings"
    " (queuegate.yaml)"
)
OR_OPTION: Final = ", or pass --acl-names {value}"
ALL_WITH_NAMES: Final = Finding(
    "everyone-beside-names",
    'the list "*" lets everyone in, so the other list has no effect',
    'write "*" alone, or replace it with names',
    ACLS,
)
ANY_GROUP: Final = Finding(
    "everyone-as-group",
    '" *" lets everyone in, not only the members of some group',
    'write "*" if that is intended, otherwise list the groups',
    ACLS,
)
NOBODY: Final = Finding(
    "acl-for-nobody",
    "this ACL grants access to nobody: none of its entries is a valid name",
    'correct the names; for nobody write " " in quotes',
    ACLS,
)
POINTLESS: Final = Finding(
    "acl-without-effect",
    "this ACL has no effect: queue {queue} lets everyone {does}",
    "remove one of the two; a queue cannot revoke what a queue above it grants",
    INHERITED,
)
NOT_CLOSED: Final = Finding(
    "queue-not-closed",
    "this ACL does not close the queue: what {queue} grants also applies here",
    "remove it; grant less above and more in the queues below",
    INHERITED,
)
DROPPED: Final = Finding(
    "dropped-by-yunikorn",
    "YuniKorn drops {names} from this ACL: only queuegate accepts {them} (acl_names: {setting})",
    "if YuniKorn itself reads this file, list names that it accepts",
    NOT_A_NAME.source,
)
GROUP_AS_USER: Final = Finding(
    "group-elsewhere",
    "{name} is a user here, but a group on line {line}",
    FOR_GROUPS,
    GRAMMAR,
)
TWO_SPELLINGS: Final = Finding(
    "names-that-differ-in-case-in-file",
    "{kind} {name} is spelled {first} on line {line}",
    ONE_SPELLING,
    "YuniKorn compares whole names",
)
RECOVERY_QUEUE: Final = Finding(
    "recovery-queue",
    "{queue} is reserved by YuniKorn: nobody can submit to it",
    "rename the queue",
    "yunikorn-core's common.RecoveryQueueFull",
)
