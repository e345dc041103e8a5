"""Whether containers ended with their engine or machine (EN05, TM01), and the facts about the engine for the doctor."""

import json
import os
import socket
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta

import pytest
from docker.errors import APIError, NotFound

from batchq.compute import shared
from batchq.compute.docker import host
from batchq.compute.docker.host import examine_engine
from batchq.doctor.facts import RuntimeFault, UnavailableRuntime
from batchq.ports.runtime import ContainerState, Inspection
from batchq.system.clock import SystemClock
from tests.support.builders import NOON
from tests.support.containers import docker_runtime, new_tag, started
from tests.support.fake_engine import api_error, engine, responds
from tests.support.scripts import Script

BOOTED, BEGAN, NOW = (datetime(2026, 11, 21, hour, tzinfo=UTC) for hour in (8, 10, 12))
BEFORE, AFTER = BEGAN - timedelta(minutes=1), BEGAN + timedelta(minutes=1)


class Client:
    """An engine that started at a time, by its default bridge; other members of /info may be given."""

    def __init__(self, began: datetime | None = BEGAN, **info: object) -> None:
        self._began = began
        self._info = {"InitBinary": "docker-init", "SystemTime": NOW.isoformat(), "LiveRestoreEnabled": False} | info

    is_local = True

    def inspect_network(self, name):
        if self._began is None:
            raise api_error(404, f"network {name} not found", NotFound)
        return {"Created": self._began.isoformat()}

    def info(self):
        return self._info

    def subscribe(self, filters, *, since, until):
        """The creation of the container `remembered`. Docker refuses a range that ends before it begins."""
        assert (filters["event"], float(since) < float(until)) == ("create", True)
        return (event for event in ({"id": self.remembered},) if event["id"] == filters["container"])

    remembered = ""


#: Recorded from Docker 20.10 on a machine with cgroups of version 1 and 2.
V1_INFO = {"CgroupDriver": "cgroupfs", "CgroupVersion": "1", "KernelMemory": True, "OomKillDisable": True}
#: Not recorded: the members of version 2 by the documentation of Docker's API 1.41, and its warnings left out.
V2_INFO = {"CgroupDriver": "systemd", "CgroupVersion": "2", "KernelMemory": False, "OomKillDisable": False}
#: As before version 20.10 of Docker: without CgroupVersion.
OLD_INFO = {"CgroupDriver": "cgroupfs", "KernelMemory": True, "OomKillDisable": True}
#: Recorded from Podman 5.4.2 on a machine with cgroups of version 1, as root and rootless. Podman 4.3.1 replies so too.
PODMAN_INFO = {
    "CgroupDriver": "cgroupfs",
    "CgroupVersion": "1",
    "MemoryLimit": True,
    "SwapLimit": True,
    "PidsLimit": True,
    "SecurityOptions": ["name=seccomp,profile=default"],
    "Rootless": False,
}
ROOTLESS_PODMAN_INFO = PODMAN_INFO | {
    "SecurityOptions": ["name=seccomp,profile=default", "name=rootless"],
    "Rootless": True,
}
#: Recorded from Docker 26.1.5, rootless, on the same machine.
ROOTLESS_DOCKER_INFO = {
    "CgroupDriver": "none",
    "CgroupVersion": "1",
    "MemoryLimit": False,
    "SwapLimit": False,
    "PidsLimit": False,
    "SecurityOptions": ["name=seccomp,profile=builtin", "name=rootless"],
}


@pytest.mark.parametrize(("info", "is_supported"), [(V1_INFO, True), (V2_INFO, False)])
def test_swappiness_is_supported_except_by_cgroups_of_version_2(info, is_supported):
    assert host.supports_swappiness(Client(**info)) is is_supported


@pytest.mark.parametrize(
    ("info", "is_local", "has_unified_cgroups", "version"),
    [
        (OLD_INFO, True, True, "2"),
        (OLD_INFO, True, False, "1"),
        (OLD_INFO, False, True, None),
        (PODMAN_INFO, True, True, "1"),
        (V2_INFO, True, False, "2"),
    ],
)
def test_the_version_of_cgroups_is_that_of_the_machine_if_the_engine_does_not_report_it(
    tmp_path, info, is_local, has_unified_cgroups, version
):
    controllers = tmp_path / "cgroup.controllers"
    if has_unified_cgroups:
        controllers.write_text("cpuset cpu io memory pids\n")

    assert host.cgroup_version(info, is_local=is_local, controllers=controllers) == version


@pytest.mark.parametrize(
    ("info", "is_rootless", "missing"),
    [
        (PODMAN_INFO, False, ()),
        (ROOTLESS_PODMAN_INFO, True, ("memory", "swap", "the number of processes")),
        (ROOTLESS_DOCKER_INFO, True, ("memory", "swap", "the number of processes")),
        (ROOTLESS_PODMAN_INFO | {"CgroupVersion": "2"}, True, ()),
    ],
)
def test_a_rootless_engine_has_no_limits_with_cgroups_of_version_1(info, is_rootless, missing):
    assert host.is_rootless(info) is is_rootless
    assert host.missing_limits(info, host.cgroup_version(info, is_local=True)) == missing


def made(at):
    return {"Id": "1", "Created": at.isoformat(), "State": {"Status": "created"}}


def failed(began, exit_code=255, *, lasted=timedelta(seconds=1), **members):
    times = {"started_at": began, "stopped_at": began + lasted}
    return Inspection(tag=new_tag(), state=ContainerState.EXITED, exit_code=exit_code, **times, **members)


@pytest.mark.parametrize(("live_restore", "lost_before"), [(False, BEGAN), (True, BOOTED)])
def test_with_live_restore_containers_survive_the_engine_and_not_the_machine(live_restore, lost_before):
    assert host.lost_before(Client(LiveRestoreEnabled=live_restore), BOOTED, set()) == lost_before


@pytest.mark.fault("EN03")
@pytest.mark.parametrize(
    ("ended", "lost_before"),
    [
        (failed(BEFORE, exit_code=143), BEGAN),
        (failed(BEFORE, exit_code=137), BEGAN),
        (failed(BEFORE, exit_code=1), BOOTED),
        (failed(BEFORE, exit_code=137, lasted=timedelta(minutes=1)), BOOTED),
        (failed(BEFORE, exit_code=137, out_of_memory=True), BOOTED),
    ],
    ids=["SIGTERM", "SIGKILL", "an exit code of its own", "long after the start", "out of memory"],
)
def test_an_engine_with_live_restore_may_have_stopped_a_container_in_its_start(ended, lost_before):
    assert host.lost_before(Client(LiveRestoreEnabled=True), BOOTED, set(), ended=ended) == lost_before


@pytest.mark.parametrize(
    ("client", "booted_at"),
    [
        (Client(None), BOOTED),
        (Client(LiveRestoreEnabled=True), None),
        (Client(InitBinary=""), BOOTED),
        (Client(NOW + timedelta(hours=1)), BOOTED),
        (Client(datetime(1, 1, 1, tzinfo=UTC)), BOOTED),
    ],
    ids=["no bridge", "another machine", "another engine", "clock set back", "no time"],
)
def test_an_unknown_time_proves_no_loss_of_the_host(client, booted_at):
    assert host.lost_before(client, booted_at, set()) is None


@pytest.mark.fault("TM01")
def test_a_clock_set_back_proves_no_loss_of_the_host():
    unreliable = set()
    host.lost_before(Client(NOW + timedelta(hours=1)), BOOTED, unreliable)

    later = Client(NOW + timedelta(hours=1), SystemTime=(NOW + timedelta(hours=2)).isoformat())

    assert host.lost_before(later, BOOTED, unreliable) is None


@pytest.mark.fault("CO03")
@pytest.mark.parametrize(
    ("members", "engine_id"),
    [
        ({"ID": "ABCD", "DockerRootDir": "/var/lib/docker"}, "ABCD /var/lib/docker"),
        ({"ID": "ABCD", "DockerRootDir": "/data/docker"}, "ABCD /data/docker"),
        ({"ID": "ABCD"}, "ABCD"),
        ({"ID": "random", "InitBinary": "", "DockerRootDir": "/var/lib/containers"}, None),
        ({"ID": "", "DockerRootDir": "/var/lib/docker"}, None),
        ({}, None),
    ],
    ids=["Docker", "another data root", "no data root", "Podman", "empty", "none"],
)
def test_a_lasting_id_and_the_data_root_identify_an_engine(members, engine_id):
    assert host.identity(Client(**members)).id == engine_id


class Failing(Client):
    """An engine that replies to the request for the network with this status."""

    def __init__(self, status):
        super().__init__()
        self._status = status

    def inspect_network(self, _):
        raise api_error(self._status, "forbidden by administrative rules")


@pytest.mark.parametrize("status", [403, 404, 405])
def test_an_unreadable_engine_proves_no_loss_of_the_host(status):
    assert host.lost_before(Failing(status), BOOTED, set()) is None


def test_an_error_of_the_engine_is_raised():
    with pytest.raises(APIError):
        host.lost_before(Failing(500), BOOTED, set())


@pytest.mark.fault("EN05")
@pytest.mark.parametrize(
    ("found", "before", "lost"),
    [
        (failed(BEFORE), BEGAN, True),
        (failed(AFTER), BEGAN, False),
        (failed(BEGAN), BEGAN, False),
        (failed(BEFORE), None, False),
        (failed(BEFORE, exit_code=0), BEGAN, False),
        (Inspection(tag=new_tag(), state=ContainerState.RUNNING, started_at=BEFORE), BEGAN, False),
    ],
    ids=["began before", "began after", "began just then", "unknown", "success", "runs"],
)
def test_a_container_that_failed_and_started_before_was_lost_with_the_host(found, before, lost):
    assert shared.ended_with_host(found, before) is lost


@pytest.mark.fault("EN02")
@pytest.mark.parametrize("live_restore", [False, True])
def test_an_engine_that_remembers_a_creation_has_not_ended_since(live_restore):
    client = Client(LiveRestoreEnabled=live_restore)
    client.remembered = "1"

    assert not host.ended_since_create(client, made(BEFORE))


@pytest.mark.fault("EN02")
@pytest.mark.parametrize(("at", "ended"), [(BEFORE, True), (AFTER, False)])
def test_without_the_event_of_the_creation_the_bridge_decides(at, ended):
    assert host.ended_since_create(Client(), made(at)) is ended


@pytest.mark.parametrize(
    "client",
    [Client(None), Client(LiveRestoreEnabled=True), Client(SystemTime=BEFORE.isoformat())],
    ids=["no bridge", "live-restore", "clock set back"],
)
def test_without_a_proof_the_engine_counts_as_ended(client):
    assert host.ended_since_create(client, made(AFTER))


def test_an_engine_other_than_docker_counts_as_not_ended():
    assert not host.ended_since_create(Client(InitBinary=""), made(BEFORE))


@pytest.mark.parametrize(
    ("text", "booted_at"),
    [
        ("cpu 1 2 3\nbtime 1795219200\nprocesses 5\n", datetime(2026, 11, 21, tzinfo=UTC)),
        ("", None),
        ("btime\n", None),
        ("btime soon\n", None),
        ("btime 99999999999999999999\n", None),
    ],
    ids=repr,
)
def test_the_time_of_the_boot_is_read_from_the_kernel(tmp_path, text, booted_at):
    (tmp_path / "stat").write_text(text)

    assert host.booted_at(tmp_path / "stat") == booted_at
    assert host.booted_at(tmp_path / "none") is None
    assert host.booted_at(tmp_path) is None


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


class StoppedClock:
    """A clock that always shows the same time."""

    def __init__(self, at):
        self._at = at

    def now(self):
        return self._at


@contextmanager
def fake_engine(folder, info=INFO):
    """An engine with these replies to /version and /info; its address."""
    replies = {"version": VERSION, "info": info}

    def answer(handler):
        body = json.dumps(replies[handler.path.rpartition("/")[2]]).encode()
        responds(200, body, speaks_version=False)(handler)

    with engine(folder, answer) as address:
        yield address


def fault_at(address):
    found = examine_engine("0a1b2c3d", SystemClock(), base_url=address)
    assert isinstance(found, UnavailableRuntime), found
    assert found.address == address
    return found.fault


def test_no_engine_exists(tmp_path):
    assert fault_at(f"unix://{tmp_path}/none.sock") is RuntimeFault.ABSENT


def test_nothing_listens_at_the_socket(tmp_path):
    with socket.socket(socket.AF_UNIX) as left_over:
        left_over.bind(f"{tmp_path}/engine.sock")

    assert fault_at(f"unix://{tmp_path}/engine.sock") is RuntimeFault.NOT_LISTENING


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become a user without permissions")
def test_the_user_has_no_permission(tmp_path):
    with fake_engine(tmp_path) as address:
        (tmp_path / "engine.sock").chmod(0o600)
        os.seteuid(65534)
        try:
            kind = host._connect_failure(address, address.removeprefix("unix://")).fault
        finally:
            os.seteuid(0)

    assert kind is RuntimeFault.FORBIDDEN


def test_the_engine_accepts_connections_and_does_not_answer(tmp_path, monkeypatch):
    monkeypatch.setattr(host, "EXAMINE_TIMEOUT", 0.2)
    with socket.socket(socket.AF_UNIX) as silent:
        silent.bind(f"{tmp_path}/engine.sock")
        silent.listen()

        assert fault_at(f"unix://{tmp_path}/engine.sock") is RuntimeFault.NOT_RESPONDING


def test_the_responder_is_no_engine(tmp_path):
    with fake_engine(tmp_path, ["no", "engine"]) as address:
        assert fault_at(address) is RuntimeFault.NOT_AN_ENGINE


def test_the_capabilities_of_the_engine_are_reported(tmp_path):
    with fake_engine(tmp_path) as address:
        found = examine_engine(None, StoppedClock(NOON), base_url=address)

    assert (found.version, found.api, found.cgroup, found.live_restore) == ("24.0.7", "1.43", "2", True)
    assert found.missing_limits == ("swap",)
    assert (found.disk, found.clock_offset, found.containers) == (None, 0.0, ())


@pytest.mark.parametrize(
    ("time", "ahead"),
    [
        ((NOON + timedelta(seconds=90)).isoformat(), 90.0),
        ((NOON - timedelta(seconds=90)).isoformat(), -90.0),
        ("", None),
        ("noon", None),
        (None, None),
    ],
)
def test_the_clock_difference_is_reported(tmp_path, time, ahead):
    with fake_engine(tmp_path, INFO | {"SystemTime": time}) as address:
        assert examine_engine(None, StoppedClock(NOON), base_url=address).clock_offset == ahead


@pytest.mark.docker
async def test_the_real_engine_is_reported_with_the_containers_of_the_instance(docker_engine):
    async with docker_runtime(docker_engine) as runtime, docker_runtime(docker_engine) as other:
        tag = await started(runtime, Script(seconds=None))
        await started(other, Script(seconds=None))

        found = examine_engine(runtime._instance, SystemClock(), base_url=docker_engine)

    assert [(container.tag, container.state) for container in found.containers] == [(tag, ContainerState.RUNNING)]
    assert abs(found.clock_offset) < 1
    assert found.disk.size > 0
