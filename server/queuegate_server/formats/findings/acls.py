"""Findings about ACLs and the names in them, in all formats.

The fields are `name` (the name, quoted), `kind` (user or group), `text` and `part` (what a pattern
found in the name), `code` (a character's number), and `compared` (how the format compares names).
"""

from typing import Final

from queuegate_server.formats.findings.finding import PHRASES, read_table

TABLE: Final = read_table("acls")

REMOVE_ONE: Final = PHRASES["remove-one"]
WRITE_THE_VALUE: Final = PHRASES["write-the-value"]
WILDCARD_ALONE: Final = PHRASES["wildcard-alone"]
WHITE_SPACE: Final = TABLE["white-space-in-acl"]
EMPTY_ENTRY: Final = TABLE["comma-without-name"]
TEMPLATE: Final = TABLE["unrendered-template"]
DISTINGUISHED_NAME: Final = TABLE["distinguished-name"]
PLACEHOLDERS: Final = TABLE["placeholder"]
WORD_FOR_WHOM: Final = TABLE["word-for-nobody-or-everyone"]
TWO_SPELLINGS: Final = TABLE["names-that-differ-in-case"]
INVISIBLE: Final = TABLE["invisible-character"]
LOOK_ALIKE: Final = TABLE["look-alike-character"]
COMBINING_MARK: Final = TABLE["combining-mark"]
BRACKETS: Final = TABLE["brackets"]
QUOTES: Final = TABLE["quotes"]
PLACEHOLDER: Final = TABLE["placeholder-name"]
ESCAPE: Final = TABLE["escape-in-name"]
NEGATION: Final = TABLE["negation"]
COMMENT: Final = TABLE["comment-in-acl"]
OTHER_SEPARATOR: Final = TABLE["other-separator"]
AMPERSAND: Final = TABLE["ampersand"]
PATTERN: Final = TABLE["pattern"]
BACKSLASH_BEFORE_NAME: Final = TABLE["backslash-before-name"]
BACKSLASH: Final = TABLE["backslash"]
PRINCIPAL: Final = TABLE["kerberos-principal"]
PREFIX: Final = TABLE["prefix-of-name"]
MARK_OF_GROUP: Final = TABLE["mark-of-group"]
PATH: Final = TABLE["path-as-name"]
INSTANCE: Final = TABLE["instance-of-principal"]
SEVERAL_QUEUES: Final = TABLE["several-queues-in-one-name"]
SPACE_AT_COMMA: Final = TABLE["space-at-comma"]
