"""Each row of aws-batch.md 11.1 in the engine's create call."""

import logging

import pytest

from batchq.compute.docker import create_request
from batchq.compute.docker.create_request import (
    CONTAINER_LABELS,
    LaunchInputs,
    build_create_request,
    container_labels,
    container_name,
    tag_of,
)
from batchq.compute.docker.policy import ServerPolicy
from batchq.domain.container import Device, DevicePermission, Logging, Mount, Tmpfs, Ulimit
from batchq.domain.ids import JobId, Tag
from batchq.errors import StartRefused
from batchq.ports.runtime import LaunchSpec
from batchq.settings import Privileged
from tests.support import builders

MIB = 2**20
TAG = Tag(job_id=JobId("8a0e5a1c-0000-4000-8000-000000000001"), attempt=2)
OPEN = ServerPolicy(privileged=Privileged.ALLOW, volumes=())


def created(*, environment=(), policy=OPEN, inputs=None, **spec):
    launch = LaunchSpec(tag=TAG, spec=builders.container(**spec), environment=environment)
    return build_create_request(launch, instance="i1", policy=policy, inputs=inputs or LaunchInputs())


def config(**members):
    return created(**members).config


def host(**members):
    return config(**members)["HostConfig"]


def test_the_name_has_instance_job_and_attempt():
    assert created().name == f"bq-i1-{TAG.job_id}-2"


@pytest.mark.parametrize(("job", "name"), [("a:7", "bq-i1-a_7-1"), ("a#7", "bq-i1-a.7-1")])
def test_the_name_of_a_child_is_valid_in_docker(job, name):
    assert container_name("i1", Tag(job_id=JobId(job), attempt=1)) == name


def test_every_label_is_set_so_that_labels_of_the_image_have_no_effect():
    own = {"io.batchq.instance": "i1", "io.batchq.job": TAG.job_id, "io.batchq.attempt": "2"}

    assert config()["Labels"] == dict.fromkeys(CONTAINER_LABELS, "") | own
    assert {it for it in vars(create_request).values() if str(it).startswith("io.batchq.")} == set(CONTAINER_LABELS)


def test_labels_are_read_back():
    assert tag_of(container_labels("i1", TAG), "i1") == TAG


@pytest.mark.parametrize(
    "changed",
    [{"io.batchq.instance": "i2"}, {"io.batchq.attempt": "two"}, {"io.batchq.attempt": ""}],
)
def test_foreign_labels_belong_to_no_job(changed):
    assert tag_of(container_labels("i1", TAG) | changed, "i1") is None
    assert tag_of({}, "i1") is None


def test_image():
    assert config(image="busybox:1")["Image"] == "busybox:1"


@pytest.mark.parametrize(("millicpus", "shares"), [(250, 256), (1000, 1024), (64_000, 65_536), (1, 2)])
def test_vcpus_are_a_weight_and_not_a_limit(millicpus, shares):
    made = host(millicpus=millicpus)

    assert made["CpuShares"] == shares
    assert not {"NanoCpus", "CpuQuota"} & made.keys()


def test_memory_is_a_hard_limit_without_swap():
    made = host(memory_mib=128)

    assert (made["Memory"], made["MemorySwap"]) == (128 * MIB, 128 * MIB)


def test_the_smallest_memory_is_that_of_docker():
    assert host(memory_mib=4)["Memory"] == 6 * MIB


def test_gpus_are_requested_by_number_and_stored_in_a_label():
    made = config(gpus=2, inputs=LaunchInputs(gpus=("0", "3")))

    assert made["HostConfig"]["DeviceRequests"] == [
        {"Driver": "nvidia", "DeviceIDs": ["0", "3"], "Capabilities": [["gpu"]]}
    ]
    assert made["Labels"]["io.batchq.gpus"] == "0,3"
    assert host()["DeviceRequests"] == []


def test_command():
    assert config(command=("echo", "a b"))["Cmd"] == ["echo", "a b"]


def test_without_a_command_the_images_is_used_and_the_entrypoint_is_never_changed():
    made = config(command=())

    assert not {"Cmd", "Entrypoint"} & made.keys()


def test_environment():
    assert config(environment=(("A", "b=c"), ("EMPTY", "")))["Env"] == ["A=b=c", "EMPTY="]


@pytest.mark.fault("IN16")
def test_variables_of_batchq_override_secrets_which_override_those_of_the_job():
    launch = LaunchSpec(
        tag=TAG,
        spec=builders.container(environment=(("JOB", "job"), ("SECRET", "job"), ("BATCHQ", "job"))),
        environment=(("BATCHQ", "batchq"),),
    )
    inputs = LaunchInputs(secrets=(("SECRET", "secret"), ("BATCHQ", "secret")))

    made = build_create_request(launch, instance="i1", policy=OPEN, inputs=inputs)

    assert made.config["Env"] == ["JOB=job", "SECRET=secret", "BATCHQ=batchq"]


@pytest.mark.fault("SE11")
def test_secrets_are_only_in_the_environment():
    made = created(inputs=LaunchInputs(secrets=(("PASSWORD", "s3cret"),)))

    assert "PASSWORD=s3cret" in made.config["Env"]
    assert "s3cret" not in made.name + str(made.config["Labels"]) + str(made.config["HostConfig"])


def test_user():
    assert config(user="1000:1000")["User"] == "1000:1000"
    assert "User" not in config()


def test_privileged_is_set_where_it_is_permitted():
    assert host(privileged=True)["Privileged"] is True
    assert host()["Privileged"] is False


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


def test_processes_are_bounded():
    assert host()["PidsLimit"] == 8192


def test_read_only_root():
    assert host(read_only_root=True)["ReadonlyRootfs"] is True
    assert host()["ReadonlyRootfs"] is False


def test_ulimits():
    made = host(ulimits=(Ulimit(name="nofile", soft=10, hard=20),))

    assert made["Ulimits"] == [{"Name": "nofile", "Soft": 10, "Hard": 20}]


@pytest.mark.parametrize(
    ("permissions", "flags"),
    [
        ((), "rwm"),
        ((DevicePermission.READ,), "r"),
        ((DevicePermission.WRITE, DevicePermission.READ), "rw"),
        (tuple(DevicePermission), "rwm"),
    ],
)
def test_devices_have_their_permissions(permissions, flags):
    device = Device(host_path="/dev/a", container_path="/dev/b", permissions=permissions)

    made = host(devices=(device,))

    assert made["Devices"] == [{"PathOnHost": "/dev/a", "PathInContainer": "/dev/b", "CgroupPermissions": flags}]


def test_a_device_without_a_path_in_the_container_keeps_its_own():
    made = host(devices=(Device(host_path="/dev/a", container_path=""),))

    assert made["Devices"][0]["PathInContainer"] == "/dev/a"


def test_init_process():
    assert host(init=True)["Init"] is True
    assert host()["Init"] is False


def test_shared_memory():
    assert host(shared_memory_mib=32)["ShmSize"] == 32 * MIB
    assert "ShmSize" not in host()


def test_tmpfs():
    made = host(
        tmpfs=(
            Tmpfs(container_path="/t", size_mib=16, options=("noexec", "ro")),
            Tmpfs(container_path="/u", size_mib=1),
        )
    )

    assert made["Tmpfs"] == {"/t": "size=16m,noexec,ro", "/u": "size=1m"}


@pytest.mark.parametrize(("max_swap", "in_all"), [(0, 128), (64, 192)])
def test_swap_is_added_to_memory(max_swap, in_all):
    assert host(memory_mib=128, max_swap_mib=max_swap)["MemorySwap"] == in_all * MIB


def test_swappiness():
    assert host(max_swap_mib=64, swappiness=0)["MemorySwappiness"] == 0


def test_swappiness_without_swap_is_omitted():
    assert "MemorySwappiness" not in host(swappiness=60)


def test_swappiness_is_dropped_with_a_warning_on_a_kernel_without_it(caplog):
    made = host(max_swap_mib=64, swappiness=60, inputs=LaunchInputs(supports_swappiness=False))

    assert "MemorySwappiness" not in made
    assert [record.levelno for record in caplog.records] == [logging.WARNING]


def test_secret_options_of_a_log_driver_are_looked_up():
    logging = Logging(driver="splunk", options=(("splunk-url", "u"),))

    made = host(logging=logging, inputs=LaunchInputs(log_secrets=(("splunk-token", "t"),)))

    assert made["LogConfig"] == {"Type": "splunk", "Config": {"splunk-url": "u", "splunk-token": "t"}}


def test_volumes_are_mounts_and_never_binds():
    inputs = LaunchInputs(mounts=(Mount(container_path="/c", host_path="/h", read_only=True),))

    made = host(inputs=inputs)

    assert made["Mounts"] == [{"Type": "bind", "Source": "/h", "Target": "/c", "ReadOnly": True}]
    assert "Binds" not in made


def test_a_volume_without_a_path_is_anonymous():
    made = host(inputs=LaunchInputs(mounts=(Mount(container_path="/c", host_path=None),)))

    assert made["Mounts"] == [{"Type": "volume", "Target": "/c", "ReadOnly": False}]


@pytest.mark.parametrize("driver", [None, "awslogs", "json-file"])
def test_captured_output_is_kept_in_files_of_bounded_size(driver):
    made = host(logging=Logging(driver=driver, options=(("awslogs-group", "g"),)))

    assert made["LogConfig"] == {"Type": "json-file", "Config": {"max-size": "100m", "max-file": "5"}}


@pytest.mark.parametrize("driver", ["syslog", "journald", "gelf", "fluentd", "splunk"])
def test_other_log_drivers_are_passed_on(driver):
    made = host(logging=Logging(driver=driver, options=(("tag", "t"),)))

    assert made["LogConfig"] == {"Type": driver, "Config": {"tag": "t"}}


def test_platform():
    assert created(platform="linux/arm64").platform == "linux/arm64"
    assert created().platform is None


def test_the_engine_never_restarts_or_removes_a_container():
    made = host()

    assert made["RestartPolicy"] == {"Name": "no"}
    assert made["AutoRemove"] is False
