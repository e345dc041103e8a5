"""The facts about the engine for the doctor, and each way in which it is unusable."""

import json
import os
import socket
import threading
from contextlib import contextmanager
from datetime import timedelta
from http.server import BaseHTTPRequestHandler
from socketserver import ThreadingUnixStreamServer

import pytest

from batchq.clock import SystemClock
from batchq.compute.docker import host
from batchq.compute.docker.host import examine
from batchq.doctor.facts import EngineFault, UnavailableEngine
from batchq.ports.runtime import ContainerState
from tests.support.builders import NOON
from tests.support.containers import docker_runtime, started
from tests.support.scripts import Script

VERSION = {"ApiVersion": "1.43", "MinAPIVersion": "1.12", "Version": "24.0.7"}
INFO = {
    "ServerVersion": "24.0.7",
    "DockerRootDir": "/nowhere/docker",
    "LiveRestoreEnabled": True,
    "MemoryLimit": True,
    "SwapLimit": False,
    "PidsLimit": True,
    "CgroupVersion": "2",
    "SystemTime": NOON.isoformat(),
}


class Standing:
    """A clock that stands."""

    def __init__(self, at):
        self._at = at

    def now(self):
        return self._at


@contextmanager
def pretended(folder, **answers):
    """An engine that tells these things of itself, and nothing else; its address."""
    told = {"version": VERSION, "info": INFO} | answers

    class Engine(BaseHTTPRequestHandler):
        def do_GET(self):
            body = json.dumps(told[self.path.rpartition("/")[2]]).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            pass

    with ThreadingUnixStreamServer(str(folder / "engine.sock"), Engine) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        yield f"unix://{folder}/engine.sock"
        server.shutdown()


def trouble(address):
    found = examine("0a1b2c3d", SystemClock(), base_url=address)
    assert isinstance(found, UnavailableEngine), found
    assert found.address == address
    return found.fault


def test_no_engine_exists(tmp_path):
    assert trouble(f"unix://{tmp_path}/none.sock") is EngineFault.ABSENT


def test_nothing_listens_at_the_socket(tmp_path):
    with socket.socket(socket.AF_UNIX) as left_over:
        left_over.bind(f"{tmp_path}/engine.sock")

    assert trouble(f"unix://{tmp_path}/engine.sock") is EngineFault.NOT_LISTENING


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody who is let in nowhere")
def test_the_user_has_no_permission(tmp_path):
    with pretended(tmp_path) as address:
        (tmp_path / "engine.sock").chmod(0o600)
        os.seteuid(65534)
        try:
            kind = host._connect_failure(address, address.removeprefix("unix://")).fault
        finally:
            os.seteuid(0)

    assert kind is EngineFault.FORBIDDEN


def test_the_engine_accepts_connections_and_does_not_answer(tmp_path, monkeypatch):
    monkeypatch.setattr(host, "EXAMINE_TIMEOUT", 0.2)
    with socket.socket(socket.AF_UNIX) as silent:
        silent.bind(f"{tmp_path}/engine.sock")
        silent.listen()

        assert trouble(f"unix://{tmp_path}/engine.sock") is EngineFault.NOT_RESPONDING


def test_the_responder_is_no_engine(tmp_path):
    with pretended(tmp_path, info=["no", "engine"]) as address:
        assert trouble(address) is EngineFault.NOT_AN_ENGINE


def test_the_capabilities_of_the_engine_are_reported(tmp_path):
    with pretended(tmp_path) as address:
        found = examine(None, Standing(NOON), base_url=address)

    assert (found.version, found.api, found.cgroup, found.live_restore) == ("24.0.7", "1.43", "2", True)
    assert found.missing_limits == ("swap",)
    assert (found.disk, found.clock_offset, found.containers) == (None, 0.0, ())


@pytest.mark.parametrize(("ours", "ahead"), [(-90, 90.0), (90, -90.0)])
def test_the_clock_difference_is_reported(tmp_path, ours, ahead):
    with pretended(tmp_path) as address:
        assert examine(None, Standing(NOON + timedelta(seconds=ours)), base_url=address).clock_offset == ahead


@pytest.mark.parametrize("time", ["", "noon", None])
def test_an_engine_without_a_time_is_accepted(tmp_path, time):
    with pretended(tmp_path, info=INFO | {"SystemTime": time}) as address:
        assert examine(None, Standing(NOON), base_url=address).clock_offset is None


@pytest.mark.docker
async def test_the_real_engine_is_reported_with_the_containers_of_the_instance(docker_engine):
    async with docker_runtime(docker_engine) as runtime, docker_runtime(docker_engine) as other:
        tag = await started(runtime, Script(seconds=None))
        await started(other, Script(seconds=None))

        found = examine(runtime._instance, SystemClock(), base_url=docker_engine)

    assert [(it.tag, it.state) for it in found.containers] == [(tag, ContainerState.RUNNING)]
    assert abs(found.clock_offset) < 1
    assert found.disk.size > 0
