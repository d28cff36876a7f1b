"""What pages show beside the served policy: ACL positions and lint findings.

They are computed when a page first needs them after a reload: findings in the parser's child
process, positions in a thread. Large policies are not annotated.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from queuegate_server.config_fields import MIB
from queuegate_server.engine import Snapshot
from queuegate_server.formats.acl_positions import AclKey, DefaultPlace, Place, acl_positions
from queuegate_server.formats.detection import detect_policy_format
from queuegate_server.formats.diagnostics import Diagnostic, ParseError
from queuegate_server.formats.envelope import open_envelope
from queuegate_server.policystore import parser_process
from queuegate_server.policystore.loader import MAX_KEPT_BYTES
from queuegate_server.policystore.parsing import CheckJob, ParseJob

_LOG = logging.getLogger("queuegate_server.console")
WAIT_SECONDS: Final = 3.0
"""How long a page waits for annotations, in seconds."""
_TOO_LARGE: Final = (
    f"The policy is larger than {MAX_KEPT_BYTES // MIB} MiB: run `queuegate-server lint` for lines"
    " and findings."
)


@dataclass(frozen=True, slots=True)
class Annotations:
    """ACL positions and lint findings."""

    places: Mapping[AclKey, Place] = field(default_factory=dict)
    findings: tuple[Diagnostic, ...] = ()
    missing: str = ""
    """Why annotations are missing; empty if none are."""

    def place(self, key: AclKey) -> str:
        """Return an ACL's `file:line:column`, or a note that it is a default; empty if unknown."""
        place = self.places.get(key)
        if place is None:
            # Cluster administrators may be defined in the settings, so their position may be
            # unknown.
            return "default" if self.places and key.queue else ""
        if isinstance(place, DefaultPlace):
            return f"default ({'queue at' if key.queue else 'unset in'}\n{place})"
        return str(place)


class Annotator:
    """Annotates the served policy once per revision."""

    def __init__(self, texts: Callable[[], ParseJob | None]) -> None:
        """Create an annotator. `texts` returns the served policy's text, or None if it is too
        large.
        """
        self._texts = texts
        self._revision = 0
        self._task: asyncio.Task[Annotations] | None = None

    async def annotations(self, snapshot: Snapshot) -> Annotations:
        """Return a policy's annotations, or the reason that they are unavailable."""
        revision, checksum = snapshot.policy.revision, snapshot.policy.checksum
        if self._task is None or self._revision != revision:
            texts = self._texts()
            if texts is None:
                return Annotations(missing=_TOO_LARGE)
            if texts.checksum != checksum:
                return Annotations(missing="A newer policy has just been loaded: reload the page.")
            self._revision = revision
            self._task = asyncio.create_task(self._read(texts))
        done, _ = await asyncio.wait({self._task}, timeout=WAIT_SECONDS)
        if not done:
            return Annotations(missing="Lines and findings are still being read: reload the page.")
        return self._task.result()

    async def _read(self, job: ParseJob) -> Annotations:
        if await asyncio.to_thread(_is_large, job):
            return Annotations(missing=_TOO_LARGE)
        findings: list[Diagnostic] = []
        missing = ""
        try:
            for text in job.texts:
                lint_job = CheckJob(text.format, (text.policy,), text.options)
                findings += await parser_process.check(lint_job)
        except OSError as error:
            reason = error.strerror or str(error)
            _LOG.warning("the policy could not be linted", extra={"error": reason})
            missing = f"Findings are not available: the linter cannot be started: {reason}."
        places = await asyncio.to_thread(_places, job)
        return Annotations(places, tuple(findings), missing)


def _is_large(job: ParseJob) -> bool:
    """Return whether the decompressed policies are too large to annotate."""
    left = MAX_KEPT_BYTES
    for text in job.texts:
        name, data = text.policy
        try:
            left -= len(data if text.options.is_bare else open_envelope(data, name, left).data)
        except ParseError:
            return True  # the served policy is valid, so it must exceed the limit
        if left < 0:
            return True
    return False


def _places(job: ParseJob) -> Mapping[AclKey, Place]:
    positions: dict[AclKey, Place] = {}
    for text in job.texts:
        name, data = text.policy
        format_name = text.format or detect_policy_format(data)
        positions |= acl_positions(format_name, data, name, text.options)
    return positions
