"""`batchq serve`: runs a server until SIGTERM or SIGINT. A second signal ends the process at once.

The process also ends at once when its database is lost, and does not wait for threads that never return.
"""

import argparse
import asyncio
import gc
import logging
import os
import signal
import sys
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import NoReturn

from batchq.bootstrap import serving
from batchq.cli.arguments import read
from batchq.cli.log_format import log_to
from batchq.cli.output import complain, write_line
from batchq.domain.catalog import Network
from batchq.settings import Settings, check_names

log = logging.getLogger(__name__)

LAST_WORDS = 1.0  # seconds in which a thread must end at shutdown
ERROR = 2  # the file descriptor of stderr
YOUNG = 5000  # new objects before a collection of the youngest generation; Python's default is 700
AT_ONCE = 130  # exit status after a second signal; the database stays intact


def add(command: argparse.ArgumentParser) -> None:
    """Run the server. Each flag can also be set by an environment variable: --stop-grace by BATCHQ_STOP_GRACE."""
    command.set_defaults(run=run)
    flag = command.add_argument
    flag("--host", help="address to listen on (127.0.0.1)")
    flag("--port", type=int, help="port to listen on, 0 for a free one (22824)")
    flag(
        "--data", type=Path, help="data directory, with the database and the logs (the platform's user data directory)"
    )
    flag("--runtime", choices=["docker", "simulated"], help="where containers run (docker)")
    flag("--account-id", help="the account in ARNs (123456789012)")
    flag("--region", help="the region in ARNs of requests that name none (us-east-1)")
    flag("--stop-grace", type=float, help="seconds between SIGTERM and SIGKILL (30)")
    flag("--min-timeout", type=int, help="minimum attemptDurationSeconds of jobs (60)")
    flag("--privileged", choices=["allow", "drop", "refuse"], help="how privileged containers are handled (allow)")
    flag("--volumes", type=_paths, help="host paths that jobs may mount, with all below them, colon-separated (/)")
    flag(
        "--missing-host-paths",
        choices=["create", "refuse"],
        help="how mounts of missing host paths are handled (create)",
    )
    flag("--registries", type=_words, help="registries of jobs' images, with or without a path, comma-separated (any)")
    flag("--network", choices=[*Network], help="network mode of jobs whose compute environment sets none (shared)")
    flag("--secrets-file", type=Path, help="JSON file of secrets, by their valueFrom (none)")
    flag("--allowed-hosts", type=_words, help="host names of the server in addition to localhost, comma-separated")
    flag("--auth", choices=["none", "sigv4"], help="sigv4: requests are signed with keys of `batchq key` (none)")
    flag("--tls-cert", type=Path, help="certificate chain of the server for HTTPS, PEM (none)")
    flag("--tls-key", type=Path, help="private key of --tls-cert, PEM, readable by its owner only (none)")
    flag("--connections-per-address", type=int, help="maximum open connections from one address (half of all)")
    flag(
        "--requests-per-second",
        type=float,
        help="requests of one user a second, on average; only with --auth sigv4 (200)",
    )
    flag("--min-free-mib", type=int, help="MiB of the data directory's disk that remain free (64)")
    flag("--log-mib", type=int, help="MiB of output stored for each container, 0 for all (500)")
    flag("--retention-days", type=float, help="days for which finished jobs and their logs are stored, 0 for ever (30)")
    flag("--audit-days", type=float, help="days for which audit records are stored, 0 for ever (365)")
    flag("--insecure-no-auth", action="store_true", default=None, help="listen beyond loopback without authentication")


def run(asked: argparse.Namespace) -> int:
    """Serve until SIGTERM or SIGINT. Raises BatchqError or OSError if the server cannot start."""
    settings = read(asked)
    check_names(os.environ)
    _see_to_streams()
    logging.basicConfig(level=logging.INFO, handlers=[log_to(sys.stderr)])
    look_for_garbage_in_what_is_new()
    try:
        status = asyncio.run(serve(settings))
    except Exception as why:
        if _is_held():
            log.exception("the server exits although a thread is still running")
            _leave(complain(str(why)))
        raise
    if _is_held():
        _leave(status)
    return status


def look_for_garbage_in_what_is_new() -> None:
    """Exclude all present objects from garbage collection, and collect the new ones less often.

    Modules are never freed, and traversing them would delay requests. Objects of running jobs are in use, and reference
    counting frees them later, so frequent collections would find nothing.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(YOUNG)


async def serve(settings: Settings) -> int:
    """Serve until SIGTERM or SIGINT; containers keep running. Raises BatchqError or OSError if the start fails."""
    over = _signals()
    async with serving(settings) as server:
        write_line(f"batchq is ready at {server.url}")
        watch = asyncio.ensure_future(_end_when_lost(server.lost))
        await over.wait()
        watch.cancel()
    return 0


async def _end_when_lost(lost: Callable[[], Awaitable[str]]) -> None:
    """Exit without closing the database once it is lost: closing would write to a file that may have replaced it."""
    why = await lost()
    _leave(complain(f"{why}; the server exits, and containers keep running"))


def _is_held() -> bool:
    """Whether another non-daemon thread is still running after LAST_WORDS: it would keep the process from exiting."""
    others = [it for it in threading.enumerate() if it is not threading.current_thread() and not it.daemon]
    for thread in others:
        thread.join(LAST_WORDS)
    return any(it.is_alive() for it in others)


def _leave(status: int) -> NoReturn:
    """End the process without waiting for threads."""
    logging.shutdown()
    os._exit(status)


def _see_to_streams() -> None:
    """Open /dev/null for each closed standard stream: its descriptor would go to the next opened file, as the lock."""
    while (taken := os.open(os.devnull, os.O_RDWR)) <= ERROR:
        pass
    os.close(taken)


def _signals() -> asyncio.Event:
    """An event that the first SIGTERM or SIGINT sets; the second one ends the process."""
    over = asyncio.Event()

    def heard() -> None:
        if over.is_set():
            os._exit(AT_ONCE)
        over.set()

    loop = asyncio.get_running_loop()
    for each in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(each, heard)
    return over


def _paths(text: str) -> tuple[Path, ...]:
    return tuple(Path(it) for it in text.split(":") if it)


def _words(text: str) -> tuple[str, ...]:
    return tuple(it.strip() for it in text.split(",") if it.strip())
