"""Which host paths a job may mount: faults.md 3 and SE09."""

import os
import stat
from contextlib import closing
from functools import partial
from pathlib import Path

import pytest

from batchq.compute.docker import mounts
from batchq.compute.docker.policy import ServerPolicy
from batchq.domain.access.accounts import ContainerPolicy
from batchq.domain.container import Device, Mount
from batchq.errors import StartRefused
from batchq.server.runtimes import make_policy
from batchq.settings import MissingHostPaths, Privileged, Settings


@pytest.fixture
def allowed(tmp_path):
    folder = tmp_path / "allowed"
    folder.mkdir()
    return folder


@pytest.fixture
def policy(allowed):
    return creating(allowed, private=(allowed / "data",))


def creating(*volumes, **changes):
    """The policy of a server that creates missing host paths, which could do more harm than one that refuses them."""
    create = MissingHostPaths.CREATE
    return ServerPolicy(privileged=Privileged.ALLOW, volumes=volumes, missing_host_paths=create, **changes)


def everything(**changes):
    return creating(*changes.pop("volumes", (Path("/"),)), **changes)


def mount(path, **changes):
    return Mount(**{"container_path": "/c", "host_path": str(path)} | changes)


def resolve(value, policy, *allowances):
    with closing(mounts.open_mount(value, policy, allowances)) as opened:
        return opened.mount


def refuses(path, policy, why):
    with pytest.raises(StartRefused, match=why) as refused:
        resolve(mount(path), policy)
    assert refused.value.certain
    assert refused.value.reason.startswith(f"CannotCreateContainerError: host path {str(path)!r} ")


@pytest.mark.parametrize(
    ("path", "real"),
    [("folder", "folder"), ("file", "file"), ("x/../y", "y"), ("link", "folder"), ("link/new", "folder/new")],
)
def test_a_permitted_path_is_mounted_as_its_target(allowed, policy, path, real):
    (allowed / "folder").mkdir()
    (allowed / "file").touch()
    (allowed / "link").symlink_to(allowed / "folder")

    mounted = resolve(mount(f"{allowed}/{path}", read_only=True), policy)

    assert mounted == mount(f"{allowed}/{real}", read_only=True)


@pytest.mark.fault("SE09", "SE80")
@pytest.mark.parametrize(
    ("path", "why"),
    [
        ("{allowed}/../other", "not below a path"),
        ("{allowed}-too", "not below a path"),
        ("{allowed}/../../etc", "not below a path"),
        ("{allowed}/out", "not below a path"),
        ("{allowed}/out/new", "not below a path"),
        ("{allowed}/dangling", "not below a path"),
        ("{allowed}/circle", "cannot be used"),
        ("{allowed}/file/below", "cannot be used"),
        ("{allowed}/a\0b", "cannot be used"),
        ("{allowed}/" + "x" * 300, "cannot be used"),
        ("", "not an absolute path"),
        ("volume", "not an absolute path"),
        ("./here", "not an absolute path"),
        ("~/there", "not an absolute path"),
        ("{allowed}/data", "which no job may mount"),
        ("{allowed}/data/below", "which no job may mount"),
        ("{allowed}/.", "which no job may mount"),
    ],
)
def test_other_paths_are_refused_and_nothing_is_created(tmp_path, allowed, policy, path, why):
    (tmp_path / "secret").mkdir()
    (allowed / "file").touch()
    for name, target in (("out", tmp_path / "secret"), ("dangling", tmp_path / "none"), ("circle", allowed / "circle")):
        (allowed / name).symlink_to(target)
    before = sorted(tmp_path.rglob("*"))

    refuses(path.format(allowed=allowed), policy, why)

    assert sorted(tmp_path.rglob("*")) == before


def test_a_missing_path_is_refused_by_default(allowed):
    by_default = make_policy(Settings(volumes=(allowed,)))

    refuses(allowed / "a" / "b", by_default, "does not exist: create it, or submit the job with --create-host-paths")
    assert list(allowed.iterdir()) == []
    resolve(mount(allowed / "a" / "b", create=True), by_default)
    assert (allowed / "a" / "b").is_dir()


def test_a_server_with_the_option_creates_missing_paths(allowed):
    settings = Settings(volumes=(allowed,), missing_host_paths=MissingHostPaths.CREATE)

    resolve(mount(allowed / "a" / "b"), make_policy(settings))

    assert (allowed / "a" / "b").is_dir()


def test_a_path_that_must_exist_is_refused_where_the_server_creates_others(allowed, policy):
    with pytest.raises(StartRefused, match="does not exist"):
        resolve(mount(allowed / "a", must_exist=True), policy)

    assert list(allowed.iterdir()) == []


def test_a_missing_path_of_a_mount_that_creates_it_is_created(allowed):
    with closing(
        mounts.open_mount(
            mount(allowed / "a", create=True), ServerPolicy(privileged=Privileged.ALLOW, volumes=(allowed,)), []
        )
    ) as opened:
        assert opened.created

    assert [path.name for path in allowed.iterdir()] == ["a"]


def test_a_missing_path_is_created_as_docker_does(allowed, policy):
    old = os.umask(0o077)
    try:
        resolve(mount(allowed / "a" / "b"), policy)
    finally:
        os.umask(old)

    assert [stat.S_IMODE(path.stat().st_mode) for path in (allowed / "a", allowed / "a" / "b")] == [0o755, 0o755]


def test_only_the_first_mount_of_a_missing_path_has_created_it(allowed, policy):
    with (
        closing(mounts.open_mount(mount(allowed / "a" / "b"), policy, ())) as first,
        closing(mounts.open_mount(mount(allowed / "a" / "b"), policy, ())) as second,
    ):
        assert (first.created, second.created) == (True, False)


def test_a_permitted_path_may_be_a_symlink(tmp_path, allowed):
    (tmp_path / "link").symlink_to(allowed)
    policy = creating(tmp_path / "link")

    assert resolve(mount(tmp_path / "link" / "new"), policy).host_path == str(allowed / "new")


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
        "/run/podman/podman.sock",
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


SOCKET = Path("/srv/engine.sock")
PERMITS_SOCKET = {"private": (SOCKET,), "socket": SOCKET, "engine_socket": True}


@pytest.mark.parametrize("open_one", [mounts.open_mount, mounts.mount_by_name])
@pytest.mark.parametrize("path", ["/var/run/docker.sock", "/run/docker.sock", "/run/podman/podman.sock", str(SOCKET)])
def test_the_socket_of_the_engine_is_mounted_where_server_and_account_permit_it(open_one, path):
    opened = partial(open_one, mount(path), everything(**PERMITS_SOCKET))

    assert opened([]).mount.host_path == str(SOCKET)
    assert opened([ContainerPolicy(engine_socket=True)]).mount.host_path == str(SOCKET)
    with pytest.raises(StartRefused, match="not permitted by the job's accounts"):
        opened([ContainerPolicy(volumes=("/",))])
    with pytest.raises(StartRefused, match="which no job may mount on this server"):
        open_one(mount(path), everything(private=(SOCKET,), socket=SOCKET), [ContainerPolicy(engine_socket=True)])


@pytest.mark.parametrize("open_one", [mounts.open_mount, mounts.mount_by_name])
def test_the_data_root_of_the_engine_is_mounted_only_where_its_socket_is_permitted(open_one, tmp_path):
    """Toil mounts both. A job with the socket can mount the data root by it."""
    root = tmp_path / "docker"
    root.mkdir()

    opened = open_one(
        mount(root), everything(**PERMITS_SOCKET, data_root=root), [ContainerPolicy(engine_socket=True, volumes=("/",))]
    )

    assert opened.mount.host_path == str(root)
    for policy, allowances in (
        (everything(data_root=root), []),
        (everything(**PERMITS_SOCKET, data_root=root), [ContainerPolicy(volumes=("/",))]),
    ):
        with pytest.raises(StartRefused, match="which no job may mount"):
            open_one(mount(root), policy, allowances)


def test_the_socket_of_a_remote_engine_is_not_mounted():
    refuses("/var/run/docker.sock", everything(engine_socket=True), "not reached by a unix socket")


@pytest.mark.parametrize("path", ["/run", "/srv", "/run/podman"])
def test_a_folder_of_the_socket_is_never_mounted(path):
    refuses(path, everything(**PERMITS_SOCKET), "which no job may mount")


def test_a_container_with_the_socket_is_refused_once_the_server_permits_it_no_more():
    mounts.check_name(str(SOCKET), SOCKET, everything(**PERMITS_SOCKET), [])
    with pytest.raises(StartRefused, match="--engine-socket"):
        mounts.check_name(str(SOCKET), SOCKET, everything(private=(SOCKET,), socket=SOCKET), [])


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


@pytest.mark.fault("SE09")
def test_without_permitted_paths_nothing_is_mounted(allowed):
    refuses(allowed, everything(volumes=()), "not below a path")


@pytest.mark.fault("SE09")
def test_an_account_may_mount_less_than_the_server_permits(allowed, policy):
    (allowed / "lab").mkdir()
    (allowed / "lab" / "out").symlink_to(allowed / "other")
    lab = ContainerPolicy(volumes=(f"{allowed}/lab",))

    assert resolve(mount(allowed / "lab" / "new"), policy, lab).host_path == f"{allowed}/lab/new"
    with pytest.raises(StartRefused, match="not below a path that the accounts of the job permit") as refused:
        resolve(mount(allowed / "lab" / "out"), policy, lab)
    assert refused.value.forbidden
    assert not (allowed / "other").exists()


@pytest.mark.fault("SE09")
def test_a_device_link_is_resolved(tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "disk").touch()
    (tmp_path / "mine" / "link").symlink_to(tmp_path / "disk")
    device = Device(host_path=f"{tmp_path}/mine/link", container_path="/dev/x")

    mounts.check_device(device, [ContainerPolicy(devices=(f"{tmp_path}/disk",))])
    with pytest.raises(StartRefused, match="is not allowed for the accounts of the job"):
        mounts.check_device(device, [ContainerPolicy(devices=(f"{tmp_path}/mine",))])


@pytest.mark.fault("SE60")
def test_each_policy_of_a_job_must_permit_a_path_and_a_device(allowed, policy, tmp_path):
    (allowed / "lab").mkdir()
    lab, all_of_it = ContainerPolicy(volumes=(f"{allowed}/lab",)), ContainerPolicy(volumes=(str(allowed),))
    device = Device(host_path=str(tmp_path), container_path="/dev/x")
    disk = ContainerPolicy(devices=(str(tmp_path),))

    assert resolve(mount(allowed / "lab" / "new"), policy, lab, all_of_it).host_path == f"{allowed}/lab/new"
    for policies in ((lab, all_of_it), (all_of_it, lab)):
        with pytest.raises(StartRefused, match="not below a path"):
            resolve(mount(allowed / "other"), policy, *policies)
    mounts.check_device(device, [disk, disk])
    for policies in ((disk, ContainerPolicy()), (ContainerPolicy(), disk)):
        with pytest.raises(StartRefused, match="is not allowed"):
            mounts.check_device(device, policies)
