"""Findings about the files of a YARN cluster."""

from typing import Final

from queuegate_server.formats.findings.acls import GRAMMAR, USERS_OR_GROUPS, WILDCARD_ALONE
from queuegate_server.formats.findings.finding import Finding

HADOOP: Final = "Hadoop's AccessControlList"
INHERITED: Final = "YARN: a queue grants also what the queues above it grant"

LINE_BREAK: Final = Finding(
    "line-break-in-acl",
    "this ACL contains a line break or tab: spaces after it turn users into groups",
    "write the ACL on one line, directly between the tags",
    HADOOP,
)
SPACE_AT_COMMA: Final = Finding(
    "space-beside-comma",
    "the space beside the comma turns the names after it into groups",
    USERS_OR_GROUPS,
    GRAMMAR,
)
ALL_AMONG_NAMES: Final = Finding(
    "everyone-among-names",
    "a * among other names is an ordinary name",
    WILDCARD_ALONE,
    HADOOP,
)
AMBIGUOUS: Final = Finding(
    "ambiguous-acl",
    "{text} is ambiguous: {differs}; this file is read with semantics {semantics}",
    "write users, one space, groups, and separate names with commas only",
    "Hadoop splits an ACL at its first space, its documentation at each",
)
IF_ONE_GROUP: Final = "separate groups with commas; if it is one group, list it with --users-from"
NO_SERVICE: Final = Finding(
    "proxy-without-service",
    '"~" names nobody',
    "write a service's name after it",
    "Hadoop's AccessControlList: ~NAME stands for the real user",
)
INVALID_NAMES: Final = Finding(
    "invalid-names",
    "these names in the ACL are invalid and ignored: {names}",
    "use valid user and group names",
    HADOOP,
)
OPEN_ROOT: Final = Finding(
    "root-without-acl",
    "root has no {acl}: in Hadoop it defaults to *, so everyone may {effect} every queue, whatever"
    " the other ACLs say",
    "set both ACLs of root; a single space grants access to nobody",
    "YARN's documentation of its schedulers",
)
EVERYONE_AT_ROOT: Final = Finding(
    "root-open-to-everyone",
    "everyone may {effect} every queue: queues inherit what root grants",
    "write a single space here, and grant access to the queues below",
    INHERITED,
)
CREATED_FOR_NOBODY: Final = Finding(
    "queues-created-for-nobody",
    "{who} may submit to the queues that YARN will create below {queue}",
    "set {property}",
    "YARN's documentation of templates",
)
MAPPED_GROUP: Final = Finding(
    "group-in-mappings",
    "{name} is a user in this ACL, but {key} uses it as a group",
    "if it is a group, write it after a space, as in {quoted}",
    GRAMMAR,
)
GRANTED_BY_TEMPLATE: Final = Finding(
    "granted-by-yarn-itself",
    "when a submission creates a queue from this template, YARN itself also grants it by this ACL,"
    " even if queuegate denies it",
    "write a single space, and grant access to a declared queue above",
    "Hadoop 3.4's RMAppManager.createAndPopulateNewRMApp",
)
