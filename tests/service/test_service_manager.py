"""A server under a service manager: it reports that it is ready, and takes the socket that the manager listens at."""

import os
import signal
import subprocess
from contextlib import ExitStack, contextmanager
from fcntl import F_DUPFD_CLOEXEC, fcntl
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
def started(tmp_path, *listeners, flags=()):
    """A server that gets the listeners as descriptors from 3 on, as systemd passes sockets."""
    variables = os.environ | {"NOTIFY_SOCKET": str(tmp_path / "notify")}
    words = [str(BATCHQ), *SERVE, str(tmp_path / "data"), *flags]
    # Copies with high numbers, because a listener may have the number of another's place.
    passed = [fcntl(listener, F_DUPFD_CLOEXEC, 100) for listener in listeners]
    if listeners:
        moves = [f"exec {place}<&{descriptor} {descriptor}<&-" for place, descriptor in enumerate(passed, 3)]
        shell = f'{"; ".join(moves)}; LISTEN_FDS={len(listeners)} LISTEN_PID=$$ exec "$@"'
        words = ["bash", "-c", shell, "server", *words]
    server = subprocess.Popen(
        words, env=variables, pass_fds=passed, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    for descriptor in passed:
        os.close(descriptor)
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

        with started(tmp_path, listener) as server:
            client.settimeout(PATIENCE)
            assert client.recv(100).startswith(b"HTTP/1.1 200 ")
            assert server.stdout.readline() == f"batchq is ready at http://127.0.0.1:{listener.getsockname()[1]}\n"


@pytest.fixture
def folder(tmp_path):
    """A folder in which others cannot replace a socket."""
    tmp_path.chmod(0o700)
    return tmp_path


@contextmanager
def listening_at(path, mode=0o600):
    with socket(AF_UNIX, SOCK_STREAM) as listener:
        listener.bind(str(path))
        path.chmod(mode)
        listener.listen()
        yield listener


def test_a_unix_socket_of_the_manager_is_served_and_its_file_stays(folder, manager):
    path = folder / "b.sock"
    with listening_at(path) as listener, started(folder, listener, flags=["--no-tcp"]) as server:
        assert server.stdout.readline() == f"batchq is ready at unix://{path}\n"
        caller = subprocess.run(
            [str(BATCHQ), "whoami", "--url", f"unix://{path}"], capture_output=True, text=True, check=True
        )
        server.send_signal(signal.SIGTERM)
        assert server.wait(PATIENCE) == 0

    assert "ADMIN" in caller.stdout
    assert path.exists()


def test_the_manager_may_pass_a_socket_of_each_kind(folder, manager):
    path = folder / "b.sock"
    with listening_at(path) as local, socket(AF_INET, SOCK_STREAM) as tcp:
        tcp.bind(("127.0.0.1", 0))
        tcp.listen()
        with started(folder, local, tcp) as server:
            assert manager.recv(100) == b"READY=1"
            for address in (f"unix://{path}", f"http://127.0.0.1:{tcp.getsockname()[1]}"):
                subprocess.run([str(BATCHQ), "whoami", "--url", address], capture_output=True, check=True)
            assert server.poll() is None


@pytest.mark.parametrize(
    ("mode", "flags", "named"),
    [
        (0o666, [], "every user of this machine could connect"),
        (0o600, ["--socket", "/run/other.sock"], "remove --socket"),
        (0o600, ["--socket-mode", "0600"], "remove --socket"),
    ],
)
def test_a_unix_socket_of_the_manager_that_contradicts_the_settings_is_refused(folder, manager, mode, flags, named):
    with listening_at(folder / "b.sock", mode) as listener, started(folder, listener, flags=flags) as server:
        _, printed = server.communicate(timeout=PATIENCE)

    assert server.returncode == 2
    assert named in printed.splitlines()[-1]


@pytest.mark.parametrize(
    ("addresses", "flags", "named"),
    [
        ([("0.0.0.0", 0)], [], "0.0.0.0 is not a loopback address"),
        ([("127.0.0.1", 0)] * 3, [], "passes 3 sockets"),
        ([("127.0.0.1", 0)] * 2, [], "passes two sockets of TCP"),
        ([("127.0.0.1", 0)], ["--no-tcp"], "--no-tcp is set"),
        ([None], [], "does not listen on TCP or a file"),
    ],
)
def test_a_socket_that_the_server_must_not_use_is_refused(tmp_path, manager, addresses, flags, named):
    with ExitStack() as stack:
        listeners = [stack.enter_context(socket(AF_INET, SOCK_STREAM)) for _ in addresses]
        for listener, address in zip(listeners, addresses, strict=True):
            if address is not None:
                listener.bind(address)
                listener.listen()

        with started(tmp_path, *listeners, flags=flags) as server:
            _, printed = server.communicate(timeout=PATIENCE)

    assert server.returncode == 2
    assert named in printed.splitlines()[-1]
