"""One function for all plots: areas, lines, bars and dots over one axis, as SVG without script. Pure.

The picture fills the width of its place, on a phone too, and so has no text in it: names, values and the ends of the
axes are HTML beside it. The hover text of a column is a `title`. All markup is made of numbers and escaped text.
"""

from collections.abc import Iterable, Iterator, Sequence
from enum import StrEnum

from markupsafe import Markup
from msgspec import Struct

from batchq.system.escapes import escape

WIDTH, HEIGHT = 1000, 100

#: x and y of a value, which holds from x until x + 1; None: the value is not known.
Point = tuple[float, float | None]


class PlotMark(StrEnum):
    """How values are drawn."""

    #: Areas of several series are stacked.
    AREA = "area"
    LINE = "line"
    #: Bars of several series are stacked.
    BARS = "bars"
    #: A dot at x itself.
    DOTS = "dots"


class Series(Struct, frozen=True, kw_only=True):
    """Values of one kind."""

    #: The name and the most important figures, for the legend; empty: not in the legend.
    name: str
    #: The class `shape-COLOUR` colours it.
    colour: str
    mark: PlotMark
    points: Sequence[Point]
    #: The hover text of each dot.
    titles: Sequence[str] = ()
    #: The page to which each dot leads; empty: dots are not links. The Tab key skips them.
    paths: Sequence[str] = ()


class PlotColumn(Struct, frozen=True, kw_only=True):
    """A part of the x axis with a text."""

    first: float
    end: float
    text: str


class Plot(Struct, frozen=True, kw_only=True):
    """A picture of series of points on two axes."""

    label: str
    series: Sequence[Series]
    #: The ends of both axes.
    x: tuple[float, float]
    y: tuple[float, float]
    #: The highest and the lowest value of the y axis.
    y_texts: tuple[str, str]
    #: Texts below the x axis, at equal distances from its beginning to its end.
    x_texts: Sequence[str]
    #: Parts with a hover text.
    columns: Sequence[PlotColumn] = ()
    #: Parts in which no value is known, with the reason.
    gaps: Sequence[PlotColumn] = ()


class _Scale(Struct, frozen=True):
    """From values to positions in the picture."""

    left: float
    right: float
    low: float
    high: float

    def x(self, value: float) -> float:
        return WIDTH * (value - self.left) / ((self.right - self.left) or 1)

    def y(self, value: float) -> float:
        return HEIGHT - HEIGHT * (value - self.low) / ((self.high - self.low) or 1)


def plot(picture: Plot) -> Markup:
    """The picture with its legend and its axes."""
    scale = _Scale(*picture.x, *picture.y)
    gaps = (_column(gap, scale, "gap") for gap in picture.gaps)
    columns = (_column(column, scale, "column") for column in picture.columns)
    drawn = Markup("").join((*gaps, *_marks(picture.series, scale), *columns))
    role = "group" if any(each.paths for each in picture.series) else "img"
    svg = Markup('<svg viewBox="0 0 {} {}" preserveAspectRatio="none" role="{}" aria-label="{}">{}</svg>').format(
        WIDTH, HEIGHT, role, escape(picture.label), drawn
    )
    high, low = picture.y_texts
    sides = Markup('<div class="sides"><span>{}</span><span>{}</span></div>').format(escape(high), escape(low))
    ends = Markup('<div class="ends">{}</div>').format(
        Markup("").join(Markup("<span>{}</span>").format(escape(text)) for text in picture.x_texts)
    )
    return Markup('<figure class="plot">{}{}{}{}</figure>').format(_legend(picture.series), sides, svg, ends)


def _legend(series: Iterable[Series]) -> Markup:
    entry = Markup('<li><span class="shape-{}"></span> {}</li>')
    entries = [entry.format(each.colour, escape(each.name)) for each in series if each.name]
    return Markup('<ul class="legend">{}</ul>').format(Markup("").join(entries)) if entries else Markup("")


def _marks(series: Sequence[Series], scale: _Scale) -> Iterator[Markup]:
    """The marks, those of a stack from the bottom."""
    stacked: dict[float, float] = {}
    path = Markup('<path class="{} shape-{}" d="{}"/>')
    for each in series:
        if each.mark is PlotMark.DOTS:
            yield from _dots(each, scale)
        elif each.mark is PlotMark.LINE:
            text = "".join(f"M{_steps(run, scale)}" for run in _runs(each.points))
            yield path.format(each.mark, each.colour, text)
        else:
            bases = dict(stacked)
            stacked |= {x: bases.get(x, 0.0) + y for x, y in each.points if y is not None}
            tops = [(x, None if y is None else stacked[x]) for x, y in each.points]
            if each.mark is PlotMark.BARS:
                text = "".join(_bar(x, y, bases.get(x, 0.0), scale) for x, y in tops if y is not None)
            else:
                text = "".join(_area(run, bases, scale) for run in _runs(tops))
            yield path.format(each.mark, each.colour, text)


def _runs(points: Iterable[Point]) -> Iterator[list[tuple[float, float]]]:
    """The parts of the points in which each begins where the one before ends."""
    run: list[tuple[float, float]] = []
    for x, y in points:
        if run and (y is None or x != run[-1][0] + 1):
            yield run
            run = []
        if y is not None:
            run.append((x, y))
    if run:
        yield run


def _area(run: Sequence[tuple[float, float]], bases: dict[float, float], scale: _Scale) -> str:
    """The steps of the tops, and those of the bases back."""
    back = [(x, bases.get(x, 0.0)) for x, _ in run]
    return f"M{_steps(run, scale)}L{_steps(back, scale, back=True)}Z"


def _steps(run: Sequence[tuple[float, float]], scale: _Scale, *, back: bool = False) -> str:
    """A level for each value. Equal neighbours are one level."""
    levels: list[tuple[float, float, float]] = []
    for x, y in run:
        if levels and levels[-1][2] == y:
            levels[-1] = levels[-1][0], x + 1, y
        else:
            levels.append((x, x + 1, y))
    if back:
        levels = [(end, first, y) for first, end, y in reversed(levels)]
    first, *_ = levels
    start = f"{_text(scale.x(first[0]))} {_text(scale.y(first[2]))}"
    return start + "".join(f"V{_text(scale.y(y))}H{_text(scale.x(end))}" for _, end, y in levels)


def _bar(x: float, top: float, base: float, scale: _Scale) -> str:
    """Of a bar of no height nothing is drawn, and between two bars is some space."""
    if top == base:
        return ""
    left, right = scale.x(x + 0.1), scale.x(x + 0.9)
    low, high = scale.y(base), scale.y(top)
    return f"M{_text(left)} {_text(low)}V{_text(high)}H{_text(right)}V{_text(low)}Z"


def _dots(series: Series, scale: _Scale) -> Iterator[Markup]:
    """Lines without length, whose round ends do not change their shape with the picture."""
    dot = Markup('<g><title>{}</title><path class="dots shape-{}" d="M{} {}h0"/></g>')
    link = Markup('<a href="{}" tabindex="-1">{}</a>')
    for at, ((x, y), title) in enumerate(zip(series.points, series.titles, strict=True)):
        if y is not None:
            drawn = dot.format(escape(title), series.colour, _text(scale.x(x)), _text(scale.y(y)))
            yield link.format(series.paths[at], drawn) if series.paths else drawn


def _column(column: PlotColumn, scale: _Scale, kind: str) -> Markup:
    left = scale.x(column.first)
    return Markup('<g class="{}"><title>{}</title><rect x="{}" width="{}" height="{}"/></g>').format(
        kind, escape(column.text), _text(left), _text(scale.x(column.end) - left), HEIGHT
    )


def _text(position: float) -> str:
    return f"{position:.1f}".removesuffix(".0")
