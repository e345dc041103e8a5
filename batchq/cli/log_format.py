"""Lines, of the log and of commands. What callers say may be in them: it never begins, colours or turns a line."""

import logging
import time
from collections.abc import Iterable
from typing import TextIO

from batchq.cli.output import ESCAPED, line
from batchq.clock import wall_time
from batchq.engine.transition_log import Straight, Told

_OF_TRACEBACKS = {it: said for it, said in ESCAPED.items() if it != ord("\n")}


def log_to(stream: TextIO) -> logging.Handler:
    """As a server logs. Where a line comes from is not looked up: there are some for each job."""
    logging._srcfile = None  # noqa: SLF001 - Python's documentation of logging names it for this
    logging.logThreads = logging.logProcesses = logging.logMultiprocessing = False
    return Log(stream, LogFormatter("%(asctime)s %(levelname)s %(message)s"))


class LogFormatter(logging.Formatter):
    """A record begins at the margin; what follows of it, as a traceback does, is indented.

    A message that is several, as those of a turn, is as many lines, each as if it were a record. What is shown of a
    record ends in its message.
    """

    def __init__(self, shown: str) -> None:
        super().__init__(shown)
        self._shown = shown
        self._second, self._as_text = -1, ""

    def formatTime(self, record: logging.LogRecord, datefmt: str | None = None) -> str:  # noqa: ARG002, N802 - theirs
        """As logging does by itself, but once a second."""
        return self._time(int(record.created), int(record.msecs))

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - as logging spells it
        return line(super().formatMessage(record))

    def format(self, record: logging.LogRecord) -> str:
        if isinstance(record.msg, tuple):
            return self._several(record, record.msg)
        text = super().format(record)
        return text if text.isprintable() else text.translate(_OF_TRACEBACKS).replace("\n", "\n  ")

    def told(self, lines: Iterable[str]) -> str:
        """As a record of them would be, made now."""
        now = wall_time()
        shown = {
            "asctime": self._time(int(now.timestamp()), now.microsecond // 1000),
            "levelname": "INFO",
            "message": "",
        }
        return _margined(self._shown % shown, lines)

    def _several(self, record: logging.LogRecord, texts: tuple[str, ...]) -> str:
        record.asctime, record.message = self.formatTime(record), ""
        return _margined(self._shown % vars(record), texts)

    def _time(self, second: int, milliseconds: int) -> str:
        if second != self._second:
            self._as_text = time.strftime(self.default_time_format, time.localtime(second))
            self._second = second
        return f"{self._as_text},{milliseconds:03}"


class Log(logging.StreamHandler[TextIO], Straight):
    """Logging's own, but that what turns tell comes without a record."""

    def __init__(self, stream: TextIO, lines: LogFormatter) -> None:
        super().__init__(stream)
        self.setFormatter(lines)
        self._lines = lines

    def tell(self, lines: Told) -> None:
        self.acquire()
        try:
            self.stream.write(self._lines.told(lines) + self.terminator)
            self.stream.flush()
        except (OSError, ValueError):  # it is full, or closed
            self.handleError(logging.makeLogRecord({"msg": lines, "levelname": "INFO"}))
        finally:
            self.release()


def _margined(margin: str, texts: Iterable[str]) -> str:
    return "\n".join([line(margin + text) for text in texts])
