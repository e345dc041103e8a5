"""Run `batchq` as on Windows: without the modules and names that Python has on POSIX systems only.

The standard library chooses its own code when it is imported, so its modules are imported first.
"""

import asyncio  # noqa: F401
import logging.config  # noqa: F401
import multiprocessing.connection  # noqa: F401
import os
import shutil  # noqa: F401
import signal
import socket
import subprocess  # noqa: F401
import sys
import tempfile  # noqa: F401

import platformdirs  # noqa: F401 - as the standard library

MODULES = ["curses", "fcntl", "grp", "posix", "pty", "pwd", "readline", "resource", "syslog", "termios", "tty"]
NAMES = {
    os: "O_CLOEXEC O_DIRECTORY O_NOFOLLOW O_NONBLOCK WNOHANG chown fchown fork forkpty getegid geteuid "
    "getgid getgroups getloadavg getpgid getuid killpg mkfifo openpty pread pwrite sched_getaffinity setsid "
    "statvfs sysconf uname",
    signal: "SIGALRM SIGCHLD SIGCONT SIGHUP SIGKILL SIGPIPE SIGQUIT SIGSTOP SIGTSTP SIGUSR1 SIGUSR2 "
    "SIGWINCH pthread_sigmask",
    socket: "AF_UNIX SO_PEERCRED",
}


def remove_posix() -> None:
    """Remove the modules and names from this process."""
    sys.modules |= dict.fromkeys(MODULES)  # type: ignore[arg-type] # None: an import raises ModuleNotFoundError
    for module, names in NAMES.items():
        for name in set(names.split()) & vars(module).keys():
            delattr(module, name)


if __name__ == "__main__":
    from batchq.cli.main import main

    remove_posix()
    sys.exit(main())
