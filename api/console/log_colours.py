"""Renders lines of a job's output as HTML: their text, and their colours as classes. Pure.

A line is cut, and the changes of colour of a line and of a page are bounded, because a job may write output that takes
long to render. Each line begins without a colour. A background and reversed colours become a mark, because not every
combination of two colours can be read. Other control sequences that carry no text, as movements of the cursor, are
removed; all other control characters are shown escaped.
"""

import re
from collections.abc import Iterator

from markupsafe import Markup, escape
from msgspec import Struct
from msgspec.structs import replace

from batchq.system.escapes import escape_lines, last_overwrite, split_colours

MAX_CHARACTERS = 16_384  # of a line that are rendered
MAX_CHANGES = 40  # changes of colour in a line; the rest of the line keeps the last one
MAX_PAGE_CHANGES = 10_000  # changes of colour on a page; the lines that follow have no colours
_CURSOR = re.compile(r"\x1b\[[<=>?]?[0-9;:]{0,32}[ -/]{0,2}[@-ln-~]")  # control sequences apart from colours
_CUT_SEQUENCE = re.compile(r"\x1b(?:\[[<=>?]?[0-9;:]{0,32})?\Z")  # a control sequence that was cut
_BRIGHT, _CUBE, _GREYS = 16, 232, 256  # the ends of the ranges of the palette of 256 colours
_DARK = 128  # of 256: a colour whose strongest part is weaker is black


class _Style(Struct, frozen=True, kw_only=True):
    #: From 0, black, to 7, white; None: the text's own.
    colour: int | None = None
    bold: bool = False
    dim: bool = False
    italic: bool = False
    underline: bool = False
    reversed: bool = False
    background: bool = False

    def classes(self) -> str:
        """The classes of the style sheet, each named by its parameter of the control sequence."""
        switches = {1: self.bold, 2: self.dim, 3: self.italic, 4: self.underline, 7: self.reversed or self.background}
        codes = [*(code for code, is_set in switches.items() if is_set)]
        if self.colour is not None:
            codes.append(30 + self.colour)
        return " ".join(f"sgr-{code}" for code in codes)


_PLAIN = _Style()
_SWITCHES: dict[int, dict[str, bool]] = {
    1: {"bold": True},
    2: {"dim": True},
    3: {"italic": True},
    4: {"underline": True},
    7: {"reversed": True},
    22: {"bold": False, "dim": False},
    23: {"italic": False},
    24: {"underline": False},
    27: {"reversed": False},
}


class ColourBudget:
    """The changes of colour that are left for the lines of one page."""

    def __init__(self) -> None:
        self._left = MAX_PAGE_CHANGES

    def coloured(self, text: str) -> Markup:
        """A line as HTML, cut after MAX_CHARACTERS."""
        text = cut(text)
        if text.isprintable():  # nearly always
            return escape(text)
        parts = split_colours(text)
        changes = min(len(parts) // 2, MAX_CHANGES, self._left)
        self._left -= changes
        parts[2 * changes :] = ["".join(parts[2 * changes :: 2])]
        style, html = _PLAIN, []
        for number, part in enumerate(parts):
            if number % 2:
                style = _changed(style, part[2:-1])
            elif part:
                html.append(_span(_shown(part), style.classes()))
        return Markup("").join(html)


def marked(text: str) -> Markup:
    """A line as HTML that is marked as a whole, without colours, cut after MAX_CHARACTERS."""
    return Markup("<mark>{}</mark>").format(plain(text))


def plain(text: str) -> str:
    """A line as text, without colours, cut after MAX_CHARACTERS."""
    return "".join(_shown(part) for part in split_colours(cut(text))[::2])


def cut(text: str) -> str:
    """The part of a line that is rendered: what no carriage return overwrites, at most MAX_CHARACTERS."""
    visible = last_overwrite(text)
    if len(visible) <= MAX_CHARACTERS:
        return visible
    return _CUT_SEQUENCE.sub("", visible[:MAX_CHARACTERS]) + "…"


def _shown(text: str) -> str:
    return escape_lines(_CURSOR.sub("", text))


def _span(text: str, classes: str) -> Markup:
    return Markup('<span class="{}">{}</span>').format(classes, text) if classes else escape(text)


def _changed(style: _Style, parameters: str) -> _Style:
    """The style after a control sequence. Unknown parameters are ignored."""
    codes = iter([int(part) if part else 0 for part in re.split("[;:]", parameters)])
    for code in codes:
        match code:
            case 0:
                style = _PLAIN
            case 38 | 48:
                colour = _extended(codes)
                style = replace(style, colour=colour) if code == 38 else replace(style, background=True)  # noqa: PLR2004
            case 39:
                style = replace(style, colour=None)
            case 49:
                style = replace(style, background=False)
            case _ if code in range(30, 38) or code in range(90, 98):
                style = replace(style, colour=code % 10)
            case _ if code in range(40, 48) or code in range(100, 108):
                style = replace(style, background=True)
            case _ if code in _SWITCHES:
                style = replace(style, **_SWITCHES[code])
            case _:
                pass
    return style


def _extended(codes: Iterator[int]) -> int | None:
    """The nearest of the eight colours to one of the palette (`5;N`) or a mixed one (`2;R;G;B`); None if malformed."""
    match next(codes, None):
        case 5:
            return _of_palette(next(codes, _GREYS))
        case 2:
            return _nearest(*[next(codes, 0) for _ in range(3)])
        case _:
            return None


def _of_palette(index: int) -> int | None:
    if index < _BRIGHT:
        return index % 8
    if index < _CUBE:
        red, green, blue = (index - _BRIGHT) // 36, (index - _BRIGHT) // 6 % 6, (index - _BRIGHT) % 6
        return _nearest(red * 51, green * 51, blue * 51)
    return _nearest(*[(index - _CUBE) * 11] * 3) if index < _GREYS else None


def _nearest(red: int, green: int, blue: int) -> int:
    strongest = max(red, green, blue)
    if strongest < _DARK:
        return 0
    return sum(1 << bit for bit, level in enumerate((red, green, blue)) if level > strongest // 2)
