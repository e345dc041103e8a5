"""The container policy of an account limits the use of the machine: faults.md 3, SE09."""

import pytest

from batchq.domain.access.accounts import ROOT, Account, Caller, ContainerPolicy, Directory, Owner, User
from batchq.domain.access.container_policy import below, container_refusal, require_allowed_containers, user_and_group
from batchq.domain.container import Device, Logging, Mount, Secret, Ulimit
from batchq.domain.enums import Role
from batchq.errors import Invalid
from tests.support.builders import container, definition, gang, spec, task, task_container

STRICT = ContainerPolicy()
GENEROUS = ContainerPolicy(privileged=True, devices=("/dev/dri",), volumes=("/data/lab",))


def work(**changes):
    return spec(**changes).nodes


def mounting(path):
    return container(mounts=(Mount(container_path="/v", host_path=path),))


def using(path):
    return container(devices=(Device(host_path=path, container_path=path),))


OF_THE_MACHINE = {
    "A privileged container": container(privileged=True),
    "Device '/dev/dri/card0' of the host": using("/dev/dri/card0"),
    "Host path '/data/lab/in'": mounting("/data/lab/in"),
}


@pytest.mark.fault("SE09")
@pytest.mark.parametrize("what", OF_THE_MACHINE)
def test_nothing_of_the_machine_is_permitted_by_default(what):
    requested = work(container=OF_THE_MACHINE[what])

    assert container_refusal(requested, STRICT, "lab") == f"{what} is not allowed to account lab."
    assert container_refusal(requested, GENEROUS, "lab") is None
    assert container_refusal(requested, None, "lab") is None


@pytest.mark.fault("SE09")
@pytest.mark.parametrize(
    "path", ["/data/lab/../other", "/data/lab/../../etc", "/data/labour", "/data", "//data", "/data/lab/x/../../y"]
)
def test_a_path_is_permitted_by_its_target_and_not_by_its_prefix(path):
    assert "is not allowed" in container_refusal(work(container=mounting(path)), GENEROUS, "lab")


@pytest.mark.parametrize("path", ["/data/lab", "/data/lab/", "//data/lab/x", "/data/./lab/x", "/../data/lab/x/../y"])
def test_paths_below_a_permitted_path_are_permitted(path):
    assert container_refusal(work(container=mounting(path)), GENEROUS, "lab") is None
    assert below(path, ["/"])


@pytest.mark.fault("SE09")
@pytest.mark.parametrize(
    "allowance", [None, ContainerPolicy(volumes=("/",))], ids=["an admin", "an account that may all"]
)
@pytest.mark.parametrize(
    "path",
    [
        "/",
        "//",
        "/x/..",
        "/proc",
        "/proc/1/root",
        "/sys/fs/cgroup",
        "/dev",
        "/dev/../dev/mem",
        "/run",
        "/run/docker.sock/x",
        "/run/podman",
        "/run/containerd/containerd.sock",
    ],
)
def test_engine_and_kernel_paths_are_never_permitted(path, allowance):
    assert "which no job may mount" in container_refusal(work(container=mounting(path)), allowance, ROOT)


SOCKETS = ["/run/docker.sock", "/var/run/docker.sock", "/run/../run/docker.sock", "/run/podman/podman.sock"]


@pytest.mark.parametrize("path", SOCKETS)
def test_the_socket_of_the_engine_needs_a_permission_of_its_own(path):
    requested = work(container=mounting(path))

    for refused in (STRICT, GENEROUS, ContainerPolicy(volumes=("/",))):
        assert container_refusal(requested, refused, "lab") == f"Host path {path!r} is not allowed to account lab."
    for permitted in (None, ContainerPolicy(engine_socket=True)):
        assert container_refusal(requested, permitted, "lab") is None


def test_paths_beside_the_engine_are_permitted():
    requested = [work(container=mounting(path)) for path in ("/var", "/run/user/1000", "/devices", "/proc.txt")]

    assert [container_refusal(spec, None, ROOT) for spec in requested] == [None] * len(requested)


TOO_LARGE = [str(2**31), str(2**32), "9" * 20, "1" * 5000]  # the engine reads them as other numbers, or as names


@pytest.mark.fault("SE32")
@pytest.mark.parametrize(
    "user",
    [
        *("", "root", "0", "00", "+0", "-0", "0:1000", "app", "toor", "1e3", "1000 ", "\u0661", ":1000", "0x3e8"),
        *("1000:0", "1000:00", "65534:staff", "1000:-1", "1:2:3"),
        *TOO_LARGE,
        *(f"1000:{group}" for group in TOO_LARGE),
    ],
    ids=lambda user: user[:12],
)
def test_a_user_or_group_that_is_not_a_positive_number_may_be_root(user):
    requested = work(container=container(user=user))

    assert user_and_group(user) is None
    refusal = container_refusal(requested, ContainerPolicy(root=False), "lab")
    assert "user and group are not numbers above 0" in refusal
    assert container_refusal(requested, STRICT, "lab") is None


@pytest.mark.fault("SE32")
@pytest.mark.parametrize(
    ("user", "both"),
    [
        ("1", "1:1"),
        ("1000", "1000:1000"),
        ("1000:", "1000:1000"),
        ("65534:100", "65534:100"),
        ("2147483647", "2147483647:2147483647"),
    ],
)
def test_a_positive_number_is_not_root_and_is_its_own_group(user, both):
    assert container_refusal(work(container=container(user=user)), ContainerPolicy(root=False), "lab") is None
    assert user_and_group(user) == both


@pytest.mark.fault("SE09")
@pytest.mark.parametrize(
    ("name", "hard", "permitted"), [("rtprio", 1, False), ("rtprio", -1, False), ("nofile", 9, True)]
)
def test_real_time_priorities_are_refused(name, hard, permitted):
    requested = work(container=container(ulimits=(Ulimit(name=name, soft=0, hard=hard),)))

    assert (container_refusal(requested, STRICT, "lab") is None) is permitted
    assert container_refusal(requested, GENEROUS, "lab") is None
    assert container_refusal(requested, None, "lab") is None


@pytest.mark.fault("SE31")
@pytest.mark.parametrize(
    ("allowance", "permitted"),
    [
        (ContainerPolicy(), True),
        (ContainerPolicy(volumes=("/data",)), False),
        (ContainerPolicy(volumes=("/data",), root=True), True),
        (ContainerPolicy(root=False), False),
    ],
)
def test_root_with_volumes_is_permitted_only_explicitly(allowance, permitted):
    assert allowance.permits_root is permitted
    assert (container_refusal(work(container=container(user="0")), allowance, "lab") is None) is permitted


def test_an_unspecified_user_is_checked_at_the_start():
    assert container_refusal(work(container=container()), ContainerPolicy(root=False), "lab") is None


@pytest.mark.parametrize(
    ("requested", "most", "why"),
    [
        ({"container": container(millicpus=2500)}, {"vcpus": 2.0}, "2.5 vCPUs are more than the 2 that are allowed"),
        ({"container": container(memory_mib=65)}, {"memory_mib": 64}, "65 MiB of memory are more than the 64"),
        ({"task": task(task_container("a"), task_container("b"))}, {"vcpus": 1.5}, "2 vCPUs are more than the 1.5"),
        ({"nodes": gang(4)}, {"vcpus": 3.0}, "4 vCPUs are more than the 3"),
    ],
)
def test_the_sum_of_a_job_is_within_the_limits_of_its_account(requested, most, why):
    assert why in container_refusal(work(**requested), ContainerPolicy(**most), "lab")


@pytest.mark.fault("SE39")
@pytest.mark.parametrize("of", ["container", "task", "nodes"])
def test_swap_counts_as_memory(of):
    greedy = {"memory_mib": 16, "max_swap_mib": 25}
    whole = task(task_container("a", **greedy), task_container("b", memory_mib=16))
    requested = {
        "container": {"container": container(memory_mib=32, max_swap_mib=33)},
        "task": {"task": whole},
        "nodes": {"nodes": gang(2, leader=task(), each=whole)},
    }[of]
    most = {"container": 64, "task": 56, "nodes": 184}[of]  # the other node has 128 MiB

    assert "of swap are more than" in container_refusal(work(**requested), ContainerPolicy(memory_mib=most), "lab")
    assert container_refusal(work(**requested), ContainerPolicy(memory_mib=most + 1), "lab") is None


def test_exactly_the_limit_is_permitted():
    exactly = ContainerPolicy(vcpus=4.0, memory_mib=512)

    assert container_refusal(work(nodes=gang(4)), exactly, "lab") is None


@pytest.mark.fault("SE09")
@pytest.mark.parametrize("of", ["task", "nodes"])
def test_each_container_of_a_job_is_checked(of):
    whole = task(task_container("app"), task_container("side", privileged=True))
    requested = {"task": {"task": whole}, "nodes": {"nodes": gang(2, leader=task(), each=whole)}}[of]

    assert "privileged" in container_refusal(definition(**requested).nodes, STRICT, "lab")


@pytest.mark.fault("SE09")
def test_a_caller_has_the_limits_of_the_account_and_an_admin_has_none():
    requested = definition(container=container(privileged=True))

    require_allowed_containers(requested.nodes, Caller(user="amy", account="lab", role=Role.ADMIN))
    require_allowed_containers(requested.nodes, Caller(user="ada", account="lab", allowance=GENEROUS))
    with pytest.raises(Invalid, match="A privileged container is not allowed to account lab"):
        require_allowed_containers(requested.nodes, Caller(user="ada", account="lab"))
    with pytest.raises(Invalid, match="is not allowed to account root"):
        require_allowed_containers(requested.nodes, Caller(user="oda", role=Role.OPERATOR))


@pytest.mark.fault("SE10")
def test_a_job_has_the_present_limits_of_its_account_and_owner():
    lab = Directory(
        accounts={"lab": Account(name="lab", allowance=GENEROUS), "team": Account(name="team", parent="lab")},
        users={"amy": User(name="amy", role=Role.ADMIN), "ada": User(name="ada", account="lab")},
    )

    assert lab.container_policy_of_owner(Owner(user="amy", account="lab")) is None
    assert lab.container_policy_of_owner(Owner(user="ada", account="team")) == GENEROUS
    assert lab.container_policy_of_owner(Owner(user="gone", account="team")) == GENEROUS
    assert lab.container_policy_of_owner(Owner(user="gone", account="gone")) == STRICT
    assert lab.caller("ada").container_policy == GENEROUS
    assert lab.caller("amy").container_policy is None


GIVEN = ContainerPolicy(log_drivers=("fluentd", "gelf", "journald", "splunk", "syslog"))


def logging(driver, secret=(), **options):
    named = tuple((name.replace("_", "-"), value) for name, value in options.items())
    secrets = tuple(Secret(name=name, value_from="S") for name in secret)
    return work(container=container(logging=Logging(driver=driver, options=named, secret_options=secrets)))


@pytest.mark.fault("SE21")
@pytest.mark.parametrize("driver", ["fluentd", "gelf", "journald", "splunk", "syslog"])
def test_a_log_driver_of_the_engine_must_be_permitted(driver):
    assert container_refusal(logging(driver), STRICT, "lab") == f"Log driver {driver!r} is not allowed to account lab."
    assert container_refusal(logging(driver), None, "lab") is None


@pytest.mark.parametrize("driver", [None, "json-file"])
def test_captured_output_needs_no_permission(driver):
    assert container_refusal(logging(driver, max_size="1k", mode="non-blocking"), STRICT, "lab") is None


@pytest.mark.parametrize(
    "requested",
    [
        logging("fluentd", fluentd_address="logs.example:24224", tag="job {{.Name}}"),
        logging("gelf", gelf_address="udp://[2001:db8::1]:12201", env="A,B"),
        logging("journald", tag="{{ .ImageName }}/{{.ID}}"),
        logging("splunk", ["splunk-token"], splunk_url="https://splunk.example:8088/"),
        logging("syslog", ["syslog-address"], syslog_facility="daemon"),
        logging("syslog", syslog_address="tcp+tls://10.0.0.1"),
    ],
)
def test_an_account_with_a_log_driver_may_send_to_the_network(requested):
    assert container_refusal(requested, GIVEN, "lab") is None


@pytest.mark.fault("SE21")
@pytest.mark.parametrize(
    "host",
    [
        *("localhost", "LOCALHOST.", "a.localhost", "127.0.0.1", "127.1", "2130706433", "0x7f000001", "0177.0.0.1"),
        *("0.0.0.0", "169.254.169.254", "[::1]", "[::]", "[::ffff:127.0.0.1]", "[fe80::1]", "[::7f00:1]", "224.0.0.1"),
        *("[fd00:ec2::254]", "168.63.129.16"),
    ],
)
def test_log_drivers_do_not_reach_the_machine_itself(host):
    for requested in (
        logging("gelf", gelf_address=f"tcp://{host}:80"),
        logging("splunk", splunk_url=f"http://{host}"),
        logging("fluentd", fluentd_address=host),
    ):
        assert "unless scheme://host:port elsewhere, is not allowed to account lab." in container_refusal(
            requested, GIVEN, "lab"
        )


@pytest.mark.fault("SE21")
@pytest.mark.parametrize(
    "requested",
    [
        logging("fluentd"),  # which the engine takes for its own 127.0.0.1
        logging("syslog", syslog_facility="auth"),  # which the engine takes for /dev/log
        logging("fluentd", fluentd_address="unix:///run/a.sock"),
        logging("syslog", syslog_address="unixgram:///dev/log"),
        logging("splunk", splunk_url="http://a.example@127.0.0.1:1"),
        logging("splunk", splunk_url="http://a.example#@127.0.0.1:1"),
        logging("syslog", syslog_address="tcp://[fe80::1%25lo]:1"),
        logging("splunk", splunk_url="https://a.example", splunk_capath="/etc/shadow"),
        logging("syslog", syslog_address="tcp+tls://a.example", syslog_tls_ca_cert="/etc/shadow"),
        logging("journald", mode="non-blocking", max_buffer_size="400m"),
        logging("fluentd", fluentd_address="a.example", fluentd_buffer_limit="10g"),
        logging("journald", ["max-buffer-size"]),
        logging("syslog", syslog_address="tcp://a.example", tag="x\r\nFLUSHALL"),
        logging("journald", tag="x{{println}}y"),
        logging("journald", tag="{{.Command}}"),
        logging("journald", env="A\n"),
    ],
)
def test_log_options_with_sockets_files_or_memory_of_the_engine_are_refused(requested):
    assert "is not allowed to account lab." in container_refusal(requested, GIVEN, "lab")
    assert container_refusal(requested, None, "lab") is None


@pytest.mark.parametrize(
    ("image", "registries"),
    [
        ("busybox:1", None),
        ("registry.example/a/b@sha256:1", None),
        ("busybox", ("docker.io/library",)),
        ("index.docker.io/team/app", ("docker.io/team",)),
        ("Registry.example:5000/team/app:1", ("registry.EXAMPLE:5000/team",)),
        ("127.0.0.1:5000/app", ("127.0.0.1:5000",)),
    ],
)
def test_images_of_permitted_registries_are_allowed(image, registries):
    assert (
        container_refusal(work(container=container(image=image)), ContainerPolicy(registries=registries), "lab") is None
    )


@pytest.mark.fault("SE34")
@pytest.mark.parametrize(
    ("image", "registries"),
    [
        *((f"{host}/a:1", None) for host in ("localhost", "LOCALHOST:1", "127.0.0.1:18801", "2130706433:80", "127.1")),
        ("169.254.169.254/latest/meta-data", None),
        ("busybox", ("registry.example",)),
        ("registry.example.evil/a", ("registry.example",)),
        ("registry.example/team-b/a", ("registry.example/team",)),
        ("registry.example:5000/a", ("registry.example",)),
        ("sha256:0123456789ab", ("registry.example",)),
        ("a.example/b", ()),
    ],
)
def test_an_image_of_any_other_registry_is_refused(image, registries):
    requested = work(container=container(image=image))

    assert f"of image {image!r} is not allowed to account lab." in container_refusal(
        requested, ContainerPolicy(registries=registries), "lab"
    )
    assert container_refusal(requested, None, "lab") is None
