"""The generated pages of docs/reference."""

from collections.abc import Callable, Mapping
from typing import Final

from docs.generate import (
    api,
    audit,
    commands,
    errors,
    findings,
    http,
    limits,
    metrics,
    modules,
    operators,
    python,
    removed,
    settings,
    threats,
)

PAGES: Final[Mapping[str, Callable[[], str]]] = {
    "api.md": api.generate,
    "audit-record.md": audit.generate,
    "errors.md": errors.generate,
    "findings.md": findings.generate,
    "http.md": http.generate,
    "limits.md": limits.generate,
    "metrics.md": metrics.generate,
    "modules.md": modules.generate,
    "operators.md": operators.generate,
    "python.md": python.generate,
    "queuegate.md": commands.generate_client,
    "queuegate-server.md": commands.generate_server,
    "removed-settings.md": removed.generate,
    "settings.md": settings.generate,
    "threat-tests.md": threats.generate,
}
