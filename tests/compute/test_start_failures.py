"""A failed start is about the program, the host, or neither, as real engines word it."""

import pytest

from batchq.compute.docker.errors import is_about_host, is_about_program, start_error
from batchq.errors import StartRefused
from batchq.ports.runtime import ContainerState
from tests.compute.test_docker_errors import answer
from tests.support.containers import docker_runtime, launch
from tests.support.second_engine import second_engine

RUNC = "failed to create shim task: OCI runtime create failed: runc create failed: unable to start container process: "
RUNC_24 = f"failed to create task for container: {RUNC}error during container init: "
RUNC_1_0 = "OCI runtime create failed: container_linux.go:380: starting container process caused: "
RUNC_0_1 = 'OCI runtime create failed: container_linux.go:348: starting container process caused "'
ID = "7d6e50d4" * 8
NO_LOG = (
    "failed to create shim task: OCI runtime create failed: unable to retrieve OCI runtime error "
    f"(open /run/containerd/io.containerd.runtime.v2.task/moby/{ID}/log.json: no such file or directory): "
)

PROGRAM = [
    RUNC + 'exec: "nosuch": executable file not found in $PATH: unknown',
    RUNC + 'exec: "/no/such": stat /no/such: no such file or directory: unknown',
    RUNC + 'exec: "/etc": permission denied: unknown',
    RUNC
    + 'exec: "unable to apply cgroup configuration: mkdir /sys/fs": stat unable to: no such file or directory: unknown',
    RUNC_24 + 'exec: "nosuch": executable file not found in $PATH: unknown',
    RUNC_1_0 + 'exec: "nosuch": executable file not found in $PATH: unknown',
    RUNC_0_1 + 'exec: \\"nosuch\\": executable file not found in $PATH": unknown',
    "OCI runtime create failed: crun: executable file `nosuch` not found in $PATH: No such file or directory: unknown",
]
HOST = [
    RUNC
    + "unable to apply cgroup configuration: mkdir /sys/fs/cgroup/cpuset/docker: no such file or directory: unknown",
    RUNC
    + 'unable to apply cgroup configuration: cannot enter cgroupv2 "/sys/fs/cgroup/docker" with domain controllers',
    RUNC_1_0 + "process_linux.go:508: applying cgroup configuration for process caused: mountpoint not found: unknown",
    RUNC_0_1
    + 'process_linux.go:279: applying cgroup configuration for process caused \\"mountpoint not found\\"": unknown',
    "cgroups: cgroup mountpoint does not exist: unknown",
    "cgroups: cannot find cgroup mount destination: unknown",
    RUNC_24
    + "error running hook #0: error running hook: exit status 1, stdout: , stderr: Auto-detected mode as 'legacy' "
    "nvidia-container-cli: initialization error: load library failed: libnvidia-ml.so.1: no such file: unknown",
    RUNC + "error running prestart hook #0: fork/exec /usr/bin/hook: no such file or directory: unknown",
    RUNC_24 + "unable to init seccomp: error loading seccomp filter into kernel: errno 524: unknown",
    RUNC_24 + "unable to apply apparmor profile: apparmor failed to apply profile: no such file or directory: unknown",
    NO_LOG + "fork/exec /usr/bin/nvidia-container-runtime: no such file or directory: unknown",
    NO_LOG + 'exec: "runc": executable file not found in $PATH: unknown',
    NO_LOG + "runc did not terminate successfully: exit status 127: runc: libseccomp.so.2: cannot open: unknown",
    "failed to start shim: start failed: exec: containerd-shim-runc-v2: file does not exist: unknown",
    "failed to create endpoint bq-1 on network bridge: failed to add the host (veth1) <=> sandbox (veth2) pair: ...",
    f"mkdir /var/lib/docker/overlay2/{ID}-init: no space left on device",
    f"open /var/lib/docker/containers/{ID}/.tmp-config.v2.json7: read-only file system",
    f"mkdir /run/containerd/io.containerd.runtime.v2.task/moby/{ID}: no space left on device",
]
JOB = [
    RUNC_24 + 'error mounting "/etc" to rootfs at "/etc/passwd": not a directory: unknown: Are you trying to mount',
    RUNC_24 + 'error mounting "/fork/exec /usr/bin/runc: no such file" to rootfs at "/x": no such file or directory',
    RUNC_24 + "error setting rlimits for ready process: error setting rlimit type 7: operation not permitted: unknown",
    RUNC + "error setting cgroup config for procHooks process: unable to set memory limit to 6291456: unknown",
    RUNC + "unable to apply cgroup configuration: failed to write 123: write cgroup.procs: no such process: unknown",
    RUNC_24 + "error running hook #0: error running hook: exit status 1, stdout: , stderr: nvidia-container-cli: "
    "requirement error: unsatisfied condition: cuda>=99, please update: initialization error: unknown",
    RUNC_24 + "container init was OOM-killed (memory limit too low?): unknown",
    "unable to find user cgroups: cgroup mountpoint does not exist: no matching entries in passwd file",
    'error gathering device information while adding custom device "/dev/cgroups: ": no such file or directory',
    "failed to initialize logging driver: dial tcp: lookup fork/exec /usr/bin/runc: no such host",
    "error while creating mount source path '/run/x': mkdir /run/x: read-only file system",
    f"mkdir /var/lib/docker/overlay2/{ID}/merged/app/dir: no space left on device",
    "cgroups: cgroup deleted: unknown",
    "no such file or directory",
]


@pytest.mark.parametrize("text", PROGRAM)
def test_a_program_that_cannot_be_executed_fails_at_once(text):
    refused = start_error(answer(400, text), state=ContainerState.CREATED, exit_code=127)

    assert isinstance(refused, StartRefused)
    assert (refused.certain, refused.host_failed) == (True, False)


@pytest.mark.parametrize("text", HOST)
@pytest.mark.fault("CO04")
def test_a_failure_of_the_host_is_not_definite_whatever_its_exit_code(text):
    refused = start_error(answer(400, text), state=ContainerState.CREATED, exit_code=127)

    assert isinstance(refused, StartRefused)
    assert (refused.certain, refused.host_failed) == (False, True)
    assert refused.exit_code == 127


@pytest.mark.parametrize("text", JOB)
def test_a_cause_in_the_job_is_neither_definite_nor_of_the_host(text):
    assert not is_about_program(text)
    assert not is_about_host(text)


RUNTIME = r"""#!/bin/sh
if [ -e {broken} ]; then
    for it in "$@"; do
        [ "$before" = --log ] && log=$it
        [ "$it" = create ] && echo '{{"level":"error","msg":"runc create failed: {text}"}}' >"$log" && exit 1
        before=$it
    done
fi
exec runc "$@"
"""
CGROUPS = (
    "unable to start container process: unable to apply cgroup configuration: "
    "mkdir /sys/fs/cgroup/cpuset/docker: no such file or directory"
)


@pytest.mark.docker
@pytest.mark.fault("CO04")
async def test_a_broken_runtime_is_a_failure_of_the_host(tmp_path):
    broken, wrapper = tmp_path / "broken", tmp_path / "runtime"
    wrapper.write_text(RUNTIME.format(broken=broken, text=CGROUPS))
    wrapper.chmod(0o755)
    options = ("--add-runtime", f"wrapper={wrapper}", "--default-runtime", "wrapper")
    with second_engine(options=options) as engine:
        async with docker_runtime(engine.url) as runtime:
            it = launch(command=("sh", "-c", "true"))
            await runtime.create(it)
            broken.touch()

            with pytest.raises(StartRefused, match="unable to apply cgroup configuration") as refused:
                await runtime.start(it.tag)

            assert (refused.value.exit_code, refused.value.certain, refused.value.host_failed) == (127, False, True)
            broken.unlink()
            await runtime.start(it.tag)
