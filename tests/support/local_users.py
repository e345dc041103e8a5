"""Commands that are run by another user of this machine. Only root can do so."""

import contextlib
import io
import os
import pkgutil
from importlib import import_module

import pytest

import batchq.cli
from tests.support.forked_service import FORKS

DAEMON, BIN, NOBODY = 1, 2, 65534  # users that every Debian has
NAMELESS = 54_321

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can run a process as another user")


def run_as(uid, *words, gid=None):
    """The exit status of a `batchq` command of this user and group, and what it prints."""
    reader, writer = FORKS.Pipe(duplex=False)
    with reader, writer:
        process = FORKS.Process(target=_run, args=(uid, uid if gid is None else gid, words, writer), daemon=True)
        process.start()
        result = reader.recv()
        process.join()
    return result


def _run(uid, gid, words, writer):
    from batchq.cli.main import main  # noqa: PLC0415 - not in the process of the tests

    for it in pkgutil.iter_modules(batchq.cli.__path__):  # the user may not be able to read the files of Python
        import_module(f"batchq.cli.{it.name}")
    os.environ["HOME"] = os.environ["XDG_CONFIG_HOME"] = "/nonexistent"
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "BATCHQ_URL"):
        os.environ.pop(name, None)
    os.setgroups([])
    os.setgid(gid)
    os.setuid(uid)
    printed = io.StringIO()
    status = None
    try:
        with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
            status = main([str(it) for it in words])
    except SystemExit as end:
        status = end.code
    finally:
        writer.send((status, printed.getvalue()))
