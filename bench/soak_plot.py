"""Draws what the soak measured over time: panels below each other, as SVG."""

import math
from collections.abc import Sequence
from html import escape
from typing import Final, NamedTuple

_WIDTH: Final = 760
_LEFT: Final = 70
_RIGHT: Final = 110
_HEIGHT: Final = 130
_GAP: Final = 46
_TOP: Final = 34
_COLOURS: Final = ("#0b5cad", "#e8871e", "#d1495b")
_OUTAGE: Final = "#f3dede"
_TEXT: Final = 'font-family="sans-serif" font-size="12" fill="#222"'


class Panel(NamedTuple):
    """One chart: its title, and its lines by name; `log` for values of many sizes."""

    title: str
    lines: dict[str, Sequence[float]]
    log: bool = False


def draw(
    minutes: Sequence[float],
    panels: Sequence[Panel],
    outages: Sequence[tuple[float, float]],
) -> str:
    """Return the panels over time in minutes; outages are shaded."""
    height = _TOP + len(panels) * (_HEIGHT + _GAP)
    end = minutes[-1]
    parts = [
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH}" height="{height}"'
            f' viewBox="0 0 {_WIDTH} {height}" role="img" aria-label="Soak">'
        ),
        '<rect width="100%" height="100%" fill="#fff"/>',
    ]
    for number, panel in enumerate(panels):
        top = _TOP + number * (_HEIGHT + _GAP)
        parts += _panel(panel, minutes, end, outages, top)
    return "\n".join([*parts, "</svg>"]) + "\n"


def _panel(
    panel: Panel,
    minutes: Sequence[float],
    end: float,
    outages: Sequence[tuple[float, float]],
    top: float,
) -> list[str]:
    values = [value for line in panel.lines.values() for value in line]
    low, high = _range(values, log=panel.log)
    right = _WIDTH - _RIGHT

    def across(minute: float) -> float:
        return _LEFT + (right - _LEFT) * minute / end

    def upwards(value: float) -> float:
        if panel.log:
            part = math.log(max(value, low) / low) / math.log(high / low)
        else:
            part = (value - low) / (high - low)
        return top + _HEIGHT * (1 - part)

    parts = [_text(_LEFT, top - 8, panel.title, weight="bold")]
    parts += [
        f'<rect x="{across(begin):.1f}" y="{top}" width="{across(until) - across(begin):.1f}"'
        f' height="{_HEIGHT}" fill="{_OUTAGE}"/>'
        for begin, until in outages
    ]
    for tick in (low, math.sqrt(low * high) if panel.log else (low + high) / 2, high):
        y = upwards(tick)
        parts += [
            f'<line x1="{_LEFT}" y1="{y:.1f}" x2="{right}" y2="{y:.1f}" stroke="#ddd"/>',
            _text(_LEFT - 6, y + 4, f"{tick:,.3g}" if tick < 1_000 else f"{tick:,.0f}", "end"),
        ]
    parts += [
        _text(across(minute), top + _HEIGHT + 16, f"{minute:g} min", "middle")
        for minute in _round_steps(end)
    ]
    for number, (name, line) in enumerate(panel.lines.items()):
        colour = _COLOURS[number]
        path = " ".join(
            f"{across(minute):.1f},{upwards(value):.1f}"
            for minute, value in zip(minutes, line, strict=True)
        )
        parts += [
            f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="1.5"/>',
            (
                f'<rect x="{right + 10}" y="{top + 4 + 18 * number}" width="10" height="10"'
                f' fill="{colour}"/>'
            ),
            _text(right + 26, top + 13 + 18 * number, name),
        ]
    return parts


def _range(values: Sequence[float], *, log: bool) -> tuple[float, float]:
    if log:
        low = 10.0 ** math.floor(math.log10(max(min(values), 1e-3)))
        return low, max(10.0 ** math.ceil(math.log10(max(values))), 10 * low)
    steps = _round_steps(max(values))
    return 0.0, steps[-1] + steps[1]


def _round_steps(most: float) -> list[float]:
    """Return about five round numbers from zero up to a value."""
    power = 10.0 ** math.floor(math.log10(max(most, 1e-3) / 5))
    step = next(factor * power for factor in (1, 2, 5, 10) if factor * power >= most / 5)
    return [round(number * step, 6) for number in range(math.floor(most / step) + 1)]


def _text(x: float, y: float, text: str, anchor: str = "start", weight: str = "normal") -> str:
    place = f'x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-weight="{weight}"'
    return f"<text {place} {_TEXT}>{escape(text)}</text>"
