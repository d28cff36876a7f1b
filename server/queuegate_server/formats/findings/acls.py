"""Findings about ACLs and the names in them, in all formats.

The fields are `name` (the name, quoted), `kind` (user or group), `text` and `part` (what a pattern
found in the name), `code` (a character's number), and `compared` (how the format compares names).
"""

from typing import Final

from queuegate_server.formats.findings.finding import Finding

GRAMMAR: Final = "an ACL is a list of users, one space, and a list of groups"
LITERAL: Final = "the names in an ACL are compared as they are"

SEPARATE_WITH_COMMAS: Final = "separate names with commas"
USERS_OR_GROUPS: Final = "for users remove the space, for groups remove the comma"
REMOVE_ONE: Final = "remove one of them"
WRITE_THE_VALUE: Final = "write its value instead"
WILDCARD_ALONE: Final = "write * alone, or remove it"
IF_IT_IS_THE_NAME: Final = "write {part} if that is the {kind}'s name"
RETYPE: Final = "retype the name: it is not the name that it appears to be"
ONE_SPELLING: Final = "use one spelling: names that differ in case are different"

WHITE_SPACE: Final = Finding(
    "white-space-in-acl",
    "{space} in an ACL is not a separator and becomes part of a name",
    "write the ACL on one line; one space separates users from groups",
    GRAMMAR,
)
EMPTY_ENTRY: Final = Finding(
    "comma-without-name",
    "a comma has no name before or after it",
    "remove the comma, or write the missing name",
    GRAMMAR,
)
TEMPLATE: Final = Finding(
    "unrendered-template",
    "{text} looks like an unrendered template",
    "deploy the rendered file, or write the names",
    LITERAL,
)
DISTINGUISHED_NAME: Final = Finding(
    "distinguished-name",
    "an LDAP distinguished name is split at its commas and matches nobody",
    "write the names of users and groups{example}",
    GRAMMAR,
)
PLACEHOLDERS: Final = Finding(
    "placeholder", "{text} looks like a placeholder", "write the names", LITERAL
)
WORD_FOR_WHOM: Final = Finding(
    "word-for-nobody-or-everyone",
    "{name} is the name of a {kind} here, and does not mean {meant}",
    "for {meant} {how}",
    LITERAL,
)
TWO_SPELLINGS: Final = Finding(
    "names-that-differ-in-case",
    "the {kind} {name} is also spelled {first} in this ACL",
    ONE_SPELLING,
    LITERAL,
)
INVISIBLE: Final = Finding(
    "invisible-character", "{name} contains an invisible character, U+{code:04X}", RETYPE, LITERAL
)
LOOK_ALIKE: Final = Finding(
    "look-alike-character", "{name} contains U+{code:04X} next to a Latin letter", RETYPE, LITERAL
)
COMBINING_MARK: Final = Finding(
    "combining-mark",
    "{name} contains a combining mark, U+{code:04X}: it differs from the composed name",
    "write the name as in the directory, usually in composed form",
    LITERAL,
)
BRACKETS: Final = Finding(
    "brackets",
    "the brackets in {name} are part of the name",
    "write only names, separated by commas, without brackets and quotes",
    LITERAL,
)
QUOTES: Final = Finding(
    "quotes",
    "the quotes in {name} are part of the name",
    "remove the quotes, and backslashes before them",
    LITERAL,
)
PLACEHOLDER: Final = Finding(
    "placeholder-name", "{name} looks like a placeholder", "write the name", LITERAL
)
ESCAPE: Final = Finding(
    "escape-in-name",
    '"{text}" in {name} stands for itself',
    "write the character that it encodes",
    LITERAL,
)
NEGATION: Final = Finding(
    "negation",
    'the "{text}" is part of the name {name}: it has no special meaning here',
    "remove it, or the name: an ACL only grants access",
    GRAMMAR,
)
COMMENT: Final = Finding(
    "comment-in-acl",
    '{name} contains a "#": an ACL has no comments',
    "if it begins a comment, remove the comment",
    GRAMMAR,
)
OTHER_SEPARATOR: Final = Finding(
    "other-separator",
    '{name} is one name: a "{text}" does not separate names',
    SEPARATE_WITH_COMMAS,
    GRAMMAR,
)
AMPERSAND: Final = Finding(
    "ampersand",
    '{name} is one name: a "&" does not separate names',
    SEPARATE_WITH_COMMAS,
    GRAMMAR,
)
PATTERN: Final = Finding(
    "pattern",
    'the "{text}" in {name} stands for itself: names in ACLs are not patterns',
    "list each name",
    LITERAL,
)
BACKSLASH_BEFORE_NAME: Final = Finding(
    "backslash-before-name",
    "the backslash in {name} is part of the name: {compared}",
    IF_IT_IS_THE_NAME,
    LITERAL,
)
BACKSLASH: Final = Finding(
    "backslash", "the backslash in {name} is part of the name: {compared}", "remove it", LITERAL
)
PRINCIPAL: Final = Finding(
    "kerberos-principal",
    "{name} looks like a Kerberos principal: {compared}",
    IF_IT_IS_THE_NAME,
    LITERAL,
)
PREFIX: Final = Finding(
    "prefix-of-name",
    "{part} in {name} is part of the name",
    "write only names: users, one space, groups",
    GRAMMAR,
)
MARK_OF_GROUP: Final = Finding(
    "mark-of-group",
    'the "{text}" is part of the name {name}: it does not mark a group',
    "for a group write {part} after the space",
    GRAMMAR,
)
PATH: Final = Finding(
    "path-as-name",
    '{name} contains a "/", which no short name has: {compared}',
    "write the name alone",
    "Hadoop's auth_to_local rules yield short names",
)
INSTANCE: Final = Finding(
    "instance-of-principal",
    '{name} contains a "/", which no short name has: {compared}',
    IF_IT_IS_THE_NAME,
    "Hadoop's auth_to_local rules yield short names",
)
SEVERAL_QUEUES: Final = Finding(
    "several-queues-in-one-name",
    '{name} is one queue: a "{text}" does not separate queues',
    "{separate_queues}",
    "the names of queues are compared as they are",
)

SPACE_AT_COMMA: Final = Finding(
    "space-at-comma",
    "the space {side} the comma turns {names} into {what}",
    USERS_OR_GROUPS,
    GRAMMAR,
)
