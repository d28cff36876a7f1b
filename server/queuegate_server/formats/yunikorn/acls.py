"""Parses queue ACLs, and reports entries that YuniKorn rejects or silently drops.

YuniKorn checks an ACL twice. Its validator (`checkACL` in `pkg/common/configs/configvalidator.go`)
counts fields separated by any white space. Its scheduler (`NewACL` in `pkg/common/security/acl.go`)
counts single spaces, and rejects some ACLs that the validator accepts. This parser applies both
checks.
"""

from typing import Final

from queuegate.policy.acl import (
    EMPTY,
    WILDCARD,
    Acl,
    AclError,
    AclNames,
    has_only_valid_names,
    names_for,
    parse,
)
from queuegate_server.formats.diagnostics import Diagnostics, quoted
from queuegate_server.formats.suspicious_names import (
    OTHER_WHITE_SPACE,
    YUNIKORN,
    not_a_list,
    suspicious_name,
)
from queuegate_server.formats.yaml_nodes import ScalarNode

_MAX_LISTS: Final = 2


class AclReader:
    """Parses a partition's ACLs. Identical strings are parsed into the same `Acl` object."""

    def __init__(
        self, names: AclNames, diagnostics: Diagnostics, partition: str, *, has_option: bool = False
    ) -> None:
        """Create a reader. `names` selects the names allowed in ACLs; other names are reported.

        `partition` is the partition's name, and `has_option` whether the user may pass --acl-names,
        for remedies.
        """
        self.names = names
        self.partition = partition
        self._has_option = has_option
        self._diagnostics = diagnostics
        self._parsed: dict[str, Acl | str] = {"": EMPTY}
        self._texts: dict[str, str] = {}

    def check(self, scalar: ScalarNode | None, queue: str) -> Acl | str:
        """Return an ACL's text if all its names are valid; otherwise, the result of `read`."""
        if scalar is None or not has_only_valid_names(scalar.text, self.names):
            return self.read(scalar, queue)
        text = self._texts.get(scalar.text)
        if text is None:
            # Copy the text, because a reference to the original would keep the nodes in memory.
            text = self._texts[scalar.text] = scalar.text.encode().decode()
        return text

    def read(self, scalar: ScalarNode | None, queue: str) -> Acl:
        """Parse an ACL, and report why it is invalid or which entries grant nothing."""
        if scalar is None:
            return EMPTY
        acl = self._parsed.get(scalar.text)
        if acl is None:
            acl = self._parsed[scalar.text] = self._parse(scalar.text)
        if isinstance(acl, str):
            remedy = "separate names with commas, and users from groups with one space;"
            remedy += " a list of groups alone starts with a space"
            if other := not_a_list(scalar.text, YUNIKORN):
                acl, remedy = f"{acl}: {other.message}", other.remedy
            self._diagnostics.error(scalar, acl, remedy, queue)
            return EMPTY
        if acl.dropped_users or acl.dropped_groups:
            self._report_dropped(scalar, acl, queue)
        return acl

    def _parse(self, text: str) -> Acl | str:
        """Return the ACL, or an error message."""
        message = _too_many_lists(text)
        try:
            return message or parse(text, self.names)
        except AclError:
            return (
                f"the ACL {quoted(text)} has {text.count(' ')} spaces: "
                "YuniKorn's validator accepts it, but its scheduler does not load it"
            )

    def _report_dropped(self, scalar: ScalarNode, acl: Acl, queue: str) -> None:
        for kind, names in (("user", acl.dropped_users), ("group", acl.dropped_groups)):
            remaining = self._diagnostics.remaining_warnings
            for name in names[:remaining]:
                message, remedy = self.dropped_entry(kind, name)
                self._diagnostics.warning(scalar, message, remedy, queue)
            self._diagnostics.suppress_warnings(max(0, len(names) - remaining))

    def dropped_entry(self, kind: str, name: str) -> tuple[str, str]:
        """Return the message and remedy for an entry with an invalid name."""
        message = f"{quoted(name)} is not a valid {kind} name in an ACL, so it grants nothing"
        accepting = names_for(kind, name)
        suspicion = suspicious_name(kind, name, YUNIKORN)
        if name == WILDCARD:
            remedy = 'to allow everyone, write "*" alone'
        elif OTHER_WHITE_SPACE.search(name):
            remedy = "write the ACL on one line, with commas and no white space between names"
        elif accepting is AclNames.EXTENDED and suspicion is None:
            remedy = f"to accept it, {self._setting(accepting)}"
        elif accepting:
            correct = suspicion.remedy if suspicion else "correct the name"
            remedy = f"{correct}, or to accept it, {self._setting(accepting)}"
        elif suspicion:
            remedy = suspicion.remedy
        else:
            remedy = "correct the name or remove it"
        return message, remedy

    def _setting(self, value: str) -> str:
        """Return how to set which names the partition's ACLs may list."""
        setting = f"set partitions.{self.partition}.acl_names: {value}"
        option = f", or pass --acl-names {value}" if self._has_option else ""
        return f"{setting} in the server's settings (queuegate.yaml){option}"


def _too_many_lists(text: str) -> str:
    if len(text.split()) <= _MAX_LISTS:  # never fewer lists than YuniKorn counts
        return ""
    fields = OTHER_WHITE_SPACE.sub(" ", text).split(" ")
    count = len(fields) - fields.count("")
    if count <= _MAX_LISTS:
        return ""
    return (
        f"the ACL {quoted(text)} has {count} lists instead of one list of users and one of groups"
    )
