"""Finds what YARN decides alone although it asks queuegate who may use a queue.

The keys follow Hadoop's `ApplicationACLsManager`, `AdminService`, `AppPriorityACLsManager`,
`ReservationsACLsManager` and the placement rules, none of which consults an authorizer about them.
"""

import re
from collections.abc import Iterator
from typing import Final, NamedTuple

from queuegate_server.formats.diagnostics import Diagnostic, Diagnostics
from queuegate_server.formats.findings.table import finding
from queuegate_server.formats.format_names import FAIR_SCHEDULER
from queuegate_server.formats.xml_reader import read_xml
from queuegate_server.formats.yarn.overrides import AUTHORIZER, asks_queuegate
from queuegate_server.formats.yarn.properties import Configuration
from queuegate_server.formats.yarn.site import ADMINS
from queuegate_server.formats.yarn.templates import PREFIX
from queuegate_server.formats.yarn.variables import LocatedText

_CAPACITY: Final = re.escape(PREFIX)
_PLACEMENT: Final = (
    rf"{_CAPACITY}(queue-mappings(-override\.enable)?|mapping-rule-json(-file)?)"
    r"|yarn\.scheduler\.queue-placement-rules(\.app-name)?"
    r"|yarn\.scheduler\.fair\.user-as-default-queue|queuePlacementPolicy"
)
_RESERVATIONS: Final = (
    rf"{_CAPACITY}.+\.acl_(administer|list|submit)_reservations"
    r"|yarn\.acl\.reservation-enable|acl(Administer|List|Submit)Reservations"
)
_OF_SCHEDULERS: Final = "yarn.scheduler."
_TOPICS: Final = tuple(
    (re.compile(names), identifier)
    for names, identifier in (
        (re.escape(ADMINS), "administration-by-yarn"),
        (_PLACEMENT, "placement-by-yarn"),
        (rf"{_CAPACITY}.+\.acl_application_max_priority", "priorities-by-yarn"),
        (_RESERVATIONS, "reservations-by-yarn"),
    )
)
"""The properties, and elements of the fair scheduler's file, by which YARN decides alone."""


class _Setting(NamedTuple):
    """A setting by which YARN decides alone. Its fields sort settings in the order of notes."""

    line: int
    name: str
    place: LocatedText


def own_decisions(
    site: Configuration, site_file: str, format_name: str = "", data: bytes = b"", file: str = ""
) -> tuple[Diagnostic, ...]:
    """Return notes on what YARN decides alone; none if YARN does not ask queuegate.

    Args:
        site: The properties of yarn-site.xml.
        site_file: The name of yarn-site.xml.
        format_name: The format of the scheduler's file; empty if there is none.
        data: The valid contents of the scheduler's file.
        file: The name of the scheduler's file.
    """
    if not asks_queuegate(site):
        return ()
    notes = Diagnostics(site_file)
    notes.add(site.position(AUTHORIZER), finding("asked-of-queuegate"))
    by_topic: dict[tuple[str, str], list[_Setting]] = {}
    for name, place in _settings(site, format_name, data, file):
        for names, identifier in _TOPICS:
            if names.fullmatch(name):
                setting = _Setting(place.line, name, place)
                by_topic.setdefault((identifier, place.file), []).append(setting)
    for (identifier, _), settings in by_topic.items():
        first, *others = sorted(settings)
        more = f" and {len(others)} more" if others else ""
        notes.add(first.place, finding(identifier, names=f"{first.name}{more}"))
    return notes.sorted()


def _settings(
    site: Configuration, format_name: str, data: bytes, file: str
) -> Iterator[tuple[str, LocatedText]]:
    """Yield the properties of both files, and the elements of the fair scheduler's file."""
    is_fair = format_name == FAIR_SCHEDULER
    properties = site
    if format_name and not is_fair:
        properties = site.copy()
        properties.add(data, Diagnostics(file), is_read=lambda _: False)
    for name in properties:
        # Hadoop reads other properties in yarn-site.xml only.
        place = (properties if name.startswith(_OF_SCHEDULERS) else site).position(name)
        if place is not None and not (is_fair and name.startswith(PREFIX)):
            yield name, place
    elements = [read_xml(data, Diagnostics(file))] if is_fair else []
    while elements:
        if (element := elements.pop()) is not None:
            yield element.name, LocatedText(element.line, element.column, "", file)
            elements += element.children
