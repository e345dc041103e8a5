"""A server under a service manager: it reports that it is ready, and takes the socket that the manager listens at."""

import os
import signal
import subprocess
from contextlib import contextmanager
from socket import AF_INET, AF_UNIX, SOCK_DGRAM, SOCK_STREAM, socket

import pytest

from tests.support.service import BATCHQ, PATIENCE

SERVE = ("serve", "--runtime", "simulated", "--port", "0", "--data")


@pytest.fixture
def manager(tmp_path):
    """The socket to which the server sends its states."""
    with socket(AF_UNIX, SOCK_DGRAM) as states:
        states.bind(str(tmp_path / "notify"))
        states.settimeout(PATIENCE)
        yield states


@contextmanager
def started(tmp_path, *, listener=None, sockets=1):
    """A server that gets the listener as descriptor 3, as systemd passes sockets."""
    variables = os.environ | {"NOTIFY_SOCKET": str(tmp_path / "notify")}
    words = [str(BATCHQ), *SERVE, str(tmp_path / "data")]
    passed = ()
    if listener is not None:
        passed = (listener.fileno(),)
        shell = f'exec 3<&{listener.fileno()}; LISTEN_FDS={sockets} LISTEN_PID=$$ exec "$@"'
        words = ["bash", "-c", shell, "server", *words]
    server = subprocess.Popen(
        words, env=variables, pass_fds=passed, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        yield server
    finally:
        if server.poll() is None:
            server.send_signal(signal.SIGTERM)
        server.communicate(timeout=PATIENCE)


def test_the_manager_is_notified_when_the_server_is_ready_and_when_the_server_stops(tmp_path, manager):
    with started(tmp_path) as server:
        assert manager.recv(100) == b"READY=1"
        assert server.stdout.readline().startswith("batchq is ready at http://")

        server.send_signal(signal.SIGTERM)

        assert manager.recv(100) == b"STOPPING=1"
        assert server.wait(PATIENCE) == 0


def test_a_client_that_connects_before_the_start_of_the_server_is_answered(tmp_path, manager):
    with socket(AF_INET, SOCK_STREAM) as listener, socket(AF_INET, SOCK_STREAM) as client:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        client.connect(listener.getsockname())
        client.sendall(b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n")

        with started(tmp_path, listener=listener) as server:
            client.settimeout(PATIENCE)
            assert client.recv(100).startswith(b"HTTP/1.1 200 ")
            assert server.stdout.readline() == f"batchq is ready at http://127.0.0.1:{listener.getsockname()[1]}\n"


@pytest.mark.parametrize(
    ("address", "sockets", "named"),
    [
        (("0.0.0.0", 0), 1, "0.0.0.0 is not a loopback address"),
        (("127.0.0.1", 0), 2, "passes 2 sockets"),
        (None, 1, "does not listen on TCP"),
    ],
)
def test_a_socket_that_the_server_must_not_use_is_refused(tmp_path, manager, address, sockets, named):
    with socket(AF_INET, SOCK_STREAM) as listener:
        if address is not None:
            listener.bind(address)
            listener.listen()

        with started(tmp_path, listener=listener, sockets=sockets) as server:
            _, printed = server.communicate(timeout=PATIENCE)

    assert server.returncode == 2
    assert named in printed.splitlines()[-1]
