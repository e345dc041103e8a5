"""An instance has at most one server on a machine, in any directory. Decision 0036."""

import logging
import os
import socket
from contextlib import closing

import pytest

from batchq.errors import StoreRefused
from batchq.store import lock
from batchq.store.lock import hold_instance
from batchq.store.sqlite_store import SqliteStore

INSTANCE = os.urandom(4).hex()

pytestmark = pytest.mark.fault("CO02")


async def test_a_second_server_of_an_instance_is_refused_with_the_pid_of_the_first(tmp_path):
    store = await SqliteStore.open(tmp_path / "first")
    (tmp_path / "second").mkdir()

    with (
        hold_instance(INSTANCE, tmp_path / "first"),
        pytest.raises(StoreRefused) as refused,
        hold_instance(INSTANCE, tmp_path / "second"),
    ):
        pass

    await store.close()
    assert f"process {os.getpid()} is the server of instance" in str(refused.value)
    with hold_instance(INSTANCE, tmp_path / "second"):
        pass


@pytest.mark.parametrize("listens", [True, False])
def test_a_lock_of_an_untrusted_user_is_ignored(tmp_path, monkeypatch, caplog, listens):
    with closing(socket.socket(socket.AF_UNIX)) as squatter:
        squatter.bind(f"\0batchq/{INSTANCE}")
        if listens:
            squatter.listen()
            monkeypatch.setattr(lock, "_peer", lambda _: (1234, 54321))
        with caplog.at_level(logging.WARNING), hold_instance(INSTANCE, tmp_path):
            pass

    assert "ignoring the lock" in caplog.text
