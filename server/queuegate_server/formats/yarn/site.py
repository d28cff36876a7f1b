"""Reads yarn-site.xml: its properties, whether ACLs are enforced, and the administrators."""

import difflib
import re
from typing import Final, NamedTuple

from queuegate.policy.acl import WILDCARD
from queuegate.policy.names import SEPARATOR
from queuegate.policy.yarn_acl import Semantics
from queuegate_server.formats.diagnostics import Diagnostic, Diagnostics, Position, quoted
from queuegate_server.formats.envelope import SITE_KEY, open_envelope
from queuegate_server.formats.findings.table import finding
from queuegate_server.formats.format_names import CAPACITY_SCHEDULER
from queuegate_server.formats.yarn.properties import Configuration, boolean
from queuegate_server.formats.yarn.variables import VARIABLE, LocatedText

NOBODY: Final = " "
ENABLE: Final = "yarn.acl.enable"
ADMINS: Final = "yarn.admin.acl"
_SIMILAR: Final = 0.8
"""The minimum difflib ratio for reporting a key as misspelled. Valid Hadoop keys reach 0.76."""
_MAX_COMPARED: Final = 100
_SITE_KEYS: Final = "yarn."
_CAPACITY_KEYS: Final = "yarn.scheduler.capacity."
_MAPREDUCE_KEYS: Final = "yarn.app.mapreduce."


class YarnSite(NamedTuple):
    """The settings in a yarn-site.xml."""

    acls_enabled: bool
    admins: str
    configuration: Configuration
    """All properties. A capacity-scheduler.xml overrides them."""
    switch: LocatedText | None = None
    """`yarn.acl.enable` as written, if it is set."""
    admin_acl: LocatedText | None = None
    """`yarn.admin.acl` as written, if it is set."""


def read_site(
    site: tuple[bytes, str] | None, semantics: Semantics, format_name: str = ""
) -> tuple[YarnSite, tuple[Diagnostic, ...]]:
    """Return the settings in yarn-site.xml, and all diagnostics.

    `site` is the file's contents and name. The file may be compressed or in a manifest.
    `format_name` is the format of the scheduler's file; empty if unknown. Unset properties have
    Hadoop's defaults: ACLs are disabled and everyone administers the cluster. Without a file, ACLs
    are enforced and nobody administers the cluster.
    """
    configuration = Configuration()
    enforced = YarnSite(acls_enabled=True, admins=NOBODY, configuration=Configuration())
    if site is None:
        return enforced, ()
    diagnostics = Diagnostics(site[1])
    properties = None
    with diagnostics:
        data, file, diagnostics.indent, key = open_envelope(*site, key=SITE_KEY)
        # The scheduler's file may be in the same manifest, but needs a different name.
        diagnostics.file = f"{file} ({key})" if key and file == site[1] else file
        is_readable = configuration.add(data, diagnostics, is_read=_is_read)
        _check_keys(configuration, diagnostics)
        if is_readable and _is_site(configuration, diagnostics):
            properties = configuration.read(diagnostics, is_read=_is_read)
    if properties is None:
        return enforced, diagnostics.sorted()
    switch, admins = properties.get(ENABLE), properties.get(ADMINS)
    stated = boolean(switch) if switch else None
    if not stated and not (switch and VARIABLE.search(switch.text)):
        shown = "not set and defaults to false"
        if switch is not None:
            shown = quoted(switch.text)
            if stated is None:
                shown += ", which is neither true nor false, so it is read as false"
        is_checked = semantics is Semantics.HADOOP and format_name != CAPACITY_SCHEDULER
        fair = ", except that the fair scheduler still checks submission" if is_checked else ""
        diagnostics.add(switch, finding("acls-not-enforced", stated=shown, fair=fair))
    text = admins.text if admins else WILDCARD
    if stated and text.strip() == WILDCARD:
        shown = "*" if admins else "not set and defaults to *"
        effect = "administers the cluster, and no queue is protected"
        if semantics is Semantics.HADOOP:
            effect = "may view and change every application"
        found = finding("everyone-administers", stated=shown, effect=effect)
        diagnostics.add(admins, found)
    return YarnSite(bool(stated), text, configuration, switch, admins), diagnostics.sorted()


def _is_site(configuration: Configuration, diagnostics: Diagnostics) -> bool:
    """Add an error and return False if a valid file is not a yarn-site.xml; otherwise return True.

    Accepting another file would open every queue, since ACLs are disabled by default.
    """
    keys = [name for name in configuration if name.startswith(_SITE_KEYS)]
    if diagnostics.error_count or any(
        not key.startswith((_CAPACITY_KEYS, _MAPREDUCE_KEYS)) for key in keys
    ):
        return True
    what = f"no property of one ({_SITE_KEYS}…)"
    if any(key.startswith(_CAPACITY_KEYS) for key in keys):
        what = f"only properties of a capacity-scheduler.xml ({_CAPACITY_KEYS}…)"
    diagnostics.add(Position(1, 1), finding("not-a-yarn-site", what=what))
    return False


def _check_keys(configuration: Configuration, diagnostics: Diagnostics) -> None:
    """Warn about keys that probably misspell one of the two properties read here."""
    intended = {_words(key): key for key in (ENABLE, ADMINS)}
    for name in configuration:
        if name not in {ENABLE, ADMINS} and (
            similar := difflib.get_close_matches(_words(name), intended, n=1, cutoff=_SIMILAR)
        ):
            found = finding("misspelled-property", name=quoted(name), meant=intended[similar[0]])
            diagnostics.add(configuration.position(name), found)


def _words(key: str) -> str:
    """Return a key's words in lowercase, sorted because a misspelled key may reorder them."""
    return SEPARATOR.join(sorted(re.findall("[a-z]+", key[:_MAX_COMPARED].lower())))


def _is_read(name: str) -> bool:
    return name in {ENABLE, ADMINS}
