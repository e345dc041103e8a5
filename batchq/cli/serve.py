"""`batchq serve`: runs a server until SIGTERM or SIGINT. A second signal ends the process at once.

The process also ends at once when its database is lost, and does not wait for threads that never return.
"""

import asyncio
import gc
import json
import logging
import os
import signal
import sys
import threading
from argparse import ArgumentParser, Namespace
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import NoReturn, TextIO

from batchq.cli.output import DONE, print_error, write_line
from batchq.cli.server_settings import add_setting_flags, settings_of
from batchq.server.bootstrap import serving
from batchq.settings import LogFormat, LogLevel, Settings, check_variables
from batchq.system.escapes import ESCAPES, escape
from batchq.system.service_manager import notify

log = logging.getLogger(__name__)

THREAD_TIMEOUT = 1.0  # seconds in which a thread must end at shutdown
STDERR = 2  # the file descriptor
GC_THRESHOLD = 5000  # new objects before a collection of the youngest generation; Python's default is 700
FORCED_EXIT = 130  # exit status after a second signal; the database stays intact
_ESCAPES_IN_TRACEBACKS = {character: escaped for character, escaped in ESCAPES.items() if character != ord("\n")}


def add_serve(command: ArgumentParser) -> None:
    """Run the server. A variable or the settings file can replace a flag: BATCHQ_STOP_GRACE stands for --stop-grace."""
    add_setting_flags(command)


def run_serve(args: Namespace) -> None:
    """Serve until SIGTERM or SIGINT. Raises BatchqError or OSError if the server cannot start."""
    settings = settings_of(args)
    check_variables(os.environ)
    _open_standard_streams()
    configure_logging(settings.log_level, sys.stderr, settings.log_format)
    tune_gc()
    try:
        asyncio.run(serve(settings))
    except Exception as why:
        if _has_running_thread():
            log.exception("the server exits although a thread is still running")
            _exit_now(print_error(str(why)))
        raise
    if _has_running_thread():
        _exit_now(DONE)


def tune_gc() -> None:
    """Exclude all present objects from garbage collection, and collect the new ones less often.

    Modules are never freed, and traversing them would delay requests. Objects of running jobs are in use, and reference
    counting frees them later, so frequent collections would find nothing.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(GC_THRESHOLD)


async def serve(settings: Settings) -> None:
    """Serve until SIGTERM or SIGINT; containers keep running. Raises BatchqError or OSError if the start fails."""
    stopped = _stop_signal()
    async with serving(settings) as server:
        for url in server.urls:
            write_line(f"batchq is ready at {url}")
        notify("READY=1")
        watch = asyncio.ensure_future(_exit_when_lost(server.wait_until_lost))
        await stopped.wait()
        notify("STOPPING=1")
        watch.cancel()


async def _exit_when_lost(lost: Callable[[], Awaitable[str]]) -> None:
    """Exit without closing the database once it is lost: closing would write to a file that may have replaced it."""
    why = await lost()
    _exit_now(print_error(f"{why}; the server exits, and containers keep running"))


def _has_running_thread() -> bool:
    """Whether another non-daemon thread still runs after THREAD_TIMEOUT, and so keeps the process from exiting."""
    others = [
        thread for thread in threading.enumerate() if thread is not threading.current_thread() and not thread.daemon
    ]
    for thread in others:
        thread.join(THREAD_TIMEOUT)
    return any(thread.is_alive() for thread in others)


def _exit_now(status: int) -> NoReturn:
    """End the process without waiting for threads."""
    logging.shutdown()
    os._exit(status)


def _open_standard_streams() -> None:
    """Open /dev/null for each closed standard stream: its descriptor would go to the next opened file, as the lock."""
    while (descriptor := os.open(os.devnull, os.O_RDWR)) <= STDERR:
        pass
    os.close(descriptor)


def _stop_signal() -> asyncio.Event:
    """An event that the first SIGTERM or SIGINT sets; the second one ends the process."""
    stopped = asyncio.Event()

    def on_signal() -> None:
        if stopped.is_set():
            os._exit(FORCED_EXIT)
        stopped.set()

    loop = asyncio.get_running_loop()
    for each in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(each, on_signal)
    return stopped


def configure_logging(level: LogLevel, stream: TextIO, form: LogFormat = LogFormat.TEXT) -> None:
    """Log to the stream. Libraries log from INFO on: at DEBUG they log statements and requests with their data."""
    least = logging.getLevelNamesMapping()[level.upper()]
    logging.basicConfig(level=max(least, logging.INFO), handlers=[log_handler(stream, form)])
    logging.getLogger("batchq").setLevel(least)


def log_handler(stream: TextIO, form: LogFormat = LogFormat.TEXT) -> logging.Handler:
    """The log handler of a server. It collects no source location, thread or process, to save CPU for each record."""
    logging._srcfile = None  # noqa: SLF001 - Python's documentation of logging names it for this
    logging.logThreads = logging.logProcesses = logging.logMultiprocessing = False
    handler = logging.StreamHandler(stream)
    handler.setFormatter(
        LogFormatter("%(asctime)s %(levelname)s %(message)s") if form is LogFormat.TEXT else JsonFormatter()
    )
    return handler


class LogFormatter(logging.Formatter):
    """Formats a record as one line; further lines, as those of a traceback, are indented."""

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - as logging spells it
        return escape(super().formatMessage(record))

    def format(self, record: logging.LogRecord) -> str:
        text = super().format(record)
        return text if text.isprintable() else text.translate(_ESCAPES_IN_TRACEBACKS).replace("\n", "\n  ")


class JsonFormatter(logging.Formatter):
    """Formats a record as one line with a JSON object: `time` in UTC, `level`, `logger`, `message`, and `exception`."""

    def format(self, record: logging.LogRecord) -> str:
        members = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            members["exception"] = self.formatException(record.exc_info)
        return json.dumps(members)
