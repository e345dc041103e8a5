"""What a job may not have, where only the disk and the engine know it: SE09, SE10."""

import pytest

from batchq.domain.container import Device, Mount
from batchq.domain.names import Tag
from batchq.domain.people import Allowance
from batchq.errors import StartRefused
from batchq.settings import Privileged
from batchq.values import Launch
from compute.docker_spec import LookedUp, Place, creation
from compute.held import judge, judged
from compute.policy import Policy
from tests.support.builders import container, job_id

SERVER = Policy(privileged=Privileged.ALLOW, volumes=())
NO_ROOT = Allowance(root=False)


def launch(allowance, **asked):
    return Launch(tag=Tag(job_id=job_id(1), attempt=1), spec=container(**asked), environment=(), allowance=allowance)


def made(*, user="", sources=(), **host):
    mounts = [{"Type": "bind", "Source": it} for it in sources]
    return {"Config": {"User": user}, "HostConfig": {"Mounts": mounts or None} | host}


def refuses(asked, inspected, why, *, policy=SERVER, fresh=False):
    with pytest.raises(StartRefused, match=why) as refused:
        judge(asked, policy, fresh=fresh, look=lambda: inspected)
    assert refused.value.forbidden


@pytest.mark.fault("SE09")
@pytest.mark.parametrize("user", ["", "root", "0", "app", None])
def test_an_image_whose_user_may_be_root_is_not_started(user):
    refuses(launch(NO_ROOT), made(user=user), "of its image is not by number another than root", fresh=True)


def test_an_image_of_a_numbered_user_is_started_without_what_is_roots():
    asked = launch(NO_ROOT)

    judge(asked, SERVER, fresh=True, look=lambda: made(user="1000:1000"))

    assert creation(asked, instance="i", policy=SERVER, looked=LookedUp()).config["HostConfig"]["CapDrop"] == ["ALL"]


@pytest.mark.parametrize("allowance", [None, Allowance()])
def test_who_may_be_root_is_started_without_another_look(allowance):
    judge(launch(allowance), SERVER, fresh=True, look=None)

    wanted = creation(launch(allowance), instance="i", policy=SERVER, looked=LookedUp())
    assert "CapDrop" not in wanted.config["HostConfig"]


@pytest.mark.fault("SE10")
def test_a_container_that_was_made_when_more_was_allowed_is_not_started(tmp_path):
    lab = Allowance(volumes=(str(tmp_path / "lab"),))
    server = Policy(privileged=Privileged.ALLOW, volumes=(tmp_path,))
    asked = launch(lab, mounts=(Mount(container_path="/v", host_path=str(tmp_path / "lab")),))

    judge(asked, server, fresh=False, look=lambda: made(sources=[str(tmp_path / "lab")]))
    refuses(asked, made(sources=[str(tmp_path / "other")]), "not below a path that its account", policy=server)
    refuses(asked, made(NetworkMode="host"), "network of the host", policy=server)


@pytest.mark.fault("SE10")
@pytest.mark.parametrize("had", [{"Privileged": True}, {"Devices": [{"PathOnHost": "/dev/fuse"}]}])
def test_a_container_that_was_made_by_a_server_that_gave_more_is_not_started(had):
    strict = Policy(privileged=Privileged.REFUSE, volumes=())

    refuses(launch(None, privileged=True), made(**had), "which this server gives no more", policy=strict)
    judge(launch(None, privileged=True), SERVER, fresh=False, look=lambda: made(**had))


@pytest.mark.fault("SE09")
def test_a_device_that_leads_elsewhere_is_refused(tmp_path):
    (tmp_path / "mine").symlink_to(tmp_path / "disk")
    asked = launch(
        Allowance(devices=(str(tmp_path / "other"),)),
        devices=(Device(host_path=str(tmp_path / "mine"), container_path="/dev/x"),),
    )

    refuses(asked, made(), "is not one that its account may use")


@pytest.mark.fault("SE09")
def test_the_network_of_the_host_is_given_to_whom_it_is_allowed():
    host = Place(network="host")

    assert [judged(host, it) for it in (None, Allowance(host_network=True))] == [host, host]
    assert [judged(it, Allowance()) for it in (None, Place(network="n"))] == [None, Place(network="n")]
    with pytest.raises(StartRefused, match="network of the host"):
        judged(host, Allowance())
