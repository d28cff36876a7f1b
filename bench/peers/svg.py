"""Two kinds of charts as SVG, small enough to be committed."""

import math
from collections.abc import Sequence
from html import escape
from typing import Final, NamedTuple

OURS: Final = ("#0b5cad", "#3b8fd9", "#7ab8ee")
OTHERS: Final = (
    "#d1495b",
    "#e8871e",
    "#7b4b94",
    "#a26fbd",
    "#8c6d46",
    "#2e8b57",
    "#555555",
    "#888888",
    "#b0b0b0",
)
"""A colour for each server; greys for the yardsticks."""

_WIDTH: Final = 760
_ROW: Final = 26
_TOP: Final = 56
_LEFT: Final = 250
_RIGHT: Final = 90
_PLOT_HEIGHT: Final = 340
_LINE_LEFT: Final = 60
_LINE_RIGHT: Final = 270
_TEXT: Final = 'font-family="sans-serif" font-size="13" fill="#222"'
_GRID: Final = "#ddd"
_MAX_SOLID: Final = 8


class Bar(NamedTuple):
    """A value of one server."""

    name: str
    colour: str
    value: float


class Line(NamedTuple):
    """The course of one server, from left to right."""

    name: str
    colour: str
    points: Sequence[tuple[float, float]]


class _Scale:
    """From values to places, by their logarithm or evenly from zero."""

    def __init__(self, values: Sequence[float], start: float, end: float, *, log: bool) -> None:
        self._log = log
        if log:
            self.low = 10.0 ** math.floor(math.log10(min(values)))
            self.high = 10.0 ** math.ceil(math.log10(max(values)) + 1e-9)
            self.ticks = [
                10.0**power
                for power in range(round(math.log10(self.low)), round(math.log10(self.high)) + 1)
            ]
        else:
            self.low = 0.0
            step = _round_step(max(values) / 5)
            self.ticks = [step * number for number in range(math.ceil(max(values) / step) + 1)]
            self.high = self.ticks[-1]
        self._start, self._end = start, end

    def place(self, value: float) -> float:
        """Return where a value is."""
        if self._log:
            part = math.log(value / self.low) / math.log(self.high / self.low)
        else:
            part = value / self.high
        return self._start + (self._end - self._start) * part


def bars(title: str, unit: str, values: Sequence[Bar], *, log: bool = False) -> str:
    """Return a chart of one bar a server."""
    height = _TOP + _ROW * len(values) + 34
    scale = _Scale([bar.value for bar in values], _LEFT, _WIDTH - _RIGHT, log=log)
    bottom = height - 34
    parts = _axis_along(scale, _TOP - 8, bottom)
    for number, bar in enumerate(values):
        y = _TOP + _ROW * number
        length = max(1.0, scale.place(bar.value) - _LEFT)
        parts += [
            _text(_LEFT - 8, y + 13, bar.name, anchor="end"),
            _element("rect", x=_LEFT, y=y, width=length, height=_ROW - 8, fill=bar.colour),
            _text(_LEFT + length + 6, y + 13, _number(bar.value)),
        ]
    note = f"{unit}, logarithmic" if log else unit
    return _document(height, title, note, parts)


def lines(title: str, across: str, upwards: str, values: Sequence[Line]) -> str:
    """Return a chart of one line a server, both axes logarithmic."""
    height = _TOP + _PLOT_HEIGHT + 50
    right, bottom = _WIDTH - _LINE_RIGHT, _TOP + _PLOT_HEIGHT
    points = [point for line in values for point in line.points]
    x_scale = _Scale([x for x, _ in points], _LINE_LEFT, right, log=True)
    y_scale = _Scale([y for _, y in points], bottom, _TOP, log=True)
    parts = _axis_along(x_scale, _TOP, bottom)
    for tick in y_scale.ticks:
        y = y_scale.place(tick)
        parts += [
            _element("line", x1=_LINE_LEFT, y1=y, x2=right, y2=y, stroke=_GRID),
            _text(_LINE_LEFT - 6, y + 4, _number(tick), anchor="end"),
        ]
    for number, line in enumerate(values):
        style: dict[str, str | float] = {"stroke": line.colour, "stroke_width": 2, "fill": "none"}
        if number >= _MAX_SOLID:
            style["stroke_dasharray"] = "5 3"
        course = [(x_scale.place(x), y_scale.place(y)) for x, y in line.points]
        key_y = _TOP + 10 + 20 * number
        key = _element("line", x1=right + 16, y1=key_y, x2=right + 40, y2=key_y, **style)
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in course)
        parts += [key, _text(right + 46, key_y + 4, line.name)]
        parts.append(_element("polyline", points=path, **style))
        parts += [_element("circle", cx=x, cy=y, r=3, fill=line.colour) for x, y in course]
    parts.append(_text((_LINE_LEFT + right) / 2, height - 10, across, anchor="middle"))
    return _document(height, title, upwards, parts)


def _axis_along(scale: _Scale, top: float, bottom: float) -> list[str]:
    parts = []
    for tick in scale.ticks:
        x = scale.place(tick)
        parts += [
            _element("line", x1=x, y1=top, x2=x, y2=bottom, stroke=_GRID),
            _text(x, bottom + 18, _number(tick), anchor="middle"),
        ]
    return parts


def _document(height: float, title: str, note: str, parts: Sequence[str]) -> str:
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH}" height="{height}"'
        f' viewBox="0 0 {_WIDTH} {height}" role="img" aria-label="{escape(title)}">'
    )
    frame = [
        '<rect width="100%" height="100%" fill="#fff"/>',
        f'<text x="12" y="22" {_TEXT} font-weight="bold">{escape(title)}</text>',
        f'<text x="12" y="40" {_TEXT}>{escape(note)}</text>',
    ]
    return "\n".join([head, *frame, *parts, "</svg>"]) + "\n"


def _element(name: str, **attributes: str | float) -> str:
    words = [name]
    for key, value in attributes.items():
        shown = value if isinstance(value, str) else f"{value:.1f}"
        words.append(f'{key.replace("_", "-")}="{escape(shown)}"')
    return f"<{' '.join(words)}/>"


def _text(x: float, y: float, text: str, anchor: str = "start") -> str:
    place = f'x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"'
    return f"<text {place} {_TEXT}>{escape(text)}</text>"


def _number(value: float) -> str:
    if value >= 100 or value == int(value):
        return f"{value:,.0f}"
    return f"{value:.3g}"


def _round_step(step: float) -> float:
    """Return the next larger of 1, 2 and 5 times a power of ten."""
    power = 10.0 ** math.floor(math.log10(step))
    return next(factor * power for factor in (1, 2, 5, 10) if factor * power >= step)
