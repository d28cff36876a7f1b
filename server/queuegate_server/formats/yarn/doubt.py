"""What is doubtful in one ACL of YARN, in one message however much it is."""

import re
from typing import Final, NamedTuple

from queuegate.policy.acl import WILDCARD
from queuegate.policy.yarn_acl import Semantics, difference, parse_yarn
from queuegate_server.formats.diagnostics import quoted

_SPLIT_LINE: Final = re.compile(r"[\t\n\r]")
_BLANK_AT_COMMA: Final = re.compile(r"^[^ ]*(?:, | ,)")


class Doubt(NamedTuple):
    """What to say of an ACL."""

    message: str
    remedy: str


def doubt(text: str, semantics: Semantics) -> Doubt | None:
    """Return what is doubtful in an ACL that is read by some semantics; None if nothing is."""
    told: list[Doubt] = []
    if _SPLIT_LINE.search(text):
        # The first blank of the indentation parts users from groups.
        message = "a line break or tab stands in this ACL: blanks after it turn users into groups"
        told.append(Doubt(message, "write the ACL on one line, right between the tags"))
    elif _BLANK_AT_COMMA.match(text):
        message = "the blank beside the comma turns the names behind it into groups"
        told.append(Doubt(message, "remove the blank"))
    hadoop = parse_yarn(text, Semantics.HADOOP)
    if WILDCARD in hadoop.users | hadoop.groups:
        message = "a * among names is a name like any other"
        told.append(Doubt(message, "write * alone, or remove it"))
    if differs := difference(text):
        message = f"{quoted(text)} is ambiguous: {differs}; it is read as {semantics}"
        remedy = "write users, one space, groups, with nothing but commas between names"
        told.append(Doubt(message, remedy))
    if not told:
        return None
    return Doubt("; ".join(each.message for each in told), told[0].remedy)
