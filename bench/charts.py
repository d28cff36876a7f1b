"""Charts as SVG: values with their ranges in rows, and lines over time.

Each chart is readable on light and on dark pages, and refers to nothing outside its file.
"""

import math
from collections.abc import Mapping, Sequence
from html import escape
from typing import Final, NamedTuple

OURS: Final = "ours"
OTHER: Final = "other"
YARDSTICK: Final = "yardstick"
FIRST: Final = "first"
SECOND: Final = "second"
THIRD: Final = "third"
"""The names of colours."""

_LIGHT: Final = {
    "paper": "#ffffff",
    "ink": "#1f2328",
    "grid": "#d8dee4",
    "shade": "#fbe3e0",
    OURS: "#0969da",
    OTHER: "#bc4c00",
    YARDSTICK: "#6e7781",
    FIRST: "#0969da",
    SECOND: "#bc4c00",
    THIRD: "#8250df",
}
_DARK: Final = {
    "paper": "#0d1117",
    "ink": "#e6edf3",
    "grid": "#30363d",
    "shade": "#3d1f1f",
    OURS: "#58a6ff",
    OTHER: "#f0883e",
    YARDSTICK: "#9198a1",
    FIRST: "#58a6ff",
    SECOND: "#f0883e",
    THIRD: "#bc8cff",
}

WIDTH: Final = 760
_TOP: Final = 62
_ROW: Final = 26
_KEY: Final = 24
_BESIDE: Final = 9
_LEFT: Final = 260
_RIGHT: Final = 84
_LINE_LEFT: Final = 64
_LINE_RIGHT: Final = 200
_HEIGHT: Final = 240


class Spread(NamedTuple):
    """A median with the smallest and the largest value."""

    median: float
    low: float
    high: float


class Row(NamedTuple):
    """A name with one or more values by colour."""

    name: str
    values: Mapping[str, Spread]


class Line(NamedTuple):
    """A line through points, labelled at its right end."""

    name: str
    colour: str
    points: Sequence[tuple[float, float]]


class Axis:
    """A mapping from values to coordinates: linear from zero, or logarithmic from just below the
    data.
    """

    def __init__(
        self,
        values: Sequence[float],
        start: float,
        end: float,
        *,
        log: bool = False,
        ticks: Sequence[float] = (),
    ) -> None:
        self._log = log
        self._start, self._end = start, end
        self.ticks: Sequence[float]
        if ticks:
            self.low = 0.0
            self.ticks = ticks
        elif log:
            self.low = _round_down(min(values))
            self.ticks = _ticks(self.low, max(values))
        else:
            self.low = 0.0
            step = _round_up(max(values) / 5)
            self.ticks = [step * number for number in range(math.ceil(max(values) / step) + 1)]
        self.high = self.ticks[-1]

    def place(self, value: float) -> float:
        """Return the coordinate of a value."""
        if self._log:
            part = math.log(max(value, self.low) / self.low) / math.log(self.high / self.low)
        else:
            part = value / self.high
        return self._start + (self._end - self._start) * part


def rows(
    title: str,
    unit: str,
    values: Sequence[Row],
    *,
    log: bool = False,
    key: Mapping[str, str] | None = None,
) -> str:
    """Return a chart with one row per name.

    Linear charts have bars from zero if a row has one value. All others have dots. A thin line
    spans from the smallest to the largest value.

    Args:
        title: The message of the chart.
        unit: The unit of the values.
        values: From top to bottom.
        log: Whether the axis is logarithmic.
        key: The meaning of each colour, unless the rows show it.

    """
    top = _TOP + (_KEY if key else 0)
    height = max(_ROW, _BESIDE * max(len(row.values) for row in values) + 8)
    bottom = top + height * len(values)
    every = [spread for row in values for spread in row.values.values()]
    extent = [edge for spread in every for edge in (spread.low, spread.high)]
    axis = Axis(extent, _LEFT, WIDTH - _RIGHT, log=log)
    is_bar = not log and all(len(row.values) == 1 for row in values)
    parts = [*_key(key or {}, top - 12), *_along(axis, top - 6, bottom)]
    for number, row in enumerate(values):
        middle = top + height * (number + 0.5) - 2
        parts.append(text(_LEFT - 10, middle + 4, row.name, anchor="end"))
        for beside, (colour, spread) in enumerate(row.values.items()):
            y = middle + _BESIDE * (beside - (len(row.values) - 1) / 2)
            place = axis.place(spread.median)
            if is_bar:
                width = max(1.0, place - _LEFT)
                parts.append(
                    element("rect", colour, x=_LEFT, y=y - 8, width=width, height=16, rx=2)
                )
            else:
                parts.append(element("circle", colour, cx=place, cy=y, r=4.5))
            parts.append(_range(axis, spread, y, "ink" if is_bar else colour))
        if len(row.values) == 1:
            (spread,) = row.values.values()
            parts.append(text(axis.place(spread.high) + 8, middle + 4, number_of(spread.median)))
    note = f"{unit}; logarithmic axis" if log else unit
    return document(bottom + 34, title, note, parts)


def courses(
    title: str,
    across: str,
    upwards: str,
    values: Sequence[Line],
    *,
    ticks: Sequence[float],
    shaded: tuple[float, float, str],
    below: Sequence[tuple[str, Sequence[tuple[float, str]]]] = (),
) -> str:
    """Return a chart of lines over time.

    Args:
        title: The message of the chart.
        across: The quantity on the horizontal axis.
        upwards: The quantity on the vertical axis.
        values: The lines.
        ticks: The numbers on the horizontal axis, which ends at the last one.
        shaded: A part of the horizontal axis, and its name.
        below: Rows of a table below the axis: a name, and words by the value at which they are
            centred.

    """
    right, bottom = WIDTH - _LINE_RIGHT, _TOP + _HEIGHT
    x_axis = Axis(ticks, _LINE_LEFT, right, ticks=ticks)
    y_axis = Axis([y for line in values for _, y in line.points], bottom, _TOP)
    begin, end, name = shaded
    x, width = x_axis.place(begin), x_axis.place(end) - x_axis.place(begin)
    parts = [
        element("rect", "shade", x=x, y=_TOP, width=width, height=_HEIGHT),
        text(x + width / 2, _TOP + _HEIGHT / 2, name, anchor="middle"),
        *_along(x_axis, _TOP, bottom),
    ]
    for tick in y_axis.ticks:
        y = y_axis.place(tick)
        parts += [
            element("path", "grid", d=f"M{_LINE_LEFT} {y:.1f}H{right}"),
            text(_LINE_LEFT - 8, y + 4, number_of(tick), anchor="end"),
        ]
    for line in values:
        course = [(x_axis.place(x), y_axis.place(y)) for x, y in line.points]
        path = "L".join(f"{x:.1f} {y:.1f}" for x, y in course)
        parts.append(element("path", line.colour, "line", d=f"M{path}"))
        parts.append(text(course[-1][0] + 10, course[-1][1] + 4, line.name, colour=line.colour))
    parts.append(text((_LINE_LEFT + right) / 2, bottom + 38, across, anchor="middle"))
    for row, (name, words) in enumerate(below):
        y = bottom + 66 + 20 * row
        parts.append(text(right + 10, y, name))
        parts += [text(x_axis.place(x), y, shown, anchor="middle") for x, shown in words]
    return document(bottom + 56 + 20 * len(below), title, upwards, parts)


def document(
    height: float,
    title: str,
    note: str,
    parts: Sequence[str],
    *,
    colours: Mapping[str, tuple[str, str]] | None = None,
) -> str:
    """Return a picture with a title and a line below it.

    Args:
        height: In pixels.
        title: The message of the picture.
        note: The line below the title.
        parts: The elements.
        colours: Additional colours by name, each for light and for dark pages.

    """
    also = colours or {}
    light = "".join(
        f".{name}{{color:{colour}}}"
        for name, colour in (_LIGHT | {each: pair[0] for each, pair in also.items()}).items()
    )
    dark = "".join(
        f".{name}{{color:{colour}}}"
        for name, colour in (_DARK | {each: pair[1] for each, pair in also.items()}).items()
    )
    style = (
        "text{font:13px system-ui,-apple-system,'Segoe UI',sans-serif;fill:currentColor}"
        "rect,circle{fill:currentColor}path{stroke:currentColor;fill:none}"
        ".line{stroke-width:2}.title{font-weight:600;font-size:15px}"
        f"{light}@media(prefers-color-scheme:dark){{{dark}}}"
    )
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height:.0f}"'
        f' viewBox="0 0 {WIDTH} {height:.0f}" role="img">'
    )
    frame = [
        f"<title>{escape(title)}</title>",
        f"<style>{style}</style>",
        '<rect class="paper" width="100%" height="100%" rx="6"/>',
        f'<text class="ink title" x="14" y="25">{escape(title)}</text>',
        text(14, 44, note),
    ]
    return "\n".join([head, *frame, *parts, "</svg>"]) + "\n"


def element(name: str, *classes: str, **attributes: str | float) -> str:
    """Return an element in a colour."""
    words = [name, f'class="{" ".join(classes)}"']
    for key, value in attributes.items():
        shown = value if isinstance(value, str) else f"{value:.1f}".removesuffix(".0")
        words.append(f'{key.replace("_", "-")}="{escape(shown)}"')
    return f"<{' '.join(words)}/>"


def text(x: float, y: float, words: str, anchor: str = "start", colour: str = "ink") -> str:
    """Return a line of text."""
    place = f'class="{colour}" x="{x:.1f}" y="{y:.1f}"'
    turned = "" if anchor == "start" else f' text-anchor="{anchor}"'
    return f"<text {place}{turned}>{escape(words)}</text>"


def number_of(value: float) -> str:
    """Return a number for people, with at least three digits if it has them."""
    if value >= 100 or value == int(value):
        return f"{value:,.0f}"
    return f"{value:.3g}"


def _key(key: Mapping[str, str], y: float) -> list[str]:
    parts: list[str] = []
    x = 16.0
    for colour, name in key.items():
        parts += [element("circle", colour, cx=x + 5, cy=y - 4, r=5), text(x + 16, y, name)]
        x += 34 + 6.8 * len(name)
    return parts


def _along(axis: Axis, top: float, bottom: float) -> list[str]:
    parts: list[str] = []
    for tick in axis.ticks:
        x = axis.place(tick)
        parts += [
            element("path", "grid", d=f"M{x:.1f} {top:.1f}V{bottom:.1f}"),
            text(x, bottom + 18, number_of(tick), anchor="middle"),
        ]
    return parts


def _range(axis: Axis, spread: Spread, y: float, colour: str) -> str:
    low, high = axis.place(spread.low), axis.place(spread.high)
    return element(
        "path", colour, d=f"M{low:.1f} {y - 4:.1f}v8M{low:.1f} {y:.1f}H{high:.1f}m0 -4v8"
    )


def _ticks(low: float, high: float) -> list[float]:
    """Return 1, 2 and 5 times powers of ten, or just powers of ten if these are many."""
    ticks = [low]
    while ticks[-1] < high:
        ticks.append(_round_up(ticks[-1] * 1.001))
    if len(ticks) > 8:
        ticks = [tick for tick in ticks if _is_power(tick) or tick in (low, ticks[-1])]
    return ticks


def _is_power(value: float) -> bool:
    power = math.log10(value)
    return abs(power - round(power)) < 1e-9


def _round_up(value: float) -> float:
    power = 10.0 ** math.floor(math.log10(value))
    return next(round(f * power, 9) for f in (1, 2, 5, 10) if f * power >= value * (1 - 1e-9))


def _round_down(value: float) -> float:
    power = 10.0 ** math.floor(math.log10(value))
    return next(round(f * power, 9) for f in (5, 2, 1) if f * power <= value * (1 + 1e-9))
