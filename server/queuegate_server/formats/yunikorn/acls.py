"""The ACLs of queues: what YuniKorn refuses, and what it drops without a word.

Two parts of YuniKorn look at an ACL. Its validator (`checkACL` in
`pkg/common/configs/configvalidator.go`) counts fields between runs of any white space;
its scheduler (`NewACL` in `pkg/common/security/acl.go`) counts single blanks and then
refuses to load what the validator let pass. Here both are errors, at once.
"""

import re
from typing import Final

from queuegate.policy.acl import (
    EMPTY,
    WILDCARD,
    Acl,
    AclError,
    AclNames,
    UnsplitAcl,
    lists_names,
    parse,
)
from queuegate.policy.names import is_group_name, is_user_name
from queuegate_server.formats.diagnostics import Diagnostics, quoted
from queuegate_server.formats.yaml_nodes import Scalar

WHITE_SPACE_BUT_BLANK: Final = re.compile(
    "[\t\n\v\f\r\x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]"
)
"""Unicode White_Space without U+0020, the one character that separates users from groups."""
_MOST_LISTS: Final = 2


class AclReader:
    """Parses the ACLs of a partition. Equal texts share one ACL, equal names one text."""

    def __init__(self, names: AclNames, diagnostics: Diagnostics) -> None:
        """Take which names are accepted and where to report to."""
        self.names = names
        self._diagnostics = diagnostics
        self._read: dict[str, Acl | str] = {"": EMPTY}
        self._kept: dict[str, str] = {}
        self._unsplit: dict[str, UnsplitAcl] = {}

    def check(self, scalar: Scalar | None, queue: str) -> Acl | UnsplitAcl:
        """Return an ACL that lists nothing but names without splitting it; any other as `read`
        does. Equal texts share one.
        """
        if scalar is None or not lists_names(scalar.text, self.names):
            return self.read(scalar, queue)
        found = self._unsplit.get(scalar.text)
        if found is None:
            # A copy of the text: what stays from among the nodes keeps all their memory.
            found = UnsplitAcl(scalar.text.encode().decode())
            self._unsplit[scalar.text] = found
        return found

    def read(self, scalar: Scalar | None, queue: str) -> Acl:
        """Parse an ACL; report why it is none, or which of its entries grant nothing."""
        if scalar is None:
            return EMPTY
        found = self._read.get(scalar.text)
        if found is None:
            found = self._read[scalar.text] = self._parse(scalar.text)
        if isinstance(found, str):
            remedy = (
                "separate names by commas; one blank stands between users and groups, "
                "or before groups without users"
            )
            self._diagnostics.error(scalar, found, remedy, queue)
            return EMPTY
        if found.dropped_users or found.dropped_groups:
            self._report_dropped(scalar, found, queue)
        return found

    def _parse(self, text: str) -> Acl | str:
        """Return the ACL, or why the text is none."""
        fault = _too_many_lists(text)
        try:
            return fault or parse(text, self.names, self._kept)
        except AclError:
            return (
                f"the ACL {quoted(text)} has {text.count(' ')} blanks: "
                "YuniKorn validates it but refuses to load it"
            )

    def _report_dropped(self, scalar: Scalar, acl: Acl, queue: str) -> None:
        for kind, names in (("user", acl.dropped_users), ("group", acl.dropped_groups)):
            room = self._diagnostics.remaining_warnings
            for name in names[:room]:
                message, remedy = dropped_entry(kind, name, self.names)
                self._diagnostics.warning(scalar, message, remedy, queue)
            self._diagnostics.suppress_warnings(max(0, len(names) - room))


def _too_many_lists(text: str) -> str:
    if len(text.split()) <= _MOST_LISTS:  # splits at more than white space
        return ""
    fields = WHITE_SPACE_BUT_BLANK.sub(" ", text).split(" ")
    count = len(fields) - fields.count("")
    if count <= _MOST_LISTS:
        return ""
    return f"the ACL {quoted(text)} has {count} lists instead of one of users and one of groups"


def dropped_entry(kind: str, name: str, names: AclNames) -> tuple[str, str]:
    """Return the message and the remedy for an entry of an ACL that is no valid name."""
    message = f"{quoted(name)} is not a {kind} name that an ACL accepts; it grants nothing"
    extended = is_user_name(name) if kind == "user" else is_group_name(name)
    if name == WILDCARD:
        remedy = 'to allow everybody, write "*" alone'
    elif extended and names is AclNames.YUNIKORN:
        remedy = "the partition setting acl_names: extended accepts it"
    elif WHITE_SPACE_BUT_BLANK.search(name):
        remedy = "write the ACL on one line, with commas between names and no other white space"
    else:
        remedy = "correct the name or remove it"
    return message, remedy
