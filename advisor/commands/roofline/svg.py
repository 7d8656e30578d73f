"""A roofline as a drawing: roofs as lines, operators as marks, logarithmic axes, light and dark."""

import html
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from advisor.catalog.units import TERA
from advisor.render.numbers import RATE, digits, show

_WIDTH: Final = 960
_HEIGHT: Final = 560
_LEFT = 78
_RIGHT = 24
_TOP = 96
_BOTTOM = 64
_LEGEND_TOP = 44
_LINE = 18
_MEASURED_INSET: Final = 110
"""Labels of measured roofs stand left of the datasheet's, whose lines run close by."""
_MARGIN: Final = 1.6
"""Factor that is kept free beyond the outermost mark."""
_LEAST_RADIUS: Final = 9.0
_MOST_RADIUS: Final = 20.0
_LETTER: Final = 19.0
"""Distance of two letters from which on their discs are apart."""
_TURNS: Final = 12
_MOST_RINGS: Final = 6
_STYLE: Final = (
    ".roofline{--paper:#fff;--ink:#1b1f24;--soft:#57606a;--grid:#d8dee4;--decode:#0969da;--prefill:#bc4c00;"
    "--measured:#1a7f37;font:13px system-ui,sans-serif;max-width:100%;height:auto}"
    "@media (prefers-color-scheme:dark){.roofline{--paper:#0d1117;--ink:#e6edf3;--soft:#9198a1;--grid:#30363d;"
    "--decode:#58a6ff;--prefill:#f0883e;--measured:#3fb950}}"
    ".roofline .paper{fill:var(--paper)}.roofline text{fill:var(--ink)}.roofline .soft{fill:var(--soft)}"
    ".roofline .grid{stroke:var(--grid);stroke-width:1}.roofline .roof{fill:none;stroke:var(--ink);stroke-width:2}"
    ".roofline .measured{stroke:var(--measured);stroke-dasharray:7 4}.roofline .name{font-weight:600}"
    ".roofline text.measured{fill:var(--measured);stroke:none}"
    ".roofline .decode{fill:var(--decode)}.roofline .prefill{fill:var(--prefill)}"
    ".roofline .mark{fill:var(--paper);text-anchor:middle;font-weight:600}.roofline .end{text-anchor:end}"
    ".roofline .middle{text-anchor:middle}.roofline .lead{stroke:var(--soft);stroke-width:1}"
    ".roofline .aside{stroke:var(--paper);stroke-width:1}"
)


@dataclass(frozen=True, slots=True)
class RoofLine:
    """A bandwidth and one peak: a slope that turns flat."""

    label: str
    """Short: it stands at the line's end."""
    bandwidth_bytes_per_s: float
    peak_flop_per_s: float
    is_measured: bool = False


@dataclass(frozen=True, slots=True)
class Mark:
    """An operator: where it stands, what it is called, and its share of the pass, which is the mark's area."""

    letter: str
    label: str
    phase: str
    intensity_flop_per_byte: float
    flop_per_s: float
    share_fraction: float


@dataclass(frozen=True, slots=True)
class _LogScale:
    """Logarithmic axes in the drawing's units."""

    low_x: float
    high_x: float
    low_y: float
    high_y: float

    def x(self, value: float) -> float:
        part = math.log(value / self.low_x) / math.log(self.high_x / self.low_x)
        return round(_LEFT + part * (_WIDTH - _LEFT - _RIGHT), 1)

    def y(self, value: float) -> float:
        part = math.log(value / self.low_y) / math.log(self.high_y / self.low_y)
        return round(_HEIGHT - _BOTTOM - part * (_HEIGHT - _TOP - _BOTTOM), 1)


def roofline_svg(title: str, roofs: Sequence[RoofLine], marks: Sequence[Mark]) -> str:
    """Return the drawing as one element without outside resources.

    Raises: ValueError: there is no roof or no mark, or a coordinate is not positive and finite.
    """
    values = [v for m in marks for v in (m.intensity_flop_per_byte, m.flop_per_s)]
    if not roofs or not marks or not all(0 < value < math.inf for value in values):
        raise ValueError("a roofline needs a roof and marks at positive, finite places")
    scale = _scale(roofs, marks)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" class="roofline" viewBox="0 0 {_WIDTH} {_HEIGHT}" '
        f'width="{_WIDTH}" height="{_HEIGHT}" role="img" aria-label="{html.escape(title)}">',
        f"<style>{_STYLE}</style>",
        f'<rect class="paper" width="{_WIDTH}" height="{_HEIGHT}"/>',
        _text(_LEFT, 22, title, "name"),
        *_grid(scale),
        *_roofs(scale, roofs),
        *_marks(scale, marks),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def _scale(roofs: Sequence[RoofLine], marks: Sequence[Mark]) -> _LogScale:
    """Return a scale with room for every mark and every ridge."""
    ridges = [roof.peak_flop_per_s / roof.bandwidth_bytes_per_s for roof in roofs]
    xs = [*(mark.intensity_flop_per_byte for mark in marks), *ridges]
    ys = [*(mark.flop_per_s for mark in marks), *(roof.peak_flop_per_s for roof in roofs)]
    return _LogScale(min(xs) / _MARGIN, max(xs) * _MARGIN, min(ys) / _MARGIN, max(ys) * _MARGIN)


def _grid(scale: _LogScale) -> Iterator[str]:
    top = _TOP
    bottom = _HEIGHT - _BOTTOM
    right = _WIDTH - _RIGHT
    for value in _decades(scale.low_x, scale.high_x):
        x = scale.x(value)
        yield f'<line class="grid" x1="{x}" y1="{top}" x2="{x}" y2="{bottom}"/>'
        yield _text(x, bottom + 18, digits(value, 1), "soft middle")
    for value in _decades(scale.low_y, scale.high_y):
        y = scale.y(value)
        yield f'<line class="grid" x1="{_LEFT}" y1="{y}" x2="{right}" y2="{y}"/>'
        yield _text(_LEFT - 8, y + 4, digits(value / TERA, 1), "soft end")
    yield _text((_LEFT + right) / 2, bottom + 42, "arithmetic intensity [flop per byte]", "soft middle")
    yield _text(8, _TOP - 10, "TFLOP/s", "soft")


def _decades(low: float, high: float) -> Iterator[float]:
    for exponent in range(math.ceil(math.log10(low)), math.floor(math.log10(high)) + 1):
        yield 10.0**exponent


def _roofs(scale: _LogScale, roofs: Sequence[RoofLine]) -> Iterator[str]:
    for roof in roofs:
        ridge = roof.peak_flop_per_s / roof.bandwidth_bytes_per_s
        start = max(scale.low_x, scale.low_y / roof.bandwidth_bytes_per_s)
        corners = [
            (start, start * roof.bandwidth_bytes_per_s),
            (ridge, roof.peak_flop_per_s),
            (scale.high_x, roof.peak_flop_per_s),
        ]
        points = " ".join(f"{scale.x(x)},{scale.y(y)}" for x, y in corners)
        kind = "roof measured" if roof.is_measured else "roof"
        yield f'<polyline class="{kind}" points="{points}"><title>{html.escape(_roof_words(roof))}</title></polyline>'
        below = 15 if roof.is_measured else -6
        words = "measured end" if roof.is_measured else "soft end"
        x = _WIDTH - _RIGHT - (_MEASURED_INSET if roof.is_measured else 4)
        yield _text(x, scale.y(roof.peak_flop_per_s) + below, roof.label, words)


def _roof_words(roof: RoofLine) -> str:
    kind = "measured" if roof.is_measured else "datasheet"
    bandwidth = show(roof.bandwidth_bytes_per_s, RATE)
    peak = digits(roof.peak_flop_per_s / TERA)
    return f"{kind}: {bandwidth}, {peak} TFLOP/s"


def _marks(scale: _LogScale, marks: Sequence[Mark]) -> Iterator[str]:
    """Yield large marks first, so that small ones stay visible; their letters, aside where another letter is; then what
    the letters mean."""
    ordered = sorted(marks, key=lambda mark: -mark.share_fraction)
    letters: list[str] = []
    taken: list[tuple[float, float]] = []
    for mark in ordered:
        x = scale.x(mark.intensity_flop_per_byte)
        y = scale.y(mark.flop_per_s)
        radius = round(max(_LEAST_RADIUS, _MOST_RADIUS * math.sqrt(mark.share_fraction)), 1)
        words = html.escape(
            f"{mark.phase}: {mark.label}, {digits(100 * mark.share_fraction, 2)} % of its pass"
        )
        yield f'<circle class="{mark.phase}" cx="{x}" cy="{y}" r="{radius}"><title>{words}</title></circle>'
        left, top = _free_place(x, y, radius, taken)
        taken.append((left, top))
        is_aside = (left, top) != (x, y)
        if is_aside:
            letters.append(f'<line class="lead" x1="{x}" y1="{y}" x2="{left}" y2="{top}"/>')
            letters.append(f'<circle class="aside {mark.phase}" cx="{left}" cy="{top}" r="{_LEAST_RADIUS}"/>')
        letters.append(_text(left, round(top + 4.5, 1), mark.letter, "mark"))
    yield from letters
    for row, phase in enumerate(dict.fromkeys(mark.phase for mark in marks)):
        names = ", ".join(f"{mark.letter} {mark.label}" for mark in marks if mark.phase == phase)
        yield _text(_LEFT, _LEGEND_TOP + row * _LINE, f"{phase}: {names}", phase)


def _free_place(
    x: float, y: float, radius: float, taken: Sequence[tuple[float, float]]
) -> tuple[float, float]:
    """Return the middle of a letter: that of its mark, or the nearest place around it that is apart from others."""
    for ring in range(_MOST_RINGS):
        reach = 0.0 if ring == 0 else radius + _LETTER * ring
        for turn in range(_TURNS if ring else 1):
            angle = 2.0 * math.pi * turn / _TURNS
            left = round(x + reach * math.cos(angle), 1)
            top = round(y - reach * math.sin(angle), 1)
            is_inside = _LEFT < left < _WIDTH - _RIGHT and _TOP < top < _HEIGHT - _BOTTOM
            if is_inside and all(math.hypot(left - one, top - other) >= _LETTER for one, other in taken):
                return left, top
    return x, y


def _text(x: float, y: float, text: str, kind: str) -> str:
    return f'<text class="{kind}" x="{x}" y="{y}">{html.escape(text)}</text>'
