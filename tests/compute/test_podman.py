"""The replies of Podman that differ from Docker's, as Podman 4.3.1, 5.4 and 5.8 send them: docs/engines.md."""

import json
import logging
from contextlib import closing, contextmanager, nullcontext
from functools import partial

import pytest
from docker.errors import APIError
from msgspec.structs import replace

from batchq.compute.docker import container_requests, host
from batchq.compute.docker import network_objects as objects
from batchq.compute.docker.admission import check_launch
from batchq.compute.docker.client import ClientFactory
from batchq.compute.docker.create_request import (
    SharedNetwork,
    attempt_name,
    attempt_object_labels,
    container_labels,
    container_name,
    pause_container_name,
    shared_network_labels,
    shared_network_name,
)
from batchq.compute.docker.errors import start_error
from batchq.compute.docker.exec_session import prepare_exec
from batchq.compute.docker.log_reader import open_log, parse_lines
from batchq.compute.docker.network_placement import AttemptNetworks
from batchq.compute.docker.policy import ServerPolicy
from batchq.compute.docker.shared_networks import SharedNetworks
from batchq.doctor.facts import DiskSpace, RuntimeFault, UnavailableRuntime
from batchq.doctor.server import all_findings
from batchq.domain.access.accounts import ContainerPolicy
from batchq.domain.catalog import Network
from batchq.domain.container import Mount
from batchq.errors import ContainerGone, ImageMissing, NameTaken, RuntimeUnknown, StartImpossible, StartRefused
from batchq.logs.capture import OVERLAP
from batchq.ports.exec_session import ExecCommand
from batchq.ports.runtime import ContainerState
from batchq.settings import Privileged
from batchq.system.clock import SystemClock
from tests.doctor.installation import engine as engine_facts
from tests.doctor.installation import facts
from tests.support.containers import containers_of, docker_runtime, launch, new_tag, part_of
from tests.support.fake_engine import PODMAN_VERSION, VERSION, ScriptedReplies, api_error, engine

INSTANCE = "i"
ID, OTHER = "1" * 64, "2" * 64
NO_IMAGE = (404, {"message": f"no such image: docker.io/library/{objects.PAUSE_IMAGE}: image not known"})
NAME_IN_USE = (
    500,
    {
        "cause": "that name is already in use",
        "message": f'container create: creating container storage: the container name "c1" is already in use by {ID}. '
        "You have to remove that container to be able to reuse that name: that name is already in use",
    },
)
IN_USE = (
    500,
    {
        "cause": "container already exists",
        "message": f"container {ID} has dependent containers which must be removed before it: {OTHER}: "
        "container already exists",
    },
)
RUNNING = (
    500,
    {"message": f"cannot remove container {ID} as it is running - running or paused containers cannot be removed"},
)
KILL_TIMED_OUT = (
    500,
    {"message": f"timed out waiting for file /run/libpod/exits/{ID}: internal libpod error"},
)
LOST_RECORD = (500, {"message": f'getting container from store "{ID}": container not known'})
NO_CONTENT = (204, None)


@contextmanager
def podman(folder, script, version=PODMAN_VERSION):
    """A client of a scripted engine, and the requests that the engine received."""
    replies = ScriptedReplies(script, version=version)
    with engine(folder, replies) as url, closing(ClientFactory(url).get_client(None, receive_timeout=5)) as client:
        yield client, replies.requests


def inspected(tag, status="created", **members):
    state = {"Status": status, "Pid": 0, "StartedAt": "2026-11-21T12:00:00Z", "FinishedAt": "2026-11-21T12:00:01Z"}
    state |= {"StartedAt": "0001-01-01T00:00:00Z"} if status == "created" else {}
    state |= {"ExitCode": 0, "Paused": status == "paused"}
    host_config = {"NetworkMode": "bridge", "Mounts": None}
    labels = container_labels(INSTANCE, tag)
    return {"Id": ID, "State": state, "Config": {"Labels": labels}, "HostConfig": host_config} | members


def changes(requests):
    return [request for request in requests if not request.startswith("GET ")]


# The image of pause containers


def test_the_pause_image_is_imported_with_its_tag_in_the_name(tmp_path):
    script = {"POST /containers/create": [NO_IMAGE, (201, {"Id": ID})], "POST /images/create": [(200, {})]}

    with podman(tmp_path, script) as (client, requests):
        assert objects.create_pause_container(client, {}, "pause") == ID

    (imported,) = [request for request in requests if request.startswith("POST /images/create")]
    assert f"repo={objects.PAUSE_IMAGE}" in imported
    assert "tag=" not in imported


def test_an_image_that_is_missing_after_its_import_is_reported(tmp_path, caplog):
    script = {"POST /containers/create": [NO_IMAGE], "POST /images/create": [(200, {})]}

    with podman(tmp_path, script) as (client, requests), pytest.raises(StartRefused, match="under another name"):
        objects.create_pause_container(client, {}, "pause")

    assert len([request for request in requests if request.startswith("POST /images/create")]) == 1
    assert "not found by the engine after its import" in caplog.text


# Events


async def test_deaths_are_subscribed_by_the_words_of_both_engines(tmp_path):
    replies = ScriptedReplies({"GET /events": [(200, None)]})
    with engine(tmp_path, replies) as url:
        async with docker_runtime(url, remove_after=False) as runtime, runtime.deaths():
            pass

    (subscription,) = [request for request in replies.requests if request.startswith("GET /events")]
    assert json.loads(subscription.partition("filters=")[2])["event"] == ["die", "died"]


# A create whose name is in use


def create(client, value):
    return containers_of(INSTANCE, policy=ServerPolicy(privileged=Privileged.REFUSE, volumes=())).create(client, value)


def test_the_container_of_an_earlier_create_is_found_after_an_error_500(tmp_path):
    container = launch()
    name = container_name(INSTANCE, container.tag)
    script = {
        "POST /containers/create": [NAME_IN_USE],
        f"GET /containers/{name}/json": [(200, inspected(container.tag))],
    }

    with podman(tmp_path, script) as (client, _):
        created = create(client, container)

    assert (created.container_id, created.state) == (ID, ContainerState.CREATED)


def test_a_foreign_container_with_the_name_is_reported(tmp_path):
    container = launch()
    script = {
        "POST /containers/create": [NAME_IN_USE],
        f"GET /containers/{container_name(INSTANCE, container.tag)}/json": [(200, inspected(new_tag()))],
    }

    with podman(tmp_path, script) as (client, _), pytest.raises(NameTaken):
        create(client, container)


def test_an_error_500_without_a_container_is_a_refusal_that_may_be_repeated(tmp_path):
    container = launch()

    script = {"POST /containers/create": [(500, {"message": "no space left on device"})]}
    with podman(tmp_path, script) as (client, _), pytest.raises(StartRefused, match="no space left") as refused:
        create(client, container)

    assert not refused.value.certain


@pytest.mark.parametrize(
    "text",
    [
        'fill out specgen: invalid container path "relative", must be an absolute path',
        "container create: running container create option: invalid log driver: invalid argument",
    ],
)
def test_a_create_with_invalid_values_is_not_repeated(tmp_path, text):
    script = {"POST /containers/create": [(500, {"message": text})]}
    with podman(tmp_path, script) as (client, _), pytest.raises(StartRefused) as refused:
        create(client, launch())

    assert refused.value.certain


def test_a_missing_image_is_still_recognised(tmp_path):
    with podman(tmp_path, {"POST /containers/create": [NO_IMAGE]}) as (client, _), pytest.raises(ImageMissing):
        create(client, launch())


# Networks of attempts, and shared volumes


def attempt_script(container, **members):
    labels = attempt_object_labels(INSTANCE, container.tag)
    name = attempt_name(INSTANCE, container.tag)
    pause = inspected(container.tag, "running", Config={"Labels": labels}) | members
    networks = [{"Id": OTHER, "Name": name, "Created": "2026", "Labels": labels}]
    return {
        "GET /networks": [(200, networks)],
        f"GET /containers/{pause_container_name(INSTANCE, container.tag)}/json": [(200, pause)],
        "POST /volumes/create": [(201, {"Name": "v"})],
    }


def test_a_pause_container_is_on_its_network_although_its_mode_is_bridge(tmp_path):
    container = part_of(new_tag(), "0/main", beside=("side",))
    on_network = {"NetworkSettings": {"Networks": {attempt_name(INSTANCE, container.tag): {}}}}

    with podman(tmp_path, attempt_script(container, **on_network)) as (client, requests):
        networks = AttemptNetworks(INSTANCE)
        with networks.hold(container.tag):
            assert networks.join(client, container, internal=False).network == f"container:{ID}"

    assert changes(requests) == []


def test_a_pause_container_of_a_lost_network_that_is_in_use_is_an_unknown_outcome(tmp_path):
    container = part_of(new_tag(), "0/main", beside=("side",))
    script = attempt_script(container, NetworkSettings={"Networks": {}}) | {f"DELETE /containers/{ID}": [IN_USE]}

    with podman(tmp_path, script) as (client, _):
        networks = AttemptNetworks(INSTANCE)
        with networks.hold(container.tag), pytest.raises(RuntimeUnknown):
            networks.join(client, container, internal=False)


def test_the_name_of_a_network_in_use_is_recognised(tmp_path):
    labels = {"io.batchq.instance": INSTANCE}
    taken = (500, {"message": "network name n1 already used: network already exists"})
    made = [{"Id": OTHER, "Name": "n1", "Created": "2026", "Labels": labels}]
    script = {"GET /networks": [(200, []), (200, made)], "POST /networks/create": [taken]}

    with podman(tmp_path, script) as (client, _):
        assert objects.ensure_network(client, "n1", labels) == OTHER


def test_shared_volumes_get_their_labels_before_the_container_is_created(tmp_path):
    mount = Mount(container_path="/scratch", host_path=None, volume="scratch")
    container = part_of(new_tag(), "0/main", beside=("side",), mounts=(mount,))

    with podman(
        tmp_path, attempt_script(container, NetworkSettings={"Networks": {attempt_name(INSTANCE, container.tag): {}}})
    ) as (
        client,
        requests,
    ):
        networks = AttemptNetworks(INSTANCE)
        with networks.hold(container.tag):
            networks.join(client, container, internal=False)

    assert changes(requests) == ["POST /volumes/create"]


# Pause containers that are in use


SHARED = SharedNetwork(environment="local")
PAUSE = shared_network_name(INSTANCE, SHARED)
SHARED_LABELS = shared_network_labels(INSTANCE, SHARED)


def test_a_dead_pause_container_in_use_is_restarted(tmp_path):
    dead = inspected(new_tag(), "exited", Config={"Labels": SHARED_LABELS})
    script = {
        f"GET /containers/{PAUSE}/json": [(200, dead)],
        f"DELETE /containers/{ID}": [IN_USE],
        f"POST /containers/{ID}/start": [NO_CONTENT],
    }

    with podman(tmp_path, script) as (client, requests):
        assert SharedNetworks(INSTANCE).join(client, SHARED) == f"container:{ID}"

    assert changes(requests)[-1] == f"POST /containers/{ID}/start"


def test_the_network_of_a_pause_container_in_use_is_not_removed(tmp_path):
    """Podman 4.3 removes a network by its id although containers are on it."""
    row = {"Id": ID, "State": "running", "Labels": SHARED_LABELS, "Names": [f"/{PAUSE}"]}
    networks = [{"Id": OTHER, "Name": PAUSE, "Created": "2026", "Labels": SHARED_LABELS}]
    script = {
        "GET /containers/json": [(200, [row])],
        "GET /networks": [(200, networks)],
        f"DELETE /containers/{ID}": [IN_USE],
        "DELETE /networks": [NO_CONTENT],
    }

    with podman(tmp_path, script) as (client, requests):
        SharedNetworks(INSTANCE).remove_unused(client)

    assert changes(requests) == [f"DELETE /containers/{ID}?v=True&link=False&force=True"]


# Removals, kills and lists


def test_the_removal_of_a_pause_container_does_not_wait():
    assert objects.pause_container_request(network="n", labels={})["StopTimeout"] == 0


@pytest.mark.parametrize(
    ("version", "replies", "sent"),
    [
        (PODMAN_VERSION, [RUNNING, NO_CONTENT], ["DELETE force=False", "POST kill", "DELETE force=True"]),
        (PODMAN_VERSION, [NO_CONTENT], ["DELETE force=False"]),
        (VERSION, [NO_CONTENT], ["DELETE force=True"]),
    ],
    ids=["Podman, running", "Podman, exited", "Docker"],
)
def test_a_running_container_is_killed_before_podman_removes_it(tmp_path, version, replies, sent):
    tag = new_tag()
    script = {
        f"GET /containers/{container_name(INSTANCE, tag)}/json": [(200, inspected(tag, "running"))],
        f"DELETE /containers/{ID}": replies,
        f"POST /containers/{ID}/kill": [NO_CONTENT],
    }

    with podman(tmp_path, script, version) as (client, requests):
        containers_of(INSTANCE).remove(client, tag)

    ends = [
        change.partition(" ")[0] + (" kill" if "kill" in change else " " + change.rpartition("&")[2])
        for change in changes(requests)
    ]
    assert ends == sent


@pytest.mark.parametrize(
    ("status", "error", "sent"),
    [("stopped", None, ["kill"]), ("paused", APIError, ["kill", "unpause"]), ("running", APIError, ["kill"])],
)
def test_after_a_kill_that_times_out_the_container_is_inspected(tmp_path, status, error, sent):
    tag = new_tag()
    script = {
        f"GET /containers/{container_name(INSTANCE, tag)}/json": [(200, inspected(tag, "running"))],
        f"GET /containers/{ID}/json": [(200, inspected(tag, status))],
        f"POST /containers/{ID}/kill": [KILL_TIMED_OUT],
        f"POST /containers/{ID}/unpause": [NO_CONTENT],
    }

    with podman(tmp_path, script) as (client, requests), nullcontext() if error is None else pytest.raises(error):
        containers_of(INSTANCE).kill(client, tag)

    assert [change.partition("?")[0].rpartition("/")[2] for change in changes(requests)] == sent


@pytest.mark.parametrize("status", ["created", "exited"])
def test_a_container_that_does_not_run_is_not_killed_although_podman_4_would_report_success(tmp_path, status):
    tag = new_tag()
    script = {
        f"GET /containers/{container_name(INSTANCE, tag)}/json": [(200, inspected(tag, status))],
        f"POST /containers/{ID}/kill": [NO_CONTENT],
    }

    with podman(tmp_path, script) as (client, requests), pytest.raises(ContainerGone):
        containers_of(INSTANCE).kill(client, tag)

    assert changes(requests) == []


def test_a_limit_that_the_engine_discards_is_logged_once(tmp_path, caplog, monkeypatch):
    monkeypatch.setattr(container_requests, "_logged_warnings", set())
    text = "Your kernel does not support memory limit capabilities. Limitation discarded."
    script = {"POST /containers/create": [(201, {"Id": ID, "Warnings": [text]})]}

    with podman(tmp_path, script, VERSION) as (client, _):
        for name in ("one", "two"):
            assert container_requests.send_create(client, {"Image": "image"}, name=name, platform=None) == ID

    assert caplog.messages == [f"container one: the engine warns: {text}"]


def test_a_record_without_storage_of_an_own_container_is_removed(tmp_path, caplog):
    tag = new_tag()
    row = {"Id": ID, "State": "running", "Labels": container_labels(INSTANCE, tag)}
    script = {
        "GET /containers/json": [(200, [row]), LOST_RECORD, (200, [])],
        f"DELETE /containers/{ID}": [NO_CONTENT],
    }

    with podman(tmp_path, script) as (client, requests):
        containers = containers_of(INSTANCE)
        assert [container.tag for container in containers.survey(client)] == [tag]
        assert containers.survey(client) == ()

    assert changes(requests) == [f"DELETE /containers/{ID}?v=True&link=False&force=True"]
    assert f"container {ID}: removed" in caplog.text


def test_a_record_without_storage_of_another_container_is_reported(tmp_path, caplog):
    with podman(tmp_path, {"GET /containers/json": [LOST_RECORD]}) as (client, requests), pytest.raises(APIError):
        containers_of(INSTANCE).survey(client)

    assert changes(requests) == []
    assert f"podman rm -f {ID}" in caplog.text


# Starts


NOT_PERMITTED = "Operation not permitted: OCI permission denied"
RUNC = "runc: runc create failed: unable to start container process"
NOT_FOUND = "OCI runtime attempted to invoke a command that was not found"


@pytest.mark.parametrize(
    ("text", "exit_code", "certain"),
    [
        (f"crun: executable file `nosuch` not found in $PATH: No such file or directory: {NOT_FOUND}", 127, True),
        (f"/usr/bin/crun: executable file `nosuch` not found in $PATH: No such file: {NOT_FOUND}", 127, True),
        ("crun: open executable: Permission denied: OCI permission denied", 126, True),
        (f"crun: the path `/etc/passwd` exists but it is not executable: {NOT_PERMITTED}", 126, True),
        (f"crun: the path `/etc` is not a regular file: {NOT_PERMITTED}", 126, True),
        (f'{RUNC}: exec: "nosuch": executable file not found in $PATH: {NOT_FOUND}', 127, True),
        (f"crun: open `/sys/fs/cgroup/x`: No such file or directory: {NOT_FOUND}", 127, False),
        ("crun: cannot set memory limit: OCI runtime error", None, False),
    ],
)
def test_the_exit_code_of_a_failed_start_is_read_from_its_error(text, exit_code, certain):
    failure = start_error(api_error(500, text), state=ContainerState.CREATED, exit_code=0)

    assert isinstance(failure, StartRefused)
    assert (failure.exit_code, failure.certain) == (exit_code, certain)


# Host paths


@pytest.mark.parametrize(("version", "shared"), [(PODMAN_VERSION, False), (VERSION, True)], ids=["Podman", "Docker"])
def test_podman_gets_host_paths_by_name_because_it_ignores_options_of_volumes(tmp_path, version, shared):
    with engine(tmp_path, ScriptedReplies({}, version=version)) as url:
        factory = ClientFactory(url)
        factory.get_client(None, receive_timeout=5).close()

        assert factory.shares_files() is shared


def test_the_mounts_of_an_existing_container_are_checked_where_podman_reports_them():
    container = replace(launch(), allowances=(ContainerPolicy(volumes=("/srv",), root=True),))
    found = inspected(container.tag, Mounts=[{"Type": "bind", "Source": "/home/other"}])
    found["Config"]["User"] = ""
    policy = ServerPolicy(privileged=Privileged.REFUSE, volumes=())

    with pytest.raises(StartRefused, match="/home/other"):
        check_launch(container, policy, Network.SHARED, is_new=False, inspect=lambda: found)


# Commands


def test_no_command_is_prepared_in_a_container_that_has_ended(tmp_path):
    refused = (500, {"message": "can only create exec sessions on running containers: container state improper"})

    with podman(tmp_path, {f"POST /containers/{ID}/exec": [refused]}) as (client, _), pytest.raises(ContainerGone):
        prepare_exec(client, ID, ExecCommand(command=("true",)))


# Logs


def test_a_log_without_a_driver_is_empty(tmp_path):
    refused = (500, {"message": "this container is using the 'none' log driver, cannot read logs"})
    found = inspected(new_tag(), "exited", HostConfig={"LogConfig": {"Type": "none", "Config": None}})
    script = {f"GET /containers/{ID}/logs": [refused], f"GET /containers/{ID}/json": [(200, found)]}

    with podman(tmp_path, script) as (client, _):
        assert open_log(client, ID, after=0, receive_timeout=5) is None


def test_lines_with_stamps_of_whole_seconds_are_all_read_again_within_the_overlap():
    """Podman 5.4 and earlier cut the stamps of lines to seconds."""
    stamped = [f"2026-11-21T12:00:00Z line {number}\n".encode() for number in range(3)]
    frames = [bytes([1, 0, 0, 0]) + len(line).to_bytes(4) + line for line in stamped]
    (at,) = {line.at for line in parse_lines(frames, after=0)}

    again = parse_lines(frames, after=at - OVERLAP)

    assert [record.message for record in again] == ["line 0", "line 1", "line 2"]
    assert OVERLAP >= 1_000_000_000


# The doctor, and OCI runtimes


INFO = {
    "InitBinary": "",
    "DockerRootDir": "/var/lib/containers/storage",
    "ServerVersion": "4.3.1",
    "DefaultRuntime": "crun",
    "Runtimes": {"crun": {"path": "/usr/bin/crun"}, "kata": {"path": "/usr/bin/kata-runtime"}},
}
DOCKER_INFO = INFO | {"InitBinary": "docker-init", "DefaultRuntime": "runc", "Runtimes": {"runc": {}, "nvidia": {}}}


def test_the_doctor_examines_podman(tmp_path):
    with engine(tmp_path, ScriptedReplies({"GET /info": [(200, INFO)]})) as url:
        found = host.examine_engine(None, SystemClock(), base_url=url)

    assert (found.is_podman, found.version, found.default_runtime, found.runtimes) == (True, "4.3.1", "crun", ("crun",))


RUNC = partial(engine_facts, default_runtime="runc", runtimes=("crun", "runc"))
PODMAN = partial(engine_facts, is_podman=True, live_restore=False, default_runtime="crun")


def absent(address):
    return UnavailableRuntime(address=address, fault=RuntimeFault.ABSENT, error="No such file or directory")


@pytest.mark.parametrize(
    ("facts_of_engine", "advised", "not_advised"),
    [
        (PODMAN(version="5.4.2"), "Podman 5.4.2 responds", "live-restore"),
        (PODMAN(version="4.3.1"), "Podman 4.3.1 is older than 5.0", "daemon.json"),
        (PODMAN(version="5.4.2", api="1.40"), "Install Podman 5.0", "Docker 20.10"),
        (PODMAN(version="5.4.2", default_runtime="runc"), "/etc/containers/containers.conf", "daemon.json"),
        (engine_facts(default_runtime="runc"), "apt-get install crun", "Podman"),
        (RUNC(), "--container-runtime crun", "apt-get"),
        (engine_facts(default_runtime="crun"), "Docker 24.0.7 responds", "--container-runtime"),
        (RUNC(selected_runtimes=frozenset({"crun"})), "Docker 24.0.7 responds", "--container-runtime"),
        (PODMAN(version="5.4.2", disk=DiskSpace(free=2**20, size=2**30)), "podman image prune", "docker image prune"),
        (absent("unix:///run/podman/podman.sock"), "systemctl start podman.socket", "start docker"),
        (absent("unix:///run/user/1000/podman/podman.sock"), "systemctl --user start podman.socket", "start docker"),
        (absent("unix:///run/docker.sock"), "systemctl start docker", "podman"),
        (absent("unix:///run/user/1000/docker.sock"), "systemctl --user start docker", "podman"),
        (PODMAN(version="5.4.2", is_rootless=True), "Podman is rootless", "cannot limit"),
        (PODMAN(version="5.4.2", is_rootless=True, missing_limits=("memory",)), "Delegate=cpu cpuset", "kernel's"),
        (engine_facts(is_rootless=True, live_restore=False), "~/.config/docker/daemon.json", "/etc/docker"),
        (engine_facts(missing_limits=("memory",)), "these cgroup controllers on the kernel's command line", "rootless"),
        (engine_facts(cgroup=None), "API 1.43", "cgroup"),
    ],
)
def test_the_doctor_names_the_engine_and_advises_accordingly(facts_of_engine, advised, not_advised):
    text = "\n".join(f"{finding.message}. {finding.advice}" for finding in all_findings(facts(engine=facts_of_engine)))

    assert advised in text
    assert not_advised not in text


@pytest.mark.parametrize(
    ("info", "name", "refusal"),
    [
        (DOCKER_INFO, "nvidia", None),
        (DOCKER_INFO, "crun", "the engine has no OCI runtime 'crun'; it has: nvidia, runc"),
        (INFO, "crun", None),
        (INFO, "kata", "the engine has no OCI runtime 'kata'; it has: crun"),
    ],
)
def test_a_runtime_that_the_engine_cannot_choose_is_refused_with_its_list(tmp_path, info, name, refusal):
    version = PODMAN_VERSION if info is INFO else VERSION
    with engine(tmp_path, ScriptedReplies({"GET /info": [(200, info)]}, version=version)) as url:
        if refusal is None:
            host.check_runtime(name, base_url=url)
        else:
            with pytest.raises(StartImpossible, match=refusal):
                host.check_runtime(name, base_url=url)


@pytest.mark.parametrize(
    ("of_server", "of_launch", "refusal"),
    [
        ("nvidia", None, None),
        ("nosuch", "runc", None),
        ("runc", "nosuch", "'nosuch'; it has: nvidia, runc"),
        (None, None, None),
    ],
)
def test_the_runtime_of_the_environment_precedes_that_of_the_server(tmp_path, of_server, of_launch, refusal):
    policy = ServerPolicy(privileged=Privileged.REFUSE, volumes=(), oci_runtime=of_server)
    script = {"GET /info": [(200, DOCKER_INFO)], "POST /containers/create": [(201, {"Id": ID})]}
    containers = containers_of(INSTANCE, policy=policy)

    with podman(tmp_path, script, VERSION) as (client, requests):
        if refusal is None:
            assert containers.create(client, replace(launch(), oci_runtime=of_launch)).container_id == ID
        else:
            with pytest.raises(StartRefused, match=refusal):
                containers.create(client, replace(launch(), oci_runtime=of_launch))

    assert ("GET /info" in requests) is (of_server is not None)


def test_without_an_engine_the_runtime_is_not_checked_yet(tmp_path):
    host.check_runtime("crun", base_url=f"unix://{tmp_path}/absent.sock")


def test_the_log_names_the_engine(tmp_path, caplog):
    caplog.set_level(logging.INFO)

    with podman(tmp_path, {}):
        pass

    assert "Podman engine" in caplog.text
