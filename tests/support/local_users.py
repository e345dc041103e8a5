"""Commands that are run by another user of this machine. Only root can do so."""

import contextlib
import io
import json
import os
import pkgutil
from http.client import HTTPConnection
from importlib import import_module
from socket import AF_UNIX, SOCK_STREAM, socket

import pytest

import batchq.cli
from tests.support.service import FORKS

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

    for module in pkgutil.iter_modules(batchq.cli.__path__):  # the user may not be able to read the files of Python
        import_module(f"batchq.cli.{module.name}")
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
            status = main([str(word) for word in words])
    except SystemExit as end:
        status = end.code
    finally:
        writer.send((status, printed.getvalue()))


def requests_as(uid, path, requests, *, headers=None):
    """The status, headers and body of the answers to requests of this user at a unix socket."""
    reader, writer = FORKS.Pipe(duplex=False)
    with reader, writer:
        process = FORKS.Process(target=_request, args=(uid, str(path), requests, headers or {}, writer), daemon=True)
        process.start()
        result = reader.recv()
        process.join()
    assert not isinstance(result, BaseException), result
    return result


def _request(uid, path, requests, headers, writer):
    os.setgroups([])
    os.setgid(uid)
    os.setuid(uid)
    try:
        writer.send([_answer(path, *request, headers) for request in requests])
    except BaseException as error:  # noqa: BLE001 - the test reports it
        writer.send(error)


def _answer(path, method, target, body, headers):
    connection = HTTPConnection("localhost", timeout=60)
    connection.sock = socket(AF_UNIX, SOCK_STREAM)
    connection.sock.connect(path)
    content = b"" if body is None else json.dumps(body).encode()
    sent = {name: value for name, value in headers.items() if name.lower() != "host"}
    connection.request(method, target, body=content, headers={"Content-Type": "application/json"} | sent)
    answer = connection.getresponse()
    found = answer.status, answer.getheaders(), answer.read()
    connection.close()
    return found
