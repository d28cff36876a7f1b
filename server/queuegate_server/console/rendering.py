"""Renders templates. All variable text is escaped, made printable and truncated."""

import asyncio
import time
from datetime import UTC, datetime
from typing import Any, Final

from jinja2 import Environment, PackageLoader, StrictUndefined, Template
from markupsafe import Markup

from queuegate_server.console.views import Url, url
from queuegate_server.formats.diagnostics import printable, shortened
from queuegate_server.runtime.pacing import Pace

MAX_TEXT: Final = 1_000
"""The length beyond which text is truncated. Names have at most 1,024 bytes."""
_SHORTEST: Final = 0.1e-3
_WHOLE_MILLISECONDS: Final = 10e-3
"""The minimum latency, in seconds, that is shown without tenths of a millisecond."""
_rendering: Final = asyncio.Semaphore(1)
"""Allows one page at a time, because each page in progress delays RPCs by one step."""


class ExactText(str):
    """Text that must not be altered or truncated, such as the value of a form field."""

    __slots__ = ()


def environment() -> Environment:
    """Return the template environment."""
    env = Environment(
        loader=PackageLoader("queuegate_server.console"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_finalize,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    env.filters.update(
        exact=ExactText,
        moment=moment,
        age=age,
        count=_count,
        duration=_duration,
        latency=_latency,
        short_time=_short_time,
    )
    env.globals.update(url=url)
    return env


async def render(template: Template, **values: object) -> bytes:
    """Render a page in steps."""
    page = bytearray()
    async with _rendering:
        pace = Pace()
        for part in template.generate(values):
            page += part.encode(errors="replace")
            await pace.pause_if_due()
    return bytes(page)


def moment(wall_seconds: float) -> str:
    """Format a Unix timestamp as human-readable text in UTC."""
    return datetime.fromtimestamp(wall_seconds, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def age(wall_seconds: float) -> str:
    """Format the time elapsed since a Unix timestamp, such as `5 min ago`."""
    return f"{_duration(max(0.0, time.time() - wall_seconds))} ago"


def _duration(seconds: float) -> str:
    """Format a duration in the largest unit that gives a value of at least 2, or in seconds."""
    for unit, size in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= 2 * size:
            return f"{seconds // size:.0f} {unit}"
    return f"{seconds:.0f} s"


def _latency(seconds: float) -> str:
    """Format a latency in milliseconds, with tenths if it is below 10 ms."""
    if seconds < _SHORTEST:
        return "< 0.1 ms"
    return f"{seconds * 1000:.{1 if seconds < _WHOLE_MILLISECONDS else 0}f} ms"


def _short_time(text: str) -> str:
    """Shorten an RFC 3339 time: remove `T`, `Z` and fractional seconds."""
    day, _, time_of_day = text.removesuffix("Z").partition("T")
    return f"{day} {time_of_day.partition('.')[0]}"


def _count(number: int) -> Markup:
    # Markup, because `_finalize` would show the narrow space as an escape sequence.
    return Markup("\N{NARROW NO-BREAK SPACE}").join(f"{number:,}".split(","))


def _finalize(value: Any) -> Any:
    """Make a value from a policy, directory or URL safe to display."""
    if not isinstance(value, str) or isinstance(value, Markup | Url | ExactText):
        return value
    return printable(shortened(value, MAX_TEXT))
