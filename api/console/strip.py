"""Failures over time as a strip: a cell for each part of the time, darker for more failures. Pure."""

from collections.abc import Sequence

from markupsafe import Markup
from msgspec import Struct

from batchq.system.escapes import escape

LEVELS = 4  # of colour
WIDTH, GAP = 10, 1.5  # of a cell in the picture, and between two cells

_CELL = Markup('<g><title>{}</title><rect class="shape-{}" x="{}" width="{}" height="10"/></g>')


class StripCell(Struct, frozen=True, kw_only=True):
    """A part of the time."""

    #: Failures; None: not known, as no server ran.
    count: int | None
    #: Whether anything ended.
    is_busy: bool
    #: The hover text.
    text: str


def strip(cells: Sequence[StripCell], *, label: str, x_texts: Sequence[str]) -> Markup:
    """The picture with its legend."""
    most = max((cell.count or 0 for cell in cells), default=0)
    drawn = Markup("").join(
        _CELL.format(escape(cell.text), _colour(cell, most), at * WIDTH, WIDTH - GAP) for at, cell in enumerate(cells)
    )
    svg = Markup('<svg viewBox="0 0 {} 10" preserveAspectRatio="none" role="img" aria-label="{}">{}</svg>')
    ends = Markup("").join(Markup("<span>{}</span>").format(text) for text in x_texts)
    legend = Markup("").join(
        Markup('<li><span class="shape-{}"></span> {}</li>').format(colour, text)
        for colour, text in (
            ("FAIL-4", f"failed by themselves, at most {most:,} in half an hour"),
            ("FINE", "no failure"),
            ("IDLE", "no job ended"),
        )
    )
    figure = Markup('<figure class="plot strip"><ul class="legend">{}</ul>{}<div class="ends">{}</div></figure>')
    return figure.format(legend, svg.format(len(cells) * WIDTH - GAP, escape(label), drawn), ends)


def _colour(cell: StripCell, most: int) -> str:
    if cell.count is None:
        return "DOWN"
    if not cell.count:
        return "FINE" if cell.is_busy else "IDLE"
    return f"FAIL-{-(-LEVELS * cell.count // most)}"
