"""Lint rules that look at one ACL at a time."""

import re
from typing import Final

from queuegate.policy.acl import WILDCARD
from queuegate_server.formats.diagnostics import Diagnostics, quoted
from queuegate_server.formats.yunikorn.acls import WHITE_SPACE_BUT_BLANK, dropped_entry
from queuegate_server.formats.yunikorn.lint_subject import Subject

_BLANK_AFTER_COMMA: Final = re.compile(r", (.+)")


def blank_after_comma(subject: Subject, diagnostics: Diagnostics) -> None:
    """A blank after a comma, which starts the list of groups."""
    for listed in subject.acls:
        match = _BLANK_AFTER_COMMA.search(listed.scalar.text)
        if match:
            message = f"the blank after the comma makes groups of {quoted(match[1])}"
            remedy = "for users remove the blank, for groups remove the comma"
            diagnostics.warning(listed.scalar, message, remedy, listed.queue.path)


def wildcard_in_list(subject: Subject, diagnostics: Diagnostics) -> None:
    """A `*` among other names, which is a bad name like any other."""
    for listed in subject.acls:
        for kind, names in (
            ("user", listed.acl.dropped_users),
            ("group", listed.acl.dropped_groups),
        ):
            if WILDCARD in names:
                message, remedy = dropped_entry(kind, WILDCARD, listed.names)
                diagnostics.warning(listed.scalar, message, remedy, listed.queue.path)


def wildcard_with_names(subject: Subject, diagnostics: Diagnostics) -> None:
    """A list that is just `*` beside a list of names, which then mean nothing."""
    for listed in subject.acls:
        fields = listed.scalar.text.split(" ")
        if listed.acl.allows_all and any(field not in {"", WILDCARD} for field in fields):
            if WHITE_SPACE_BUT_BLANK.sub("", listed.scalar.text) == WILDCARD:
                continue
            message = 'the list "*" lets everybody in: the other list means nothing'
            remedy = 'write "*" alone, or replace it by names'
            diagnostics.warning(listed.scalar, message, remedy, listed.queue.path)


def any_group(subject: Subject, diagnostics: Diagnostics) -> None:
    """A `*` where the groups stand: it is no "any group", it lets in whoever has none, too."""
    for listed in subject.acls:
        if WHITE_SPACE_BUT_BLANK.sub("", listed.scalar.text) == f" {WILDCARD}":
            message = '" *" lets everybody in, not only the members of some group'
            remedy = 'write "*" if that is meant, otherwise list the groups'
            diagnostics.warning(listed.scalar, message, remedy, listed.queue.path)


def white_space(subject: Subject, diagnostics: Diagnostics) -> None:
    """White space that separates nothing and only spoils names."""
    for listed in subject.acls:
        match = WHITE_SPACE_BUT_BLANK.search(listed.scalar.text)
        if match and not listed.acl.allows_all:
            kinds = {"\t": "a tab", "\n": "a line break", "\r": "a line break"}
            kind = kinds.get(match[0], f"U+{ord(match[0]):04X}")
            message = f"{kind} in an ACL separates nothing and becomes part of a name"
            remedy = "write the ACL on one line; one blank separates users from groups"
            diagnostics.warning(listed.scalar, message, remedy, listed.queue.path)


def nobody(subject: Subject, diagnostics: Diagnostics) -> None:
    """A list that grants nobody, as none of its entries is a valid name."""
    for listed in subject.acls:
        acl = listed.acl
        if acl.is_empty and (acl.dropped_users or acl.dropped_groups):
            message = "this ACL grants nobody: none of its entries is a valid name"
            remedy = 'correct the names; for nobody write " " in quotes'
            diagnostics.warning(listed.scalar, message, remedy, listed.queue.path)
