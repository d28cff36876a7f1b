"""Parses queue ACLs, and reports entries that YuniKorn rejects or silently drops.

YuniKorn checks an ACL twice. Its validator (`checkACL` in `pkg/common/configs/configvalidator.go`)
counts fields separated by any white space. Its scheduler (`NewACL` in `pkg/common/security/acl.go`)
counts single spaces, and rejects some ACLs that the validator accepts. This parser applies both
checks.
"""

from dataclasses import replace
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
from queuegate_server.formats.findings.finding import Finding
from queuegate_server.formats.findings.table import finding, phrase
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

        For remedies, `partition` is the partition's name, and `has_option` says whether the user
        may pass --acl-names.
        """
        self.names = names
        self.partition = partition
        self._has_option = has_option
        self._diagnostics = diagnostics
        self._parsed: dict[str, Acl | Finding] = {"": EMPTY}
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
        if isinstance(acl, Finding):
            if other := not_a_list(scalar.text, YUNIKORN):
                message = f"{acl.message}: {other.message}"
                acl = replace(acl, message=message, remedy=other.remedy)
            self._diagnostics.add(scalar, acl, queue)
            return EMPTY
        if acl.dropped_users or acl.dropped_groups:
            self._report_dropped(scalar, acl, queue)
        return acl

    def _parse(self, text: str) -> Acl | Finding:
        """Return the ACL, or the finding that says why the text is not an ACL."""
        try:
            return _too_many_lists(text) or parse(text, self.names)
        except AclError:
            return finding("too-many-spaces", text=quoted(text), count=text.count(" "))

    def _report_dropped(self, scalar: ScalarNode, acl: Acl, queue: str) -> None:
        for kind, names in (("user", acl.dropped_users), ("group", acl.dropped_groups)):
            remaining = self._diagnostics.remaining_warnings
            for name in names[:remaining]:
                self._diagnostics.add(scalar, self.dropped_entry(kind, name), queue)
            self._diagnostics.suppress_warnings(max(0, len(names) - remaining))

    def dropped_entry(self, kind: str, name: str) -> Finding:
        """Return the finding about an entry with an invalid name."""
        remedy = self._remedy(kind, name)
        return finding("name-that-grants-nothing", name=quoted(name), kind=kind, remedy=remedy)

    def _remedy(self, kind: str, name: str) -> str:
        """Return the remedy for an invalid name; empty to use the remedy in the table."""
        accepting = names_for(kind, name)
        suspicion = suspicious_name(kind, name, YUNIKORN)
        if name == WILDCARD:
            return phrase("wildcard-for-everyone")
        if OTHER_WHITE_SPACE.search(name):
            return phrase("acl-on-one-line")
        correct = suspicion.finding.remedy if suspicion else ""
        if accepting is None:
            return correct
        setting = phrase("accept-name", partition=self.partition, value=accepting)
        setting += phrase("or-option-with-value", value=accepting) if self._has_option else ""
        if accepting is AclNames.EXTENDED and suspicion is None:
            return setting
        return f"{correct or phrase('correct-the-name')}, or {setting}"


def _too_many_lists(text: str) -> Finding | None:
    if len(text.split()) <= _MAX_LISTS:  # never fewer lists than YuniKorn counts
        return None
    fields = OTHER_WHITE_SPACE.sub(" ", text).split(" ")
    count = len(fields) - fields.count("")
    if count <= _MAX_LISTS:
        return None
    return finding("too-many-lists", text=quoted(text), count=count)
