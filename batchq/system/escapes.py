"""Escapes of control characters, for texts of callers that are shown in terminals, logs and pages."""

import re

_CONTROLS = (*range(0x20), *range(0x7F, 0xA0), 0x2028, 0x2029)
_DIRECTIONS = (0x061C, 0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x2066, 0x206A))
#: For `str.translate`: control characters and marks of text direction, each with its escape sequence.
ESCAPES = {control: ascii(chr(control))[1:-1] for control in (*_CONTROLS, *_DIRECTIONS)}
#: The same without the tab and the line feed.
ESCAPES_IN_LINES = {key: text for key, text in ESCAPES.items() if chr(key) not in "\t\n"}
#: The beginnings of texts that a spreadsheet computes. Some versions of Excel take the wide characters for the others.
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "\uff1d", "\uff0b", "\uff0d", "\uff20")
_NUMBER = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?", re.ASCII | re.IGNORECASE)
#: A control sequence of terminals that sets colours (SGR).
_COLOURS = re.compile(r"(\x1b\[[0-9;:]{0,32}m)")


def escape(text: str) -> str:
    """Escape control characters: text of a caller must not start, colour or reverse a line of a terminal."""
    return text if text.isprintable() else text.translate(ESCAPES)


def escape_lines(text: str) -> str:
    """As `escape`, for text of several lines: tabs and line feeds stay."""
    return text if text.isprintable() else text.translate(ESCAPES_IN_LINES)


def csv_cell(text: str) -> str:
    """The text for a spreadsheet: a text that would be a formula begins with an apostrophe. A number stays."""
    return f"'{text}" if text.startswith(_FORMULA) and _NUMBER.fullmatch(text) is None else text


def split_colours(text: str) -> list[str]:
    """A line of output as text, a control sequence of colours, text, a control sequence, and so on; ends with text.

    Of text that carriage returns overwrite, as that of progress bars, the last one remains.
    """
    return _COLOURS.split(last_overwrite(text))


def last_overwrite(text: str) -> str:
    """Of text that carriage returns overwrite, the last one."""
    return text.rstrip("\r").rpartition("\r")[2]
