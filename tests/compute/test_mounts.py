"""Which host paths a job may mount: faults.md 3 and SE09."""

import os
import stat
from contextlib import closing
from pathlib import Path

import pytest

from batchq.bootstrap import make_policy
from batchq.compute.docker import mounts
from batchq.compute.docker.policy import ServerPolicy
from batchq.domain.access.accounts import ContainerPolicy
from batchq.domain.container import Device, Mount
from batchq.errors import StartRefused
from batchq.settings import MissingHostPaths, Privileged, Settings


@pytest.fixture
def allowed(tmp_path):
    folder = tmp_path / "allowed"
    folder.mkdir()
    return folder


@pytest.fixture
def policy(allowed):
    return ServerPolicy(privileged=Privileged.ALLOW, volumes=(allowed,), private=(allowed / "data",))


def everything(**changes):
    return ServerPolicy(**{"privileged": Privileged.ALLOW, "volumes": (Path("/"),)} | changes)


def mount(path, **changes):
    return Mount(**{"container_path": "/c", "host_path": str(path)} | changes)


def resolve(it, policy, allowance=None):
    with closing(mounts.open_mount(it, policy, allowance)) as opened:
        return opened.mount


def refuses(path, policy, why):
    with pytest.raises(StartRefused, match=why) as refused:
        resolve(mount(path), policy)
    assert refused.value.certain
    assert refused.value.reason.startswith(f"CannotCreateContainerError: host path {str(path)!r} ")


def test_a_permitted_path_is_mounted(allowed, policy):
    (allowed / "here").mkdir()
    it = mount(allowed / "here", read_only=True)

    assert resolve(it, policy) == it


def test_a_file_may_be_mounted(allowed, policy):
    (allowed / "file").write_text("x")

    assert resolve(mount(allowed / "file"), policy).host_path == str(allowed / "file")


def test_a_missing_path_is_refused_if_the_server_creates_none(allowed):
    strict = ServerPolicy(privileged=Privileged.ALLOW, volumes=(allowed,), missing_host_paths=MissingHostPaths.REFUSE)

    refuses(allowed / "a" / "b", strict, "does not exist, and this server does not create host paths")
    assert list(allowed.iterdir()) == []


def test_a_missing_path_is_created_as_docker_does(allowed, policy):
    old = os.umask(0o077)
    try:
        resolve(mount(allowed / "a" / "b"), policy)
    finally:
        os.umask(old)

    assert [stat.S_IMODE(path.stat().st_mode) for path in (allowed / "a", allowed / "a" / "b")] == [0o755, 0o755]


def test_only_the_first_mount_of_a_missing_path_has_created_it(allowed, policy):
    with (
        closing(mounts.open_mount(mount(allowed / "a" / "b"), policy, None)) as first,
        closing(mounts.open_mount(mount(allowed / "a" / "b"), policy, None)) as second,
    ):
        assert (first.created, second.created) == (True, False)


def test_a_path_with_dots_is_mounted_as_its_target(allowed, policy):
    assert resolve(mount(f"{allowed}/x/../y"), policy).host_path == str(allowed / "y")


def test_a_symlink_inside_is_followed(allowed, policy):
    (allowed / "real").mkdir()
    (allowed / "link").symlink_to(allowed / "real")

    assert resolve(mount(allowed / "link" / "new"), policy).host_path == str(allowed / "real" / "new")


def test_a_permitted_path_may_be_a_symlink(tmp_path, allowed):
    (tmp_path / "link").symlink_to(allowed)
    policy = ServerPolicy(privileged=Privileged.ALLOW, volumes=(tmp_path / "link",))

    assert resolve(mount(tmp_path / "link" / "new"), policy).host_path == str(allowed / "new")


@pytest.mark.fault("SE09")
def test_a_path_outside_is_refused_and_not_created(tmp_path, policy):
    refuses(tmp_path / "other", policy, "not below a path")

    assert not (tmp_path / "other").exists()


def test_a_path_with_a_common_prefix_is_outside(tmp_path, allowed, policy):
    refuses(f"{allowed}-too", policy, "not below a path")


@pytest.mark.fault("SE09")
def test_dots_do_not_lead_outside(allowed, policy):
    refuses(f"{allowed}/../../etc", policy, "not below a path")


@pytest.mark.fault("SE09")
def test_a_symlink_does_not_lead_outside(tmp_path, allowed, policy):
    (tmp_path / "secret").mkdir()
    (allowed / "link").symlink_to(tmp_path / "secret")

    refuses(allowed / "link", policy, "not below a path")
    refuses(allowed / "link" / "new", policy, "not below a path")
    assert list((tmp_path / "secret").iterdir()) == []


@pytest.mark.fault("SE09")
def test_a_dangling_symlink_does_not_lead_outside(tmp_path, allowed, policy):
    (allowed / "link").symlink_to(tmp_path / "not-there")

    refuses(allowed / "link", policy, "not below a path")
    assert not (tmp_path / "not-there").exists()


def test_symlinks_in_a_circle_are_refused(allowed, policy):
    (allowed / "a").symlink_to(allowed / "b")
    (allowed / "b").symlink_to(allowed / "a")

    refuses(allowed / "a", policy, "cannot be used")


@pytest.mark.parametrize("path", ["", "volume", "./here", "~/there"])
def test_a_path_that_is_not_absolute_is_refused(path, policy):
    refuses(path, policy, "not an absolute path")


@pytest.mark.fault("SE09")
@pytest.mark.parametrize("path", ["data", "data/below", "."])
def test_the_data_directory_and_its_parents_are_never_mounted(allowed, policy, path):
    refuses(allowed / path, policy, "which no job may mount")


@pytest.mark.fault("CK10")
@pytest.mark.parametrize("path", [".", "data-checkpoints", "data-checkpoints/job", "linked"])
def test_the_checkpoints_of_other_jobs_are_never_mounted(tmp_path, path):
    (tmp_path / "data-checkpoints" / "job").mkdir(parents=True)
    (tmp_path / "linked").symlink_to(tmp_path / "data-checkpoints" / "job")

    refuses(tmp_path / path, make_policy(Settings(data=tmp_path / "data")), "which no job may mount")


@pytest.mark.fault("SE09")
@pytest.mark.parametrize("path", ["live/server.key", "kept/1.key", "kept", "."])
def test_the_tls_key_is_never_mounted_wherever_it_was_moved(tmp_path, path):
    (tmp_path / "live").mkdir()
    (tmp_path / "kept").mkdir()
    key = tmp_path / "live" / "server.key"
    policy = make_policy(Settings(data=tmp_path / "data", tls_key=key))
    (tmp_path / "kept" / "1.key").touch()

    key.symlink_to(tmp_path / "kept" / "1.key")

    refuses(tmp_path / path, policy, "which no job may mount")


@pytest.mark.fault("SE09")
@pytest.mark.parametrize(
    "path",
    [
        "/",
        "//",
        "/../",
        "/proc",
        "/proc/self/root",
        "/sys/fs",
        "/dev",
        "/dev/mem",
        "/run/docker.sock",
        "/var/run/docker.sock",
        "/run",
        "/var/run",
        "/run/containerd/containerd.sock",
    ],
)
def test_kernel_and_engine_paths_are_never_mounted(path):
    refuses(path, everything(), "which no job may mount")


@pytest.mark.fault("SE09")
def test_a_socket_of_the_engine_elsewhere_is_never_mounted(tmp_path):
    socket = tmp_path / "engine" / "docker.sock"

    refuses(socket, everything(private=(socket,)), "which no job may mount")
    refuses(socket.parent, everything(private=(socket,)), "which no job may mount")


@pytest.mark.fault("SE43")
@pytest.mark.parametrize("name", ["secrets_file", "tls_cert", "tls_key", "config"])
def test_files_with_secrets_of_the_server_are_never_mounted(monkeypatch, tmp_path, name):
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    file = tmp_path / "batchq" / "config.toml"
    file.parent.mkdir()
    file.touch()
    policy = make_policy(Settings(data=tmp_path / "data", **({} if name == "config" else {name: file})))

    refuses(file, policy, f"is, contains or is below {file}")
    refuses(file.parent, policy, f"is, contains or is below {file}")


def test_a_path_below_a_file_cannot_be_created(allowed, policy):
    (allowed / "file").write_text("x")

    refuses(allowed / "file" / "below", policy, "cannot be used")


def test_a_path_that_is_invalid_on_the_disk_is_refused(policy, allowed):
    refuses(f"{allowed}/a\0b", policy, "cannot be used")
    refuses(f"{allowed}/{'x' * 300}", policy, "cannot be used")


@pytest.mark.fault("SE09")
def test_without_permitted_paths_nothing_is_mounted(allowed):
    refuses(allowed, everything(volumes=()), "not below a path")


@pytest.mark.fault("SE09")
def test_an_account_may_mount_less_than_the_server_permits(allowed, policy):
    (allowed / "lab").mkdir()
    (allowed / "lab" / "out").symlink_to(allowed / "other")
    lab = ContainerPolicy(volumes=(f"{allowed}/lab",))

    assert resolve(mount(allowed / "lab" / "new"), policy, lab).host_path == f"{allowed}/lab/new"
    with pytest.raises(StartRefused, match="not below a path that its account permits") as refused:
        resolve(mount(allowed / "lab" / "out"), policy, lab)
    assert refused.value.forbidden
    assert not (allowed / "other").exists()


@pytest.mark.fault("SE09")
def test_a_device_link_is_resolved(tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "disk").touch()
    (tmp_path / "mine" / "link").symlink_to(tmp_path / "disk")
    device = Device(host_path=f"{tmp_path}/mine/link", container_path="/dev/x")

    mounts.check_device(device, ContainerPolicy(devices=(f"{tmp_path}/disk",)))
    with pytest.raises(StartRefused, match="is not allowed for its account"):
        mounts.check_device(device, ContainerPolicy(devices=(f"{tmp_path}/mine",)))
