"""Plots of a sweep as SVG: throughput against batch size, and the memory peak by structure.

Colours and text work on white and on dark pages; files load nothing.
"""

from collections.abc import Sequence
from html import escape
from math import log2
from typing import Final

from paceline.analyse.structure import NAMES
from paceline.bench.lessons import saturation
from paceline.bench.point import Point
from paceline.report.text.quantities import size

WIDTH, HEIGHT = 480, 260
LEFT, RIGHT, TOP, BOTTOM = 64, 130, 24, 40
COLOURS: Final = ("#3b7dd8", "#d9822b", "#2e9e6b", "#c2453c", "#8e6bbf", "#a08040", "#7f8c8d")
_GREY: Final = "#888"

Curve = Sequence[Point]


def throughput(given: Sequence[Curve]) -> str:
    """A line for each number of workers; a ring marks where it saturates."""
    batches = [point.key.batch for curve in given for point in curve]
    top = max(point.throughput for curve in given for point in curve)
    low, high = log2(min(batches)), log2(max(batches))

    def x(batch: int) -> float:
        part = (log2(batch) - low) / (high - low) if high > low else 0.5
        return LEFT + part * (WIDTH - LEFT - RIGHT)

    parts = [_axis("samples/s", top, f"{top:,.0f}"), _caption("batch of a worker")]
    parts += [_tick(x(batch), str(batch)) for batch in sorted(set(batches))]
    for colour, curve in zip(COLOURS, given):
        spots = [(x(point.key.batch), _y(point.throughput / top)) for point in curve]
        line = " ".join(f"{across:.1f},{down:.1f}" for across, down in spots)
        parts.append(f'<polyline points="{line}" fill="none" stroke="{colour}" stroke-width="2"/>')
        parts += [_dot(spot, colour) for spot in spots]
        ring = spots[list(curve).index(saturation(curve))]
        parts.append(f'<circle cx="{ring[0]:.1f}" cy="{ring[1]:.1f}" r="7" fill="none" '
                     f'stroke="{colour}"/>')  # fmt: skip
    names = [f"{curve[0].key.workers} worker{'s' * (curve[0].key.workers > 1)}" for curve in given]
    return _picture([*parts, *_legend(names, COLOURS)])


def memory(curve: Curve) -> str:
    """A stack for each batch size."""
    top = max(point.structure.peak_bytes for point in curve if point.structure)
    parts = [_axis("memory peak", top, size(top)), _caption("batch of a worker")]
    room = (WIDTH - LEFT - RIGHT) / len(curve)
    named = dict(zip(NAMES.values(), COLOURS))
    for place, point in enumerate(curve):
        left, below = LEFT + room * (place + 0.2), 0.0
        for name, colour in named.items():
            share = point.structure.parts.get(name, 0) / top if point.structure else 0.0
            parts.append(_bar(left, 0.6 * room, below, share, colour))
            below += share
        parts.append(_tick(LEFT + room * (place + 0.5), str(point.key.batch)))
    return _picture([*parts, *_legend(list(named), COLOURS)])


def _y(share: float) -> float:
    return TOP + (1 - share) * (HEIGHT - TOP - BOTTOM)


def _bar(left: float, wide: float, below: float, share: float, colour: str) -> str:
    top, high = _y(below + share), _y(below) - _y(below + share)
    return (
        f'<rect x="{left:.1f}" y="{top:.1f}" width="{wide:.1f}" height="{high:.1f}" '
        f'fill="{colour}"/>'
    )


def _dot(spot: tuple[float, float], colour: str) -> str:
    return f'<circle cx="{spot[0]:.1f}" cy="{spot[1]:.1f}" r="3" fill="{colour}"/>'


def _axis(name: str, top: float, most: str) -> str:
    """Zero below and the most above; the name over it."""
    base, end = _y(0), WIDTH - RIGHT
    return (
        f'<path d="M{LEFT} {TOP}V{base:.1f}H{end}" fill="none" stroke="{_GREY}"/>'
        + _text(LEFT, 14, name, "start")
        + (_text(LEFT - 6, TOP + 4, most, "end") if top else "")
        + _text(LEFT - 6, base, "0", "end")
    )


def _tick(across: float, name: str) -> str:
    return _text(across, HEIGHT - BOTTOM + 16, name, "middle")


def _caption(name: str) -> str:
    return _text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 6, name, "middle")


def _legend(names: Sequence[str], colours: Sequence[str]) -> list[str]:
    left = WIDTH - RIGHT + 14
    rows = enumerate(zip(names, colours))
    return [
        f'<rect x="{left}" y="{TOP + 16 * row}" width="10" height="10" fill="{colour}"/>'
        + _text(left + 15, TOP + 16 * row + 9, name, "start")
        for row, (name, colour) in rows
    ]


def _text(across: float, down: float, text: str, anchor: str) -> str:
    return (
        f'<text x="{across:.1f}" y="{down:.1f}" text-anchor="{anchor}" fill="{_GREY}">'
        f"{escape(text)}</text>"
    )


def _picture(parts: Sequence[str]) -> str:
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" '
        f'width="{WIDTH}" height="{HEIGHT}" font-family="sans-serif" font-size="11">'
        + "".join(parts)
        + "</svg>\n"
    )
