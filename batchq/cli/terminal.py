"""What depends on the terminal: its width, its colours, and tables that fit into it."""

import os
import sys
from collections.abc import Mapping, Sequence
from typing import Literal, TextIO

from msgspec import Struct

#: Colours by name, as parameters of the control sequence SGR.
SGR: Mapping[str, str] = {
    "red": "31",
    "green": "32",
    "yellow": "33",
    "blue": "34",
    "magenta": "35",
    "cyan": "36",
    "dim": "2",
    "bold": "1",
}
ColorMode = Literal["auto", "always", "never"]


class Cell(Struct, frozen=True):
    """One value of a table on a terminal."""

    #: The value, without control characters.
    text: str
    #: A name of `SGR`; empty: the terminal's own colour.
    style: str = ""


class Heading(Struct, frozen=True, kw_only=True):
    """The head of a column."""

    #: The title.
    text: str
    #: Whether the column is narrowed where the table is wider than the terminal.
    elastic: bool = False
    #: Whether the values are aligned to the right.
    right: bool = False


def is_terminal(stream: TextIO | None = None) -> bool:
    """Whether the stream, or stdout, is a terminal. A closed stream is none."""
    stream = stream or sys.stdout
    return stream is not None and not stream.closed and stream.isatty()


def uses_color(mode: ColorMode, stream: TextIO | None = None) -> bool:
    """Whether the output has colours: by the flag, else by NO_COLOR, FORCE_COLOR and TERM, else on a terminal."""
    if mode != "auto":
        return mode == "always"
    if os.environ.get("NO_COLOR"):
        return False
    if os.environ.get("FORCE_COLOR"):
        return True
    return os.environ.get("TERM") != "dumb" and is_terminal(stream)


def paint(text: str, style: str) -> str:
    """The text in a colour of `SGR`; unchanged for an unknown or empty name."""
    return f"\x1b[{SGR[style]}m{text}\x1b[0m" if style in SGR else text


def print_table(headings: Sequence[Heading], rows: Sequence[Sequence[Cell]], *, color: bool) -> None:
    """Print a table of the terminal's width: elastic columns are narrowed, and cut values end with an ellipsis."""
    # Importing rich takes longer than a request, and pipes do not need it.
    from rich.console import Console  # noqa: PLC0415
    from rich.table import Table  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    def value(cell: Cell) -> Text:
        return Text(cell.text, style=cell.style, no_wrap=True, overflow="ellipsis", end="")

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold" if color else "")
    for it in headings:
        title = Text(it.text, no_wrap=True, overflow="ellipsis")
        table.add_column(title, justify="right" if it.right else "left", no_wrap=not it.elastic, overflow="ellipsis")
    for row in rows:
        table.add_row(*map(value, row))
    console = Console(no_color=not color, force_terminal=color, highlight=False, markup=False, emoji=False)
    console.print(table)
