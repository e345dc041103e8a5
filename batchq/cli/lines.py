"""Lines, of the log and of commands. What callers say may be in them: it never begins, colours or turns a line."""

import logging

_CONTROLS = (*range(0x20), *range(0x7F, 0xA0), 0x2028, 0x2029)
_DIRECTIONS = (0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x2066, 0x206A))
_ESCAPED = {it: ascii(chr(it))[1:-1] for it in (*_CONTROLS, *_DIRECTIONS)}
_OF_TRACEBACKS = {it: said for it, said in _ESCAPED.items() if it != ord("\n")}


def line(text: str) -> str:
    """As one, whatever is in it."""
    return text.translate(_ESCAPED)


class Lines(logging.Formatter):
    """A record begins at the margin; what follows of it, as a traceback does, is indented."""

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - as logging spells it
        return line(super().formatMessage(record))

    def format(self, record: logging.LogRecord) -> str:
        return super().format(record).translate(_OF_TRACEBACKS).replace("\n", "\n  ")
