"""`batchq serve`: runs a server until SIGTERM or SIGINT. A second signal ends the process at once.

The process also ends at once when its database is lost, and does not wait for threads that never return.
"""

import asyncio
import gc
import logging
import os
import signal
import sys
import threading
from argparse import ArgumentParser, Namespace
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import NoReturn, TextIO

from batchq.cli.admin_backend import settings_of
from batchq.cli.output import print_error, write_line
from batchq.cli.quantities import comma_list
from batchq.domain.catalog import Network
from batchq.server.bootstrap import serving
from batchq.settings import LogLevel, Settings, check_variables
from batchq.system.escapes import ESCAPES, escape

log = logging.getLogger(__name__)

THREAD_TIMEOUT = 1.0  # seconds in which a thread must end at shutdown
STDERR = 2  # the file descriptor
GC_THRESHOLD = 5000  # new objects before a collection of the youngest generation; Python's default is 700
FORCED_EXIT = 130  # exit status after a second signal; the database stays intact
_ESCAPES_IN_TRACEBACKS = {character: escaped for character, escaped in ESCAPES.items() if character != ord("\n")}


def add_serve(command: ArgumentParser) -> None:
    """Run the server. Each flag can also be set by an environment variable: --stop-grace by BATCHQ_STOP_GRACE."""
    command.set_defaults(run=run_server)
    _add_listening_flags(command)
    _add_job_flags(command)
    _add_limit_flags(command)


def _add_listening_flags(command: ArgumentParser) -> None:
    flag = command.add_argument
    flag("--host", help="address to listen on (127.0.0.1)")
    flag("--port", type=int, help="port to listen on, 0 for a free one (22824)")
    flag("--socket", type=Path, help="unix socket to listen on, for users of this machine, who need no keys (none)")
    flag("--socket-group", help="group of the socket's file, whose members may connect (none)")
    flag("--socket-mode", help="octal mode of the socket's file (0660 with a group, else 0600)")
    flag("--no-tcp", action="store_true", default=None, help="listen on the socket only")


def _add_job_flags(command: ArgumentParser) -> None:
    flag = command.add_argument
    flag(
        "--data", type=Path, help="data directory, with the database and the logs (the platform's user data directory)"
    )
    flag("--checkpoints", type=Path, help="directory of the checkpoints of jobs (beside --data, NAME-checkpoints)")
    flag("--runtime", choices=["docker", "simulated"], help="where containers run (docker)")
    flag("--kubernetes", metavar="FILE[#CONTEXT]", help="run containers on the cluster of a kubeconfig, or in-cluster")
    flag("--kubernetes-drain-grace", type=int, help="seconds that the drain of a node leaves to a job (1)")
    flag("--kubernetes-unsupported", action="store_true", default=None, help="accept old servers, for tests only")
    flag("--account-id", help="the account in ARNs (123456789012)")
    flag("--region", help="the region in ARNs of requests that name none (us-east-1)")
    flag("--stop-grace", type=float, help="seconds between SIGTERM and SIGKILL (30)")
    flag("--min-timeout", type=int, help="minimum attemptDurationSeconds of jobs (60)")
    flag("--privileged", choices=["allow", "drop", "refuse"], help="how privileged containers are handled (allow)")
    flag("--volumes", type=_paths, help="host paths that jobs may mount, with all below them, colon-separated (/)")
    flag(
        "--missing-host-paths",
        choices=["refuse", "create"],
        help="how mounts of missing host paths are handled (refuse)",
    )
    flag("--registries", type=comma_list, help="registries of jobs' images, with or without a path, comma-separated")
    flag("--network", choices=[*Network], help="network mode of jobs whose compute environment sets none (shared)")
    flag("--container-runtime", help="OCI runtime of containers whose compute environment names none (the engine's)")
    flag(
        "--engine-socket",
        action="store_true",
        default=None,
        help="let jobs mount the engine's socket, which makes them root on this machine",
    )
    flag("--secrets-file", type=Path, help="JSON file of secrets, by their valueFrom (none)")
    flag("--prices", type=Path, help="TOML file of prices, for the costs of jobs and budgets (none)")


def _add_limit_flags(command: ArgumentParser) -> None:
    flag = command.add_argument
    flag("--metrics-token-file", type=Path, help="file with the token of /metrics for Prometheus, with sigv4 (none)")
    flag("--s3-root", type=Path, help="folder with a folder for each S3 bucket of SageMaker's training jobs (none)")
    flag("--modelarts-config", type=Path, help="TOML file with obs_root and engines of the ModelArts API (none)")
    flag("--allowed-hosts", type=comma_list, help="host names of the server in addition to localhost, comma-separated")
    flag("--auth", choices=["none", "sigv4"], help="sigv4: requests are signed with keys of `batchq key` (none)")
    flag("--tls-cert", type=Path, help="certificate chain of the server for HTTPS, PEM (none)")
    flag("--tls-key", type=Path, help="private key of --tls-cert, PEM, readable by its owner only (none)")
    flag("--connections-per-address", type=int, help="maximum open connections from one address (half of all)")
    flag("--requests-per-second", type=float, help="requests of one user a second; only with --auth sigv4 (200)")
    flag("--min-free-mib", type=int, help="MiB of the data directory's disk that remain free (64)")
    flag("--log-level", choices=[*LogLevel], help="least severity of the server's log on stderr (info)")
    flag("--log-mib", type=int, help="MiB of output stored for each container, 0 for all (500)")
    flag("--retention-days", type=float, help="days for which finished jobs and their logs are stored, 0 for ever (30)")
    flag("--checkpoint-days", type=float, help="days for which checkpoints of finished jobs are stored, 0 for ever (0)")
    flag("--audit-days", type=float, help="days for which audit records are stored, 0 for ever (365)")
    flag("--insecure-no-auth", action="store_true", default=None, help="listen beyond loopback without authentication")


def run_server(args: Namespace) -> int:
    """Serve until SIGTERM or SIGINT. Raises BatchqError or OSError if the server cannot start."""
    settings = settings_of(args)
    check_variables(os.environ)
    _open_standard_streams()
    configure_logging(settings.log_level, sys.stderr)
    tune_gc()
    try:
        status = asyncio.run(serve(settings))
    except Exception as why:
        if _has_running_thread():
            log.exception("the server exits although a thread is still running")
            _exit_now(print_error(str(why)))
        raise
    if _has_running_thread():
        _exit_now(status)
    return status


def tune_gc() -> None:
    """Exclude all present objects from garbage collection, and collect the new ones less often.

    Modules are never freed, and traversing them would delay requests. Objects of running jobs are in use, and reference
    counting frees them later, so frequent collections would find nothing.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(GC_THRESHOLD)


async def serve(settings: Settings) -> int:
    """Serve until SIGTERM or SIGINT; containers keep running. Raises BatchqError or OSError if the start fails."""
    stopped = _stop_signal()
    async with serving(settings) as server:
        for url in server.urls:
            write_line(f"batchq is ready at {url}")
        watch = asyncio.ensure_future(_exit_when_lost(server.wait_until_lost))
        await stopped.wait()
        watch.cancel()
    return 0


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


def _paths(text: str) -> tuple[Path, ...]:
    return tuple(Path(part) for part in text.split(":") if part)


def configure_logging(level: LogLevel, stream: TextIO) -> None:
    """Log to the stream. Libraries log from INFO on: at DEBUG they log statements and requests with their data."""
    least = logging.getLevelNamesMapping()[level.upper()]
    logging.basicConfig(level=max(least, logging.INFO), handlers=[log_handler(stream)])
    logging.getLogger("batchq").setLevel(least)


def log_handler(stream: TextIO) -> logging.Handler:
    """The log handler of a server. It collects no source location, thread or process, to save CPU for each record."""
    logging._srcfile = None  # noqa: SLF001 - Python's documentation of logging names it for this
    logging.logThreads = logging.logProcesses = logging.logMultiprocessing = False
    handler = logging.StreamHandler(stream)
    handler.setFormatter(LogFormatter("%(asctime)s %(levelname)s %(message)s"))
    return handler


class LogFormatter(logging.Formatter):
    """Formats a record as one line; further lines, as those of a traceback, are indented."""

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - as logging spells it
        return escape(super().formatMessage(record))

    def format(self, record: logging.LogRecord) -> str:
        text = super().format(record)
        return text if text.isprintable() else text.translate(_ESCAPES_IN_TRACEBACKS).replace("\n", "\n  ")
