"""Draws the measurements of the soak over time as SVG, in panels below each other."""

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from bench import charts
from bench.charts import FIRST, SECOND, THIRD, Axis, element, number_of, text

_LEFT: Final = 70
_RIGHT: Final = 110
_HEIGHT: Final = 130
_GAP: Final = 46
_TOP: Final = 88
_COLOURS: Final = (FIRST, SECOND, THIRD)


class Panel(NamedTuple):
    """A chart: its title, and its lines by name. `log` is for values of different magnitudes."""

    title: str
    lines: Mapping[str, Sequence[float]]
    log: bool = False


def draw(
    minutes: Sequence[float],
    panels: Sequence[Panel],
    outages: Sequence[tuple[float, float]],
) -> str:
    """Return the panels over time in minutes, with outages shaded."""
    parts: list[str] = []
    for number, panel in enumerate(panels):
        parts += _panel(panel, minutes, outages, _TOP + number * (_HEIGHT + _GAP))
    height = _TOP + len(panels) * (_HEIGHT + _GAP)
    return charts.document(
        height,
        "Half an hour of calls, reloads and outages",
        "over time; shaded: the directory is down",
        parts,
    )


def _panel(
    panel: Panel, minutes: Sequence[float], outages: Sequence[tuple[float, float]], top: float
) -> list[str]:
    right, bottom = charts.WIDTH - _RIGHT, top + _HEIGHT
    ticks = [round(minutes[-1] * part / 6, 1) for part in range(7)]
    across = Axis(ticks, _LEFT, right, ticks=ticks)
    upwards = Axis(
        [value for line in panel.lines.values() for value in line], bottom, top, log=panel.log
    )
    title = f"{panel.title}, logarithmic axis" if panel.log else panel.title
    parts = [text(_LEFT, top - 10, title)]
    parts += [
        element("rect", "shade", x=begin, y=top, width=end - begin, height=_HEIGHT)
        for begin, end in ((across.place(begin), across.place(end)) for begin, end in outages)
    ]
    for tick in upwards.ticks:
        y = upwards.place(tick)
        parts += [
            element("path", "grid", d=f"M{_LEFT} {y:.1f}H{right}"),
            text(_LEFT - 8, y + 4, number_of(tick), anchor="end"),
        ]
    parts += [
        text(across.place(minute), bottom + 18, f"{minute:g} min", anchor="middle")
        for minute in across.ticks
    ]
    ends = []
    for (name, line), colour in zip(panel.lines.items(), _COLOURS, strict=False):
        course = zip(minutes, line, strict=True)
        path = "L".join(f"{across.place(x):.1f} {upwards.place(y):.1f}" for x, y in course)
        parts.append(element("path", colour, d=f"M{path}"))
        ends.append((name, colour))
    for row, (name, colour) in enumerate(reversed(ends)):
        parts.append(text(right + 12, top + 14 + 18 * row, name, colour=colour))
    return parts
