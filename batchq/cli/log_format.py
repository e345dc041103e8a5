"""The format of the server's log. Control characters are escaped, so callers cannot forge or colour a line."""

import logging
from typing import TextIO

from batchq.cli.output import ESCAPED, line

_ESCAPED_IN_TRACEBACKS = {character: escape for character, escape in ESCAPED.items() if character != ord("\n")}


def log_to(stream: TextIO) -> logging.Handler:
    """The log handler of a server. It collects no source location, thread or process, to save CPU for each record."""
    logging._srcfile = None  # noqa: SLF001 - Python's documentation of logging names it for this
    logging.logThreads = logging.logProcesses = logging.logMultiprocessing = False
    handler = logging.StreamHandler(stream)
    handler.setFormatter(LogFormatter("%(asctime)s %(levelname)s %(message)s"))
    return handler


class LogFormatter(logging.Formatter):
    """Formats a record as one line; further lines, as those of a traceback, are indented."""

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - as logging spells it
        return line(super().formatMessage(record))

    def format(self, record: logging.LogRecord) -> str:
        text = super().format(record)
        return text if text.isprintable() else text.translate(_ESCAPED_IN_TRACEBACKS).replace("\n", "\n  ")
