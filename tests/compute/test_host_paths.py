"""Attacks on host paths between a check and the use after it: SE19, SE20, SE41."""

import os
import shutil
import stat
import subprocess
import sys
from contextlib import closing, suppress
from pathlib import Path

import pytest

from batchq.compute.docker import mounts
from batchq.compute.docker.host_paths import Descriptor
from batchq.compute.docker.policy import ServerPolicy
from batchq.domain.access.accounts import ContainerPolicy
from batchq.domain.container import Mount
from batchq.errors import StartRefused
from batchq.settings import Privileged
from tests.support.exchange import exchange, exchanging

TRIES = 300


@pytest.fixture
def outside(tmp_path):
    folder = tmp_path / "outside"
    (folder / "there").mkdir(parents=True, mode=0o700)
    return folder


@pytest.fixture
def lab(tmp_path, outside):
    """The folder of an account, in it a folder and a symlink that leads out of it."""
    folder = tmp_path / "lab"
    (folder / "p").mkdir(parents=True)
    (folder / "q").symlink_to(outside)
    return folder


def opened(path, lab, **changes):
    policy = ServerPolicy(**{"privileged": Privileged.REFUSE, "volumes": (lab.parent,)} | changes)
    mount = Mount(container_path="/m", host_path=str(path), create=True)
    return mounts.open_mount(mount, policy, [ContainerPolicy(volumes=(str(lab),))])


def names_in(folder):
    return sorted(path.name for path in Path(folder).iterdir())


def untouched(outside):
    return names_in(outside) == ["there"] and stat.S_IMODE((outside / "there").stat().st_mode) == 0o700


@pytest.mark.fault("SE20")
@pytest.mark.parametrize("when", ["before", "after"])
def test_a_folder_replaced_around_mkdir_changes_nothing_outside(monkeypatch, lab, outside, when):
    mkdir = os.mkdir

    def attacked(path, *arguments, **options):
        if when == "before":
            exchange(lab / "p", lab / "q")
        mkdir(path, *arguments, **options)
        if when == "after":
            exchange(lab / "p", lab / "q")

    monkeypatch.setattr(os, "mkdir", attacked)
    with suppress(StartRefused):
        opened(lab / "p" / ("new" if when == "before" else "there"), lab).close()

    assert untouched(outside)


@pytest.mark.fault("SE19")
@pytest.mark.fault("SE20")
def test_replacing_paths_opens_creates_and_changes_nothing_outside(lab, outside):
    seen = set()
    with exchanging(lab / "p", lab / "q"):
        for number in range(TRIES):
            with suppress(StartRefused), closing(opened(lab / "p" / f"new{number}", lab)) as spec:
                seen.add(spec.folder.path.parent)

    assert seen
    assert {path.parent for path in seen} == {lab}
    assert untouched(outside)


@pytest.mark.fault("SE19")
def test_a_permitted_path_replaced_by_another_account_is_not_followed(lab, outside):
    """The folder given to one account lies in that of another, whose job has put a symlink in its place."""
    team = ContainerPolicy(volumes=(str(lab / "q"),))
    policy = ServerPolicy(privileged=Privileged.REFUSE, volumes=(lab.parent,), given=lambda: [str(lab), *team.volumes])

    with pytest.raises(StartRefused, match="not below a path that the accounts of the job permit"):
        mounts.open_mount(Mount(container_path="/m", host_path=f"{lab}/q/there"), policy, [team])


@pytest.mark.fault("SE19")
def test_a_file_that_a_job_can_replace_is_not_mounted_by_its_name(lab):
    """The engine mounts open folders alone, so a file is looked up by its name again."""
    file = lab / "file"
    file.touch()

    with pytest.raises(StartRefused, match="mount the whole folder") as refused:
        opened(file, lab, given=lambda: [str(lab)])
    assert refused.value.forbidden
    assert opened(file, lab, given=lambda: [str(file)]).folder is None


@pytest.mark.fault("SE19")
def test_an_engine_with_other_files_mounts_only_the_given_paths(lab):
    policy = ServerPolicy(privileged=Privileged.REFUSE, volumes=(lab.parent,), given=lambda: [str(lab)])
    mount, below = (Mount(container_path="/m", host_path=str(path)) for path in (lab, lab / "p"))

    assert mounts.mount_by_name(mount, policy, [ContainerPolicy(volumes=(str(lab),))]).mount == mount
    with pytest.raises(StartRefused, match="in a folder that jobs can change"):
        mounts.mount_by_name(below, policy, [ContainerPolicy(volumes=(str(lab),))])


@pytest.mark.parametrize("names", [("a",), ("a", "b")])
def test_descriptors_are_closed_whatever_fails(monkeypatch, lab, names):
    before = names_in("/proc/self/fd")
    monkeypatch.setattr(os, "fchmod", lambda *_: os.open("/not/there", os.O_RDONLY))

    with pytest.raises(StartRefused, match="cannot be used"):
        opened(lab.joinpath("p", *names), lab)

    assert names_in("/proc/self/fd") == before


IN_A_MOUNT_NAMESPACE = """
import sys
from pathlib import Path
from tests.compute.test_host_paths import opened
from batchq.errors import StartRefused

lab, private = map(Path, sys.argv[1:3])
for path in sys.argv[3:]:
    try:
        opened(path, lab, private=(private,)).close()
        print("mounted")
    except StartRefused as refused:
        print(refused.reason.partition(", ")[2])
"""


@pytest.mark.process
@pytest.mark.fault("SE41")
@pytest.mark.skipif(os.geteuid() != 0 or shutil.which("unshare") is None, reason="mounts need root and unshare")
def test_a_bind_mount_of_the_data_directory_is_never_mounted(lab, tmp_path):
    data = tmp_path / "data"
    for folder in (data / "logs", lab / "all", lab / "deep" / "some", lab / "fine"):
        folder.mkdir(parents=True)
    mounting = f"mount --bind {data} {lab}/all && mount --bind {data}/logs {lab}/deep/some"
    paths = [str(lab / text) for text in ("all", "deep/some", "deep", "all/logs", "fine")]
    inside = [sys.executable, "-c", IN_A_MOUNT_NAMESPACE, str(lab), str(data), *paths]

    shell = ["unshare", "--mount", "sh", "-ec", f'{mounting}; exec "$@"', "sh", *inside]
    seen = subprocess.run(shell, capture_output=True, text=True, check=True)

    never = f"contains or is below {data}, which no job may mount"
    assert seen.stdout.splitlines() == [never] * 4 + ["mounted"]


@pytest.mark.process
@pytest.mark.fault("SE41")
@pytest.mark.skipif(os.geteuid() != 0 or shutil.which("unshare") is None, reason="mounts need root and unshare")
def test_another_mount_of_proc_is_never_mounted(lab, tmp_path):
    (lab / "chroot" / "proc").mkdir(parents=True)
    paths = [str(lab / text) for text in ("chroot/proc", "chroot/proc/1", "chroot", "p")]
    inside = [sys.executable, "-c", IN_A_MOUNT_NAMESPACE, str(lab), str(tmp_path / "data"), *paths]

    shell = ["unshare", "--mount", "sh", "-ec", f'mount -t proc proc {lab}/chroot/proc; exec "$@"', "sh", *inside]
    seen = subprocess.run(shell, capture_output=True, text=True, check=True)

    never = "contains or is below a proc file system of the kernel, which no job may mount"
    assert seen.stdout.splitlines() == [never] * 3 + ["mounted"]


def test_the_descriptor_of_a_removed_folder_has_no_path(lab):
    with closing(Descriptor(os.open(lab / "p", os.O_PATH))) as spec:
        (lab / "p").rmdir()

        with pytest.raises(FileNotFoundError):
            _ = spec.path
