"""The file of a unix socket: what is in its place before, its mode, group and folder; and connections by user."""

import asyncio
import os
import stat
from pathlib import Path
from socket import AF_UNIX, SOCK_STREAM, socket

import pytest

from batchq.api.http.unix_socket import OWNER_ONLY, SocketFile, listening, peer_uid, socket_facts
from batchq.api.serving.server import ConnectionLimits, ListeningSite
from batchq.errors import StartImpossible, Unavailable
from tests.support.local_users import DAEMON, needs_root


@pytest.fixture
def path(tmp_path):
    tmp_path.chmod(0o700)
    return tmp_path / "b.sock"


def opened(path, *, group=None, mode=OWNER_ONLY):
    return listening(SocketFile(path=path, group=group, mode=mode))


def connected(path):
    client = socket(AF_UNIX, SOCK_STREAM)
    client.connect(str(path))
    return client


def stale(path):
    """The file of a server that was killed."""
    with socket(AF_UNIX, SOCK_STREAM) as left:
        left.bind(str(path))
        left.listen()


def test_a_client_may_connect_before_the_server_is_ready_and_until_the_file_is_removed(path):
    with opened(path) as listener, connected(path):
        server, _ = listener.accept()
        assert peer_uid(server) == os.geteuid()
        server.close()
    assert not path.exists()


def test_a_file_that_replaced_the_socket_is_left_alone(path):
    with opened(path):
        path.unlink()
        path.write_text("of another program")
    assert path.read_text() == "of another program"


def test_the_socket_of_a_killed_server_is_replaced(path):
    stale(path)
    with opened(path) as listener, connected(path):
        listener.accept()[0].close()


def test_the_socket_of_a_running_server_is_refused(path):
    with opened(path):
        with pytest.raises(Unavailable, match="already in use"), opened(path):
            pass
        connected(path).close()


@pytest.mark.fault("SE46")
@pytest.mark.parametrize("kind", ["file", "folder", "link", "link to a socket"])
def test_another_file_in_its_place_is_refused_and_left_alone(path, kind):
    if kind == "file":
        path.write_text("precious")
    elif kind == "folder":
        path.mkdir()
    else:
        stale(path.with_name("other"))
        path.symlink_to("other" if kind == "link to a socket" else "nowhere")
    before = path.lstat()

    with pytest.raises(StartImpossible, match="exists and is not a socket"), opened(path):
        pass

    assert path.lstat() == before


@pytest.mark.parametrize("mode", [0o600, 0o660, 0o666])
def test_the_file_never_permits_more_than_its_mode(path, mode, monkeypatch):
    seen = []
    chmod, rename = Path.chmod, Path.rename

    def watched(method):
        def call(self, *args):
            seen.append(stat.S_IMODE(self.lstat().st_mode))
            return method(self, *args)

        return call

    monkeypatch.setattr(Path, "chmod", watched(chmod))
    monkeypatch.setattr(Path, "rename", watched(rename))
    before = os.umask(0)
    try:
        with opened(path, mode=mode):
            seen.append(stat.S_IMODE(path.stat().st_mode))
    finally:
        os.umask(before)

    assert seen == [0o600, mode, mode]


@pytest.mark.fault("SE46")
@pytest.mark.parametrize("mode", [0o777, 0o770, 0o1777])
def test_a_folder_in_which_others_can_write_is_refused(path, mode):
    path.parent.chmod(mode)
    with pytest.raises(StartImpossible, match="other users can write"), opened(path):
        pass


@needs_root
@pytest.mark.fault("SE46")
def test_a_folder_or_a_socket_of_another_user_is_refused(path):
    stale(path)
    os.chown(path, DAEMON, DAEMON)
    with pytest.raises(StartImpossible, match="belongs to the user 1"), opened(path):
        pass
    os.chown(path.parent, DAEMON, DAEMON)
    with pytest.raises(StartImpossible, match="the user 1 owns"), opened(path):
        pass


def test_a_long_path_and_an_unknown_group_are_refused_and_leave_nothing(path):
    with pytest.raises(StartImpossible, match="longer than 100 bytes"), opened(path.with_name("b" * 120)):
        pass
    with pytest.raises(StartImpossible, match="there is no group"), opened(path, group="no-such-group"):
        pass
    assert [*path.parent.iterdir()] == []


async def test_connections_of_one_user_are_limited(path, server):
    limits = ConnectionLimits(connections=8, per_address=2, client_timeout=10)
    with opened(path) as listener:
        site = ListeningSite(server._runner, listener=listener, certificate=None, limits=limits, path=path)
        await site.start()
        streams = [await asyncio.open_unix_connection(str(path)) for _ in range(3)]
        closed = await asyncio.wait_for(streams[0][0].read(), 5)
        streams[2][1].write(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
        answer = await streams[2][0].readline()
        for _, writer in streams:
            writer.close()
        await site.stop()

    assert site.name == f"unix://{path}"
    assert (closed, answer) == (b"", b"HTTP/1.1 200 OK\r\n")


def test_the_doctor_sees_the_mode_and_owner_of_the_file_and_a_folder_that_others_can_write_to(path):
    with opened(path, mode=0o666):
        found = socket_facts(path)
        assert (found.mode, found.admits_caller, found.unsafe) == (0o666, True, "")
        path.parent.chmod(0o777)
        assert socket_facts(path).unsafe == (
            f"other users can write to {path.parent} and could replace the socket {path}"
        )
    assert socket_facts(path) is None
