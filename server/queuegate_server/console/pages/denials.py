"""The Denials page, which shows the newest audited requests that were denied or not decided."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from queuegate.policy.names import is_at_or_below
from queuegate_server.console.views import Page, Route, View, Visit, url
from queuegate_server.files.safe_open import remedy
from queuegate_server.observe.audit_reader import NewestRecords, newest_records
from queuegate_server.settings.observability import STDOUT, Audit

NUMBER: Final = 100
"""The maximum number of records shown."""
DENIED: Final = "denied"
ERROR: Final = "error"
_MARKERS: Final = (b'"decision":"denied"', b'"decision":"error"')
_EXPLAIN: Final = "Explain"
"""The prefix of the methods that explain decisions, which the Access page calls."""
_CONCURRENT: Final = 2
_QUERY: Final = ("partition", "user", "queue", "access")
_SHOWN: Final = (
    *_QUERY, "action", "time", "decision", "reason", "caller", "method", "revision",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class DenialFilter:
    """A filter for records. Empty fields match any value."""

    user: str
    queue: str
    """A queue; matches the queue and its descendants."""
    partition: str
    decision: str
    except_explained_to: str
    """A caller whose explanations are left out; empty to include all."""

    def matches(self, record: Mapping[str, Any]) -> bool:
        """Return whether a record matches."""
        decision = record.get("decision")
        return (
            decision in {DENIED, ERROR}
            and not self._is_left_out(record)
            and self.decision in {"", decision}
            and self.user in {"", record.get("user")}
            and self.partition in {"", record.get("partition")}
            and (not self.queue or is_at_or_below(str(record.get("queue", "")), self.queue))
        )

    def _is_left_out(self, record: Mapping[str, Any]) -> bool:
        is_explained = str(record.get("method", "")).startswith(_EXPLAIN)
        return is_explained and self.except_explained_to == record.get("caller")

    @property
    def is_set(self) -> bool:
        """Whether any field of the form, except the checkbox, is set."""
        return bool(self.user or self.queue or self.partition or self.decision)


_turns: Final = asyncio.Semaphore(_CONCURRENT)


async def denials(visit: Visit) -> View:
    """Show the newest denials that match the filter in the URL."""
    query, services = visit.query, visit.services
    chosen = DenialFilter(
        query.get("user", "").strip(),
        query.get("queue", "").strip(),
        query.get("partition", ""),
        query.get("decision", ""),
        except_explained_to="" if "own" in query else visit.principal.name,
    )
    audit = services.settings.audit
    newest = NewestRecords([], searched_all=True)
    problem, todo = _unreadable(audit)
    if not problem and audit.path is not None:
        try:
            newest = await _read(audit.path, audit.keep, chosen)
        except OSError as error:
            problem = f"{audit.path} cannot be read: {error.strerror or error}"
            todo = remedy(error)
    page = {
        "filter": chosen,
        "requests": [*map(_request, newest.records)],
        "searched_all": newest.searched_all,
        "problem": problem,
        "other_logs": services.core.fleet is not None,
        "remedy": todo,
        "partitions": sorted(services.core.engine.snapshot.served),
    }
    return View("denials.html", "Denials", page)


async def _read(path: Path, keep: int, chosen: DenialFilter) -> NewestRecords:
    """Return the newest matching records in the audit log. Raises OSError."""
    await _turns.acquire()
    reading = asyncio.create_task(
        asyncio.to_thread(newest_records, path, keep, chosen.matches, NUMBER, _MARKERS)
    )
    reading.add_done_callback(lambda _: _turns.release())
    # If the browser disconnects, the thread keeps running and must keep its slot.
    return await asyncio.shield(reading)


def _unreadable(audit: Audit) -> tuple[str, str]:
    """Return why the audit log cannot be shown, and the remedy. Both are empty if it can be."""
    if not audit.is_on:
        return "the server writes no audit log", "set audit.path to a file"
    if audit.path == STDOUT:
        return "the audit log goes to standard output", "set audit.path to a file to see it here"
    return "", ""


def _request(record: Mapping[str, Any]) -> dict[str, object]:
    """Return a record's fields as text, empty if missing. `access_url` links to the current
    decision on the same request; it is None if the record lacks the user, queue or access type.
    """
    shown = {key: str(record.get(key, "")) for key in _SHOWN}
    access_url = None
    if shown["queue"] and shown["user"] and "access" in record:
        access_url = url("access", **{key: shown[key] for key in _QUERY})
    return {**shown, "access": shown["access"] or shown["action"], "access_url": access_url}


PAGE: Final = Page("Denials", "denials", (Route("GET", "denials", denials),))
