"""The engine's create call of a container, also of an attempt with several: each row of aws-batch.md 11.1."""

import logging

import pytest
from msgspec.structs import replace

from batchq.compute.docker import create_request
from batchq.compute.docker.create_request import (
    CONTAINER_LABELS,
    LaunchInputs,
    Namespaces,
    attempt_in,
    attempt_object_labels,
    build_create_request,
    container_labels,
    container_name,
    pause_container_name,
    shared_network_in,
    tag_of,
    volume_name,
)
from batchq.compute.docker.policy import ServerPolicy
from batchq.domain.container import Device, DevicePermission, Logging, Mount, Tmpfs, Ulimit
from batchq.domain.ids import JobId, Tag
from batchq.errors import StartRefused
from batchq.ports.runtime import LaunchSpec
from batchq.settings import Privileged
from tests.support import builders

MIB = 2**20
JOB = JobId("8a0e5a1c-0000-4000-8000-000000000001")
TAG = Tag(job_id=JOB, attempt=2)
PART = replace(TAG, container_key="3/side-car")
OPEN = ServerPolicy(privileged=Privileged.ALLOW, volumes=())
GROUP = (("awslogs-group", "g"),)
BOUNDED_LOG = {"Type": "json-file", "Config": {"max-size": "100m", "max-file": "5"}}


def config(*, tag=TAG, environment=(), policy=OPEN, inputs=None, **spec):
    launch = LaunchSpec(tag=tag, spec=builders.container(**spec), environment=environment)
    return build_create_request(launch, instance="i1", policy=policy, inputs=inputs or LaunchInputs())


def host(**members):
    return config(**members)["HostConfig"]


@pytest.mark.parametrize(("job", "name"), [("a:7", "bq-i1-a_7-1"), ("a#7", "bq-i1-a.7-1")])
def test_the_name_of_a_child_is_valid_in_docker(job, name):
    assert container_name("i1", Tag(job_id=JobId(job), attempt=1)) == name


def test_no_container_has_the_name_of_a_pause_container():
    containers = {container_name("i1", tag) for tag in (TAG, PART, replace(TAG, attempt=3))}

    assert pause_container_name("i1", PART) not in containers


def test_every_label_is_set_so_that_labels_of_the_image_have_no_effect():
    own = {"io.batchq.instance": "i1", "io.batchq.job": TAG.job_id, "io.batchq.attempt": "2"}

    assert config()["Labels"] == dict.fromkeys(CONTAINER_LABELS, "") | own
    assert {var for var in vars(create_request).values() if str(var).startswith("io.batchq.")} == set(CONTAINER_LABELS)


@pytest.mark.parametrize("tag", [TAG, PART], ids=["whole attempt", "one of several containers"])
def test_labels_are_read_back(tag):
    assert tag_of(container_labels("i1", tag), "i1") == tag


@pytest.mark.parametrize(
    "changed", [{"io.batchq.instance": "i2"}, {"io.batchq.attempt": "two"}, {"io.batchq.attempt": ""}]
)
def test_foreign_labels_belong_to_no_job(changed):
    assert tag_of(container_labels("i1", TAG) | changed, "i1") is None
    assert tag_of({}, "i1") is None


def test_pause_containers_belong_to_no_job():
    assert tag_of(attempt_object_labels("i1", PART), "i1") is None
    assert attempt_in(attempt_object_labels("i1", PART), "i1") == TAG


@pytest.mark.parametrize("labels", [{}, container_labels("i1", PART), attempt_object_labels("i2", PART)])
def test_an_attempt_that_shares_nothing_has_no_pause_container(labels):
    assert attempt_in(labels, "i1") is None
    assert shared_network_in(labels, "i1") is None
    assert attempt_in({"io.batchq.instance": "i1"} | labels | {"io.batchq.shared-by": "j/two"}, "i1") is None


@pytest.mark.parametrize(
    ("members", "name", "value"),
    [
        ({"image": "busybox:1"}, "Image", "busybox:1"),
        ({"command": ("echo", "a b")}, "Cmd", ["echo", "a b"]),
        ({"environment": (("A", "b=c"), ("EMPTY", ""))}, "Env", ["A=b=c", "EMPTY="]),
        ({"user": "1000:1000"}, "User", "1000:1000"),
    ],
)
def test_a_member_of_the_job_is_a_member_of_the_container(members, name, value):
    assert config(**members)[name] == value


def test_members_that_the_job_does_not_set_are_those_of_the_image():
    assert not {"Cmd", "Entrypoint", "User"} & config(command=()).keys()


@pytest.mark.parametrize(
    ("members", "name", "value"),
    [
        ({"millicpus": 250}, "CpuShares", 256),
        ({"millicpus": 1000}, "CpuShares", 1024),
        ({"millicpus": 64_000}, "CpuShares", 65_536),
        ({"millicpus": 1}, "CpuShares", 2),
        ({"memory_mib": 128}, "Memory", 128 * MIB),
        ({"memory_mib": 128}, "MemorySwap", 128 * MIB),
        ({"memory_mib": 4}, "Memory", 6 * MIB),  # Docker's minimum
        ({"memory_mib": 128, "max_swap_mib": 0}, "MemorySwap", 128 * MIB),
        ({"memory_mib": 128, "max_swap_mib": 64}, "MemorySwap", 192 * MIB),
        ({"max_swap_mib": 64, "swappiness": 0}, "MemorySwappiness", 0),
        ({}, "PidsLimit", 8192),
        ({}, "Privileged", False),
        ({"privileged": True}, "Privileged", True),
        ({}, "ReadonlyRootfs", False),
        ({"read_only_root": True}, "ReadonlyRootfs", True),
        ({}, "Init", False),
        ({"init": True}, "Init", True),
        ({"shared_memory_mib": 32}, "ShmSize", 32 * MIB),
        (
            {"ulimits": (Ulimit(name="nofile", soft=10, hard=20),)},
            "Ulimits",
            [{"Name": "nofile", "Soft": 10, "Hard": 20}],
        ),
        (
            {
                "tmpfs": (
                    Tmpfs(container_path="/t", size_mib=16, options=("noexec", "ro")),
                    Tmpfs(container_path="/u", size_mib=1),
                )
            },
            "Tmpfs",
            {"/t": "size=16m,noexec,ro", "/u": "size=1m"},
        ),
        ({}, "DeviceRequests", []),
        ({}, "RestartPolicy", {"Name": "no"}),
        ({}, "AutoRemove", False),
    ],
)
def test_a_member_of_the_job_is_a_setting_of_the_host(members, name, value):
    assert host(**members)[name] == value


@pytest.mark.parametrize("name", ["NanoCpus", "CpuQuota", "Binds", "ShmSize", "MemorySwappiness"])
def test_settings_that_no_job_has_requested_are_omitted(name):
    """vCPUs are a weight and not a limit; swappiness is ignored without swap."""
    assert name not in host(swappiness=60)


def test_gpus_are_requested_by_number_and_stored_in_a_label():
    made = config(gpus=2, inputs=LaunchInputs(gpus=("0", "3")))

    assert made["HostConfig"]["DeviceRequests"] == [
        {"Driver": "nvidia", "DeviceIDs": ["0", "3"], "Capabilities": [["gpu"]]}
    ]
    assert made["Labels"]["io.batchq.gpus"] == "0,3"


@pytest.mark.fault("IN16")
def test_variables_of_batchq_override_secrets_which_override_those_of_the_job():
    launch = LaunchSpec(
        tag=TAG,
        spec=builders.container(environment=(("JOB", "job"), ("SECRET", "job"), ("BATCHQ", "job"))),
        environment=(("BATCHQ", "batchq"),),
    )
    inputs = LaunchInputs(secrets=(("SECRET", "secret"), ("BATCHQ", "secret")))

    made = build_create_request(launch, instance="i1", policy=OPEN, inputs=inputs)

    assert made["Env"] == ["JOB=job", "SECRET=secret", "BATCHQ=batchq"]


@pytest.mark.fault("SE11")
def test_secrets_are_only_in_the_environment():
    made = config(inputs=LaunchInputs(secrets=(("PASSWORD", "s3cret"),)))

    assert "PASSWORD=s3cret" in made["Env"]
    assert "s3cret" not in str(made["Labels"]) + str(made["HostConfig"])


DISK = Device(host_path="/dev/sda", container_path="/dev/sda")
AS_GOOD_AS_ROOT = pytest.mark.parametrize("members", [{"privileged": True}, {"devices": (DISK,)}], ids=str)


@pytest.mark.fault("SE09")
@AS_GOOD_AS_ROOT
def test_privileges_are_dropped_with_a_warning(members, caplog):
    dropping = ServerPolicy(privileged=Privileged.DROP, volumes=())

    made = host(**members, policy=dropping)

    assert (made["Privileged"], made["Devices"]) == (False, [])
    assert [record.levelno for record in caplog.records] == [logging.WARNING]
    assert TAG.job_id in caplog.text


@pytest.mark.fault("SE09")
@AS_GOOD_AS_ROOT
def test_privileges_are_refused_with_a_reason(members):
    refusing = ServerPolicy(privileged=Privileged.REFUSE, volumes=())

    with pytest.raises(StartRefused, match=r"^CannotCreateContainerError: .*(privileged|devices)") as refused:
        host(**members, policy=refusing)

    assert refused.value.certain


@pytest.mark.fault("SE09")
def test_no_program_gains_privileges_unless_the_container_has_them():
    assert host()["SecurityOpt"] == ["no-new-privileges"]
    assert host(privileged=True)["SecurityOpt"] == []


@pytest.mark.parametrize(
    ("path", "permissions", "flags"),
    [
        ("/dev/b", (), "rwm"),
        ("/dev/b", (DevicePermission.READ,), "r"),
        ("/dev/b", (DevicePermission.WRITE, DevicePermission.READ), "rw"),
        ("", tuple(DevicePermission), "rwm"),
    ],
)
def test_devices_have_their_paths_and_permissions(path, permissions, flags):
    made = host(devices=(Device(host_path="/dev/a", container_path=path, permissions=permissions),))

    assert made["Devices"] == [
        {"PathOnHost": "/dev/a", "PathInContainer": path or "/dev/a", "CgroupPermissions": flags}
    ]


def test_swappiness_is_dropped_with_a_warning_on_a_kernel_without_it(caplog):
    made = host(max_swap_mib=64, swappiness=60, inputs=LaunchInputs(supports_swappiness=False))

    assert "MemorySwappiness" not in made
    assert [record.levelno for record in caplog.records] == [logging.WARNING]


@pytest.mark.parametrize(("name", "requested"), [("crun", {"Runtime": "crun"}), (None, {})])
def test_the_runtime_of_a_container_is_requested(name, requested):
    made = host(inputs=LaunchInputs(oci_runtime=name))

    assert {member: value for member, value in made.items() if member == "Runtime"} == requested


@pytest.mark.parametrize(
    ("logging", "secret", "stored"),
    [
        *(
            (Logging(driver=driver, options=(("awslogs-group", "g"),)), (), BOUNDED_LOG)
            for driver in (None, "awslogs", "json-file")
        ),
        *(
            (Logging(driver=name, options=(("tag", "t"),)), (), {"Type": name, "Config": {"tag": "t"}})
            for name in ("syslog", "journald", "gelf", "fluentd", "splunk")
        ),
        (
            Logging(driver="splunk", options=(("splunk-url", "u"),)),
            (("splunk-token", "t"),),
            {"Type": "splunk", "Config": {"splunk-url": "u", "splunk-token": "t"}},
        ),
    ],
)
def test_captured_output_is_kept_in_bounded_files_and_other_log_drivers_are_passed_on(logging, secret, stored):
    assert host(logging=logging, inputs=LaunchInputs(log_secrets=secret))["LogConfig"] == stored


@pytest.mark.parametrize(
    ("tag", "mount", "made"),
    [
        (TAG, Mount(container_path="/x", host_path="/h", read_only=True), {"Type": "bind", "Source": "/h"}),
        (PART, Mount(container_path="/x", host_path="/h", volume="scratch"), {"Type": "bind", "Source": "/h"}),
        (TAG, Mount(container_path="/x", host_path=None), {"Type": "volume"}),
        (PART, Mount(container_path="/x", host_path=None), {"Type": "volume"}),
        (TAG, Mount(container_path="/x", host_path=None, volume="scratch"), {"Type": "volume"}),
        (
            PART,
            Mount(container_path="/x", host_path=None, volume="scratch", read_only=True),
            {
                "Type": "volume",
                "Source": volume_name("i1", PART, "scratch"),
                "VolumeOptions": {"Labels": attempt_object_labels("i1", PART) | {"io.batchq.volume": "scratch"}},
            },
        ),
    ],
    ids=["path", "path in a task", "anonymous", "anonymous in a task", "named and alone", "shared"],
)
def test_volumes_are_mounts(tag, mount, made):
    (found,) = host(tag=tag, inputs=LaunchInputs(mounts=(mount,)))["Mounts"]

    assert found == {"Target": "/x", "ReadOnly": mount.read_only} | made


def test_a_shared_volume_belongs_to_its_node_and_attempt():
    tags = [PART, replace(PART, container_key="4/side-car"), replace(PART, attempt=3)]

    names = {volume_name("i1", tag, volume) for tag in tags for volume in ("a", "b" * 255)}

    assert len(names) == 6
    assert volume_name("i1", PART, "a") == volume_name("i1", replace(PART, container_key="3/main"), "a")
    assert max(map(len, names)) < 255


KINDS = ("NetworkMode", "IpcMode", "PidMode")


@pytest.mark.parametrize(
    ("namespaces", "modes"),
    [
        (None, {}),
        (Namespaces(network="n1", node=("node-3",)), {"NetworkMode": "n1"}),
        (Namespaces(network="container:k1"), {"NetworkMode": "container:k1"}),
        (
            Namespaces(network="container:k1", ipc="container:k1", pid="container:k1"),
            dict.fromkeys(KINDS, "container:k1"),
        ),
    ],
    ids=["alone", "single container of a node", "one of several", "shared processes and memory"],
)
def test_a_container_joins_the_namespaces_of_its_attempt(namespaces, modes):
    made = config(inputs=LaunchInputs(namespaces=namespaces), init=True)

    assert {name: mode for name, mode in made["HostConfig"].items() if name in KINDS} == modes
    assert made["HostConfig"]["Init"] is ("PidMode" not in modes)  # process 1 is then the pause program
    aliases = made.get("NetworkingConfig", {"EndpointsConfig": {}})["EndpointsConfig"]
    assert aliases == ({"n1": {"Aliases": ["node-3"]}} if namespaces is not None and namespaces.node else {})
