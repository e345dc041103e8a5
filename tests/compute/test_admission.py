"""Requests of a job that are refused after a look at the disk or the engine: SE09, SE10."""

import pytest
from docker.errors import NotFound

from batchq.compute.docker import admission
from batchq.compute.docker.admission import check_image, check_launch, check_network, user_of
from batchq.compute.docker.create_request import LaunchInputs, build_create_request
from batchq.compute.docker.policy import ServerPolicy
from batchq.domain.access.accounts import ContainerPolicy
from batchq.domain.catalog import Network
from batchq.domain.container import Device, Logging, Mount
from batchq.domain.ids import Tag
from batchq.errors import ImageMissing, StartRefused
from batchq.ports.runtime import LaunchSpec
from batchq.settings import Privileged
from tests.support.builders import container, job_id
from tests.support.containers import containers_of

SERVER = ServerPolicy(privileged=Privileged.ALLOW, volumes=())
NO_ROOT = ContainerPolicy(root=False)


def launch(*allowances, **members):
    return LaunchSpec(
        tag=Tag(job_id=job_id(1), attempt=1), spec=container(**members), environment=(), allowances=allowances
    )


def made(*, user="", sources=(), **host):
    mounts = [{"Type": "bind", "Source": source} for source in sources]
    return {"Config": {"User": user}, "HostConfig": {"Mounts": mounts or None} | host}


def refuses(launched, inspected, why, *, policy=SERVER, is_new=False):
    with pytest.raises(StartRefused, match=why) as refused:
        check_launch(launched, policy, Network.SHARED, is_new=is_new, inspect=lambda: inspected)
    assert refused.value.forbidden


@pytest.mark.fault("SE09", "SE32")
@pytest.mark.parametrize("user", ["", "root", "0", "app", "1000:0", "1000:wheel"])
def test_an_image_whose_user_or_group_may_be_root_is_not_started(user):
    with pytest.raises(StartRefused, match="of its image is not a number above 0") as refused:
        user_of(launch(NO_ROOT), lambda: user)
    assert refused.value.forbidden
    refuses(launch(NO_ROOT), made(user=user, NetworkMode="n"), "which may be root or in the group of root")


@pytest.mark.fault("SE32")
@pytest.mark.parametrize("members", [{}, {"user": "1000"}, {"user": "1000:1000"}])
def test_without_root_a_container_is_created_with_a_user_and_a_group_of_its_own(members):
    assert user_of(launch(NO_ROOT, **members), lambda: "1000") == "1000:1000"


@pytest.mark.parametrize("allowances", [(), (ContainerPolicy(),)])
def test_where_root_is_permitted_the_requested_user_is_used(allowances):
    assert user_of(launch(*allowances), image_user=None) is None
    assert user_of(launch(*allowances, user="0"), image_user=None) == "0"


@pytest.mark.fault("SE31")
@pytest.mark.parametrize(
    ("allowances", "dropped"),
    [
        ((NO_ROOT,), ["ALL"]),
        ((ContainerPolicy(volumes=("/data",)),), ["ALL"]),
        ((ContainerPolicy(root=True),), ["MKNOD", "NET_RAW", "SETFCAP"]),
        ((ContainerPolicy(root=True), NO_ROOT), ["ALL"]),
        ((), None),
    ],
)
def test_capabilities_that_leave_traces_on_the_host_are_dropped_for_accounts(allowances, dropped):
    wanted = build_create_request(launch(*allowances), instance="i", policy=SERVER, inputs=LaunchInputs())

    assert wanted["HostConfig"].get("CapDrop") == dropped


def test_a_job_that_may_be_root_is_started_without_an_inspection():
    check_launch(launch(ContainerPolicy()), SERVER, Network.SHARED, is_new=True, inspect=None)


@pytest.mark.fault("SE10")
def test_a_container_created_under_a_wider_policy_is_not_started(tmp_path):
    lab = ContainerPolicy(volumes=(str(tmp_path / "lab"),), root=True)
    server = ServerPolicy(privileged=Privileged.ALLOW, volumes=(tmp_path,))
    launched = launch(lab, mounts=(Mount(container_path="/v", host_path=str(tmp_path / "lab")),))

    check_launch(launched, server, Network.SHARED, is_new=False, inspect=lambda: made(sources=[str(tmp_path / "lab")]))
    refuses(
        launched,
        made(sources=[str(tmp_path / "other")]),
        "path that the accounts of the job permit",
        policy=server,
    )
    refuses(launched, made(NetworkMode="host"), "host network", policy=server)


@pytest.mark.fault("SE10")
@pytest.mark.parametrize("had", [{"Privileged": True}, {"Devices": [{"PathOnHost": "/dev/fuse"}]}])
def test_a_container_created_under_wider_server_settings_is_not_started(had):
    strict = ServerPolicy(privileged=Privileged.REFUSE, volumes=())

    refuses(launch(privileged=True), made(**had), "which this server does not allow any more", policy=strict)
    check_launch(launch(privileged=True), SERVER, Network.SHARED, is_new=False, inspect=lambda: made(**had))


@pytest.mark.fault("SE09")
def test_a_device_link_to_a_forbidden_device_is_refused(tmp_path):
    (tmp_path / "mine").symlink_to(tmp_path / "disk")
    launched = launch(
        ContainerPolicy(devices=(str(tmp_path / "other"),)),
        devices=(Device(host_path=str(tmp_path / "mine"), container_path="/dev/x"),),
    )

    refuses(launched, made(), "is not allowed for the accounts of the job")


@pytest.mark.fault("SE09")
def test_the_network_of_the_host_is_given_to_permitted_accounts():
    for allowances in ([], [ContainerPolicy(host_network=True)]):
        check_network("host", allowances)
    for mode in (None, "n"):
        check_network(mode, [ContainerPolicy()])

    for allowances in ([ContainerPolicy()], [ContainerPolicy(host_network=True), ContainerPolicy()]):
        with pytest.raises(StartRefused, match="host network"):
            check_network("host", allowances)


GELF = (ContainerPolicy(log_drivers=("gelf",)),)


def logs_to(allowances, address, network=Network.SHARED):
    """The check uses the options that the engine has stored, which include secret ones."""
    launched = launch(*allowances, logging=Logging(driver="gelf", options=(("gelf-address", "udp://logs.example:1"),)))
    stored = {"Type": "gelf", "Config": {"gelf-address": address}}
    check_launch(launched, SERVER, network, is_new=True, inspect=lambda: made(LogConfig=stored))


@pytest.fixture
def answers(monkeypatch):
    """What names are resolved to."""
    addresses = []
    monkeypatch.setattr(
        admission, "getaddrinfo", lambda *_, **__: [(0, 0, 0, "", (address, 0)) for address in addresses]
    )
    return addresses


@pytest.mark.fault("SE21")
@pytest.mark.parametrize("address", ["udp://127.0.0.1:1", "unix:///run/secret.sock", ""])
def test_a_secret_address_of_a_log_driver_is_checked_once_known(address):
    with pytest.raises(StartRefused, match="unless scheme://host:port elsewhere, is not allowed") as refused:
        logs_to(GELF, address)

    assert refused.value.forbidden
    logs_to((), address)


@pytest.mark.fault("SE21")
@pytest.mark.parametrize("address", ["127.0.0.1", "::1", "fe80::1%eth0", "169.254.169.254"])
def test_a_name_of_the_machine_itself_is_refused_as_a_log_target(answers, address):
    answers += ["192.0.2.1", address]

    with pytest.raises(StartRefused, match="is an address of this machine, which is not allowed"):
        logs_to(GELF, "udp://logs.example:1")


def test_a_name_of_another_machine_is_permitted_as_a_log_target(answers):
    logs_to(GELF, "udp://logs.example:1")
    answers += ["192.0.2.1", "2001:db8::1"]
    logs_to(GELF, "udp://logs.example:1")


@pytest.mark.fault("SE21")
def test_log_drivers_are_refused_in_an_environment_without_a_network(answers):
    with pytest.raises(StartRefused, match="for jobs without a network"):
        logs_to(GELF, "udp://logs.example:1", Network.NONE)


@pytest.mark.fault("SE34")
def test_the_server_may_restrict_the_registries_of_all_jobs():
    server = ServerPolicy(privileged=Privileged.ALLOW, volumes=(), registries=("registry.example",))

    check_image(launch(image="registry.example/a"), server)
    with pytest.raises(StartRefused, match="is not allowed by this server") as refused:
        check_image(launch(image="127.0.0.1:1/a"), server)
    assert refused.value.forbidden


class EngineWithoutImages:
    def inspect_image(self, image):
        raise NotFound(image)


def creates(launched):
    """Create a container of a missing image."""
    containers_of("i", policy=SERVER).create(EngineWithoutImages(), launched)


@pytest.mark.fault("SE34")
def test_no_image_is_pulled_from_a_registry_on_the_machine_itself(answers):
    answers += ["192.0.2.1", "127.0.1.1"]

    with pytest.raises(StartRefused, match="is an address of this machine, which is not allowed") as refused:
        creates(launch(NO_ROOT, image="host:631/a"))
    assert refused.value.forbidden
    for allowed in (launch(NO_ROOT), launch(ContainerPolicy(root=False, registries=("host:631",)), image="host:631/a")):
        with pytest.raises(ImageMissing):
            creates(allowed)


@pytest.mark.fault("SE60")
def test_a_registry_is_resolved_unless_each_policy_lists_registries(answers):
    answers.append("127.0.0.1")
    listed, unlisted = ContainerPolicy(registries=("registry.example",)), ContainerPolicy()

    admission.check_pull(launch(listed, listed, image="registry.example/a"))
    for policies in ((listed, unlisted), (unlisted, listed)):
        with pytest.raises(StartRefused, match="is an address of this machine"):
            admission.check_pull(launch(*policies, image="registry.example/a"))


@pytest.mark.fault("SE60")
def test_one_policy_without_root_forbids_root():
    with pytest.raises(StartRefused, match="is not a number above 0"):
        user_of(launch(ContainerPolicy(root=True), NO_ROOT), lambda: "")
