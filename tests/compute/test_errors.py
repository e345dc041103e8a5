"""Errors of the SDK and texts of real engines: what they mean, and what is removed from them."""

import json

import pytest
from docker.errors import APIError, DockerException, ImageNotFound, NotFound, StreamParseError
from requests.exceptions import ChunkedEncodingError, JSONDecodeError, ReadTimeout
from requests.exceptions import ConnectionError as NoConnection
from urllib3.exceptions import ProtocolError, ReadTimeoutError

from batchq.compute.docker.errors import (
    agent_reason,
    create_error,
    is_about_host,
    is_about_program,
    message_of,
    redact_error,
    start_error,
    translate_errors,
    was_not_sent,
)
from batchq.errors import ContainerGone, ImageMissing, RuntimeUnknown, StartInterrupted, StartRefused
from batchq.ports.runtime import ContainerState
from tests.support.containers import docker_runtime, launch
from tests.support.fake_engine import api_error
from tests.support.second_engine import second_engine

CREATED = ContainerState.CREATED
TRANSPORT = (
    'connection error: desc = "transport: error while dialing: dial unix:///run/containerd/containerd.sock: timeout": '
    "unavailable"
)


@pytest.mark.parametrize(
    "error",
    [
        ReadTimeout("Read timed out."),
        NoConnection("Read timed out."),
        ChunkedEncodingError("Connection broken"),
        ProtocolError("Connection aborted."),
        ReadTimeoutError(None, "/", "Read timed out."),
        JSONDecodeError("Expecting value", "<html>", 0),
        json.JSONDecodeError("Expecting value", "<html>", 0),
        StreamParseError("garbage"),
        ConnectionRefusedError(111, "Connection refused"),
        PermissionError(13, "Permission denied"),
        DockerException("Error while fetching server API version"),
        api_error(503, "overloaded"),
        api_error(404, "no such container", NotFound),
    ],
    ids=lambda error: type(error).__name__,
)
@pytest.mark.fault("EN23", "EN24")
def test_an_unclassified_error_is_unknown(error):
    with pytest.raises(RuntimeUnknown, match=r"^kill: ") as unknown, translate_errors("kill"):
        raise error

    assert unknown.value.__cause__ is error


def test_a_classified_error_is_passed_on():
    with pytest.raises(ContainerGone), translate_errors("kill"):
        raise ContainerGone("gone")


def test_programming_errors_are_not_hidden():
    with pytest.raises(KeyError), translate_errors("kill"):
        raise KeyError("Id")


def test_the_engines_text_is_reported():
    assert message_of(api_error(500, "driver failed\n  programming   port")) == "driver failed programming port"


@pytest.mark.parametrize(
    ("words", "shown"),
    [
        ("Get https://me:s3cret@registry/v2/: no such host", "Get https://***@registry/v2/: no such host"),
        ("Authorization: Bearer s3cret refused", "Authorization: *** refused"),
        ('{"Authorization": "Basic s3cret"}', '{"Authorization": "***"}'),
        ("bad header Basic dXNlcjpwYXNzd29yZA==", "bad header Basic ***"),
        ("GET /v2/?access_token=s3cret&service=x: 401", "GET /v2/?access_token=***&service=x: 401"),
        ("X-Amz-Signature=s3cret X-Amz-Security-Token=s3cret", "X-Amz-Signature=*** X-Amz-Security-Token=***"),
        ('{"password": "s3cret"} refused', '{"password": "***"} refused'),
    ],
)
def test_credentials_are_removed_from_texts(words, shown):
    assert message_of(api_error(500, words)) == shown


def test_text_that_only_resembles_credentials_is_kept():
    words = "repository does not exist or may require 'docker login': basic auth is needed, secret not found"

    assert message_of(api_error(404, words)) == words


def test_a_reason_is_cut_at_awss_maximum():
    text = agent_reason("CannotStartContainerError", api_error(500, "x" * 5000))

    assert text.startswith("CannotStartContainerError: Error response from daemon: xxx")
    assert len(text) == 1024


def test_a_missing_image_can_be_pulled():
    assert isinstance(create_error(api_error(404, "No such image: a:b", ImageNotFound)), ImageMissing)


@pytest.mark.parametrize(("status", "certain"), [(400, True), (403, True), (404, False), (500, False)])
def test_a_refused_create_has_the_engines_text(status, certain):
    refused = create_error(api_error(status, "invalid mount config", NotFound if status == 404 else APIError))

    assert isinstance(refused, StartRefused)
    assert refused.reason == "CannotCreateContainerError: Error response from daemon: invalid mount config"
    assert (refused.certain, refused.exit_code) == (certain, None)


def test_a_failure_below_the_engine_does_not_refuse_a_create():
    assert isinstance(create_error(api_error(500, TRANSPORT)), RuntimeUnknown)


@pytest.mark.parametrize("status", [400, 404, 500])
@pytest.mark.parametrize(("exit_code", "certain"), [(126, True), (127, True), (128, False), (0, False)])
@pytest.mark.fault("EN21")
def test_a_failed_start_is_classified_by_the_inspected_exit_code(status, exit_code, certain):
    words = 'exec: "none": executable file not found in $PATH'
    refused = start_error(api_error(status, words), state=CREATED, exit_code=exit_code)

    assert isinstance(refused, StartRefused)
    assert refused.reason == f"CannotStartContainerError: Error response from daemon: {words}"
    assert (refused.certain, refused.exit_code) == (certain, exit_code or None)


@pytest.mark.parametrize(
    ("status", "words", "meaning"),
    [
        (500, TRANSPORT, RuntimeUnknown),
        (500, "failed to create shim task: context deadline exceeded: unknown", RuntimeUnknown),
        (409, "marked for removal", RuntimeUnknown),
        (500, f"task {'7d6e50d4' * 8}: already exists", StartInterrupted),
        (500, f"failed to start shim: mkdir /run/task/moby/{'7d6e50d4' * 8}: file exists: unknown", StartInterrupted),
        (500, "id already in use", StartInterrupted),
        (500, "transport is closing: unavailable", StartInterrupted),
        (500, "error reading from server: EOF: unavailable", StartInterrupted),
        (500, "ttrpc: closed: unknown", StartInterrupted),
        (500, "rpc error: code = Unknown: Unavailable", StartInterrupted),
        (500, "context deadline exceeded", StartInterrupted),
        # Text of a user, such as the user's name.
        (500, "unable to find user task 7: already exists: no matching entries in passwd file", StartRefused),
        (500, "unable to find user transport: no such user", StartRefused),
        (500, "unable to find user unavailable", StartRefused),
    ],
)
@pytest.mark.fault("EN22")
def test_the_text_of_a_failed_start_decides_whether_the_program_may_have_run(status, words, meaning):
    assert type(start_error(api_error(status, words), state=CREATED, exit_code=128)) is meaning


@pytest.mark.parametrize("error", [ConnectionRefusedError(111, "refused"), FileNotFoundError(2, "no socket")])
def test_a_call_without_a_connection_was_not_sent(error):
    lost = NoConnection(error)
    lost.__cause__ = error

    assert was_not_sent(lost)
    assert not was_not_sent(NoConnection(ConnectionResetError(104, "reset")))


def test_text_of_a_user_does_not_make_a_definite_refusal_uncertain():
    refused = start_error(api_error(400, 'exec: "dial unix": not found'), state=CREATED, exit_code=127)

    assert isinstance(refused, StartRefused)
    assert refused.certain


@pytest.mark.parametrize("state", [None, ContainerState.GOING])
@pytest.mark.parametrize("status", [404, 409, 500])
def test_a_start_of_an_absent_container_is_reported(status, state):
    assert isinstance(start_error(api_error(status, "no such container"), state=state, exit_code=0), ContainerGone)


@pytest.mark.parametrize("state", [ContainerState.RUNNING, ContainerState.EXITED])
def test_a_failed_start_of_a_running_container_succeeded(state):
    assert start_error(api_error(500, "broken pipe"), state=state, exit_code=0) is None


def test_a_secret_quoted_by_the_engine_is_removed():
    error = api_error(500, "dial tcp: lookup logs.example on 10.0.0.1: no such host; got udp://logs.example:51")

    redact_error(error, ["udp://logs.example:51"])

    assert message_of(error) == "dial tcp: lookup *** on 10.0.0.1: no such host; got ***"


@pytest.mark.parametrize("secrets", [[], [""], ["no"]], ids=str)
def test_text_without_secrets_is_kept(secrets):
    error = api_error(500, "no such host")

    redact_error(error, secrets)

    assert message_of(error) == "no such host"


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
IMAGES = "/var/lib/containerd/io.containerd.snapshotter.v1.overlayfs/snapshots"
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
    # Docker 28 with the image store of containerd, which is the default of Docker 29.
    "write /data/containerd/daemon/io.containerd.metadata.v1.bolt/meta.db: no space left on device",
    f"failed to create prepare snapshot dir: failed to create temp dir: mkdir {IMAGES}/new-2: no space left on device",
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
    f"mkdir /var/lib/docker/rootfs/overlayfs/{ID}/io.containerd.x/dir: no space left on device",
    "cgroups: cgroup deleted: unknown",
    "no such file or directory",
]


@pytest.mark.parametrize("text", PROGRAM)
def test_a_program_that_cannot_be_executed_fails_at_once(text):
    refused = start_error(api_error(400, text), state=CREATED, exit_code=127)

    assert isinstance(refused, StartRefused)
    assert (refused.certain, refused.host_failed) == (True, False)


@pytest.mark.parametrize("text", HOST)
@pytest.mark.fault("CO04")
def test_a_failure_of_the_host_is_not_definite_whatever_its_exit_code(text):
    refused = start_error(api_error(400, text), state=CREATED, exit_code=127)

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
            container = launch(command=("sh", "-c", "true"))
            await runtime.create(container)
            broken.touch()

            with pytest.raises(StartRefused, match="unable to apply cgroup configuration") as refused:
                await runtime.start(container.tag)

            assert (refused.value.exit_code, refused.value.certain, refused.value.host_failed) == (127, False, True)
            broken.unlink()
            await runtime.start(container.tag)
