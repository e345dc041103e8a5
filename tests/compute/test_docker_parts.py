"""Tasks and multi-node jobs on a real engine: what their containers share, and that nothing of it remains."""

import asyncio

import pytest
from msgspec.structs import replace

from batchq.compute.docker.create_request import (
    attempt_name,
    attempt_object_labels,
    container_name,
    pause_container_name,
)
from batchq.compute.secrets import Secrets
from batchq.domain.container import Logging, Mount, Secret
from batchq.errors import NameTaken, RuntimeUnknown, StartRefused
from batchq.ports.runtime import ContainerState
from tests.support.containers import (
    docker_runtime,
    instance_of,
    launched,
    left_over,
    new_tag,
    output_of,
    part_of,
    until,
    wait_for_line,
)
from tests.support.scripts import IMAGE, Script

pytestmark = pytest.mark.docker

LONG = Script(seconds=None, on_term=7, output=("ready",))
NAMES = ("main", "side")
SCRATCH = (Mount(container_path="/scratch", host_path=None, volume="scratch"),)


def shell(*lines):
    return {"command": ("sh", "-c", "; ".join(lines))}


def reads_from(host):
    """A command that repeats a connection until it succeeds, and writes what it receives."""
    return f"until nc {host} 8080 2>/dev/null; do sleep 0.1; done"


def member_of(tag, name, *played, **changes):
    """One of the two containers of a task."""
    return part_of(
        tag, f"0/{name}", *played, beside=tuple(other_name for other_name in NAMES if other_name != name), **changes
    )


def networks_of(engine, runtime, tag):
    labels = attempt_object_labels(instance_of(runtime), tag)
    return engine.networks(filters={"label": [f"{name}={value}" for name, value in labels.items()]})


def pause_container_of(engine, runtime, tag):
    return engine.inspect_container(pause_container_name(instance_of(runtime), tag))


# What they share


@pytest.mark.parametrize("host", ["localhost", "main"])
async def test_the_containers_of_a_task_reach_each_other_at_localhost_and_by_name(runtime, host):
    tag = new_tag()
    await launched(runtime, member_of(tag, "main", **shell("echo hello | nc -l -p 8080")))

    received = await output_of(runtime, member_of(tag, "side", **shell(reads_from(host))))

    assert received == ["hello"]


async def test_nodes_reach_each_other_by_address_and_by_name(runtime):
    tag = new_tag()
    serves = shell("echo hello | nc -l -p 8080", "echo again | nc -l -p 8080")
    main = await launched(runtime, part_of(tag, "0/default", **serves))
    address = (await runtime.inspect(main)).address
    reads = shell(*(reads_from(host) for host in (address, "node-0")))

    assert await output_of(runtime, part_of(tag, "1/default", **reads)) == ["hello", "again"]


async def test_named_nodes_reach_each_other_as_algo_n(runtime):
    tag = new_tag()
    serves, reads = shell("echo hello | nc -l -p 8080"), shell(reads_from("algo-1"))
    await launched(runtime, part_of(tag, "0/default", **serves, named_nodes=True))

    assert await output_of(runtime, part_of(tag, "1/default", **reads, named_nodes=True)) == ["hello"]


async def test_a_node_of_several_containers_has_one_address(runtime):
    tag = new_tag()
    await launched(runtime, member_of(tag, "main", **shell("echo hello | nc -l -p 8080")))

    received = await output_of(runtime, part_of(tag, "1/default", **shell(reads_from("node-0"))))

    assert received == ["hello"]


async def test_the_reported_address_is_that_of_the_container(runtime):
    tag = await launched(runtime, member_of(new_tag(), "main", **shell("hostname -i", "exec sleep 1000")))
    found = await runtime.inspect(tag)

    await wait_for_line(runtime, tag, found.address)


async def test_shared_processes_are_visible_and_their_orphans_are_reaped(runtime):
    tag = new_tag()
    await launched(runtime, member_of(tag, "main", share_pids=True, **shell("exec sleep 987")))
    looks = shell("(sleep 0.1 &)", "sleep 0.5", "ps | grep -c '[s]leep 987'", "ps -o stat | grep -c Z")

    assert await output_of(runtime, member_of(tag, "side", share_pids=True, **looks)) == ["1", "0"]


async def test_processes_are_not_shared_unless_requested(runtime):
    tag = new_tag()
    await launched(runtime, member_of(tag, "main", **shell("exec sleep 987")))

    assert await output_of(runtime, member_of(tag, "side", **shell("ps | grep -c '[s]leep 987'"))) == ["0"]


@pytest.mark.parametrize(("share", "seen"), [(True, ["it"]), (False, [])])
async def test_shared_memory_is_shared_where_requested(runtime, share, seen):
    tag = new_tag()
    main = await launched(runtime, member_of(tag, "main", share_ipc=share, **shell("touch /dev/shm/it", "echo done")))
    await wait_for_line(runtime, main, "done")

    assert await output_of(runtime, member_of(tag, "side", share_ipc=share, **shell("ls /dev/shm"))) == seen


async def test_a_shared_volume_outlives_the_container_that_wrote_it(runtime):
    tag = new_tag()
    await output_of(runtime, member_of(tag, "main", mounts=SCRATCH, **shell("echo hello > /scratch/it")))
    side = member_of(tag, "side", mounts=SCRATCH, **shell("cat /scratch/it"))
    await runtime.create(side)

    await runtime.remove(replace(tag, container_key="0/main"))

    assert await output_of(runtime, side) == ["hello"]


async def test_a_shared_volume_belongs_to_its_node(runtime):
    tag = new_tag()
    await output_of(runtime, part_of(tag, "0/default", mounts=SCRATCH, **shell("echo hello > /scratch/it")))

    assert await output_of(runtime, part_of(tag, "1/default", mounts=SCRATCH, **shell("ls /scratch"))) == []


async def test_shared_parts_are_removed_with_the_last_container(runtime, docker_engine):
    tag = new_tag()
    tags = [await launched(runtime, member_of(tag, name, LONG, mounts=SCRATCH)) for name in NAMES]
    tags.append(await launched(runtime, part_of(tag, "1/default", LONG, mounts=SCRATCH)))
    # three containers and a pause container, a network, two volumes
    assert len(left_over(docker_engine, instance_of(runtime))) == 7

    await asyncio.gather(*(runtime.remove(tag) for tag in tags))

    assert left_over(docker_engine, instance_of(runtime)) == []


async def test_the_clean_up_of_a_failed_create_leaves_nothing(runtime, docker_engine):
    container = member_of(new_tag(), "main", mounts=(Mount(container_path="relative", host_path=None),))
    with pytest.raises(StartRefused):
        await runtime.create(container)

    await runtime.remove(container.tag)

    assert left_over(docker_engine, instance_of(runtime)) == []


# The pause container


async def test_a_pause_container_has_no_rights_and_no_job(runtime, engine):
    tag = await launched(runtime, member_of(new_tag(), "main", LONG))

    pause = pause_container_of(engine, runtime, tag)

    assert [found.tag for found in await runtime.survey()] == [tag]
    assert pause["HostConfig"]["RestartPolicy"]["Name"] == "no"
    assert pause["HostConfig"]["CapDrop"] == ["ALL"]
    assert pause["Config"]["Entrypoint"] == ["/pause"]


async def test_without_its_pause_container_a_container_has_no_address(runtime, engine):
    tag = await launched(runtime, member_of(new_tag(), "main", LONG))
    engine.remove_container(pause_container_of(engine, runtime, tag)["Id"], force=True)

    found = await runtime.inspect(tag)

    assert (found.state, found.address) == (ContainerState.RUNNING, None)


async def test_a_foreign_container_is_no_pause_container(runtime, engine):
    container = member_of(new_tag(), "main")
    foreign = engine.create_container(IMAGE, ["true"], name=pause_container_name(instance_of(runtime), container.tag))

    with pytest.raises(NameTaken):
        await runtime.create(container)

    await runtime.remove(container.tag)
    assert engine.inspect_container(foreign["Id"])["State"]["Status"] == "created"
    engine.remove_container(foreign["Id"])


# Many at once, restarts, and others at the same engine


async def test_concurrent_creates_make_one_network_and_one_pause_container(runtime, engine):
    tag = new_tag()
    names = [f"c{number}" for number in range(6)]
    launches = [
        part_of(tag, f"0/{name}", LONG, beside=tuple(other_name for other_name in names if other_name != name))
        for name in names
    ]

    await asyncio.gather(*(launched(runtime, launch) for launch in launches))

    addresses = {(await runtime.inspect(launch.tag)).address for launch in launches}
    assert len(addresses) == 1
    assert len(networks_of(engine, runtime, tag)) == 1


async def test_after_a_restart_the_other_containers_join_the_same_parts(runtime, docker_engine):
    tag = new_tag()
    main = await launched(runtime, member_of(tag, "main", LONG))
    before = (await runtime.inspect(main)).address

    async with docker_runtime(docker_engine, instance=instance_of(runtime)) as again:
        side = await launched(again, member_of(tag, "side", LONG))

        assert (await again.inspect(side)).address == before
        assert {found.tag for found in await again.survey()} == {main, side}


async def remove_network(engine, runtime, tag):
    pause = pause_container_of(engine, runtime, tag)
    engine.remove_container(pause["Id"], force=True)
    engine.remove_network(attempt_name(instance_of(runtime), tag))


async def remove_pause_container(engine, runtime, tag):
    engine.remove_container(pause_container_of(engine, runtime, tag)["Id"], force=True)


async def kill_pause_container(engine, runtime, tag):
    engine.kill(pause_container_of(engine, runtime, tag)["Id"])


@pytest.mark.parametrize("harm", [remove_network, remove_pause_container, kill_pause_container])
async def test_a_container_whose_shared_parts_were_removed_before_its_start_gets_new_ones(runtime, engine, harm):
    container = member_of(new_tag(), "main", LONG)
    await runtime.create(container)
    await harm(engine, runtime, container.tag)
    with pytest.raises((StartRefused, RuntimeUnknown)) as refused:
        await runtime.start(container.tag)
    assert not getattr(refused.value, "certain", False)

    assert (await runtime.create(container)).state is ContainerState.CREATED
    await runtime.start(container.tag)

    assert (await runtime.inspect(container.tag)).address is not None


async def test_a_node_of_one_container_whose_network_was_removed_gets_another(runtime, engine):
    container = part_of(new_tag(), "0/default", LONG)
    await runtime.create(container)
    engine.remove_network(attempt_name(instance_of(runtime), container.tag))
    with pytest.raises(StartRefused) as refused:
        await runtime.start(container.tag)
    assert not refused.value.certain

    await launched(runtime, container)

    assert (await runtime.inspect(container.tag)).address is not None


async def test_a_running_container_is_never_created_again(runtime, engine):
    container = member_of(new_tag(), "main", LONG)
    await launched(runtime, container)
    before = engine.inspect_container(container_name(instance_of(runtime), container.tag))["Id"]
    await remove_pause_container(engine, runtime, container.tag)

    assert (await runtime.create(container)).state is ContainerState.RUNNING

    assert engine.inspect_container(container_name(instance_of(runtime), container.tag))["Id"] == before


# Secrets


@pytest.mark.parametrize(
    ("address", "quoted"),
    [("udp://hidden.invalid:514x", True), ("tcp://hidden.invalid:514", True), ("hidden", False)],
    ids=["with a bad port", "of no host", "without a scheme, which newer engines do not quote"],
)
async def test_secret_options_of_a_log_driver_are_in_no_reason(docker_engine, address, quoted):
    secrets = Secrets(file=None, environment={"BATCHQ_SECRET_LOGS": address})
    logging = Logging(driver="syslog", secret_options=(Secret(name="syslog-address", value_from="LOGS"),))
    container = part_of(new_tag(), "0/default", LONG, logging=logging)

    async with docker_runtime(docker_engine, secrets=secrets) as runtime:
        with pytest.raises(StartRefused) as refused:
            await launched(runtime, container)
        await runtime.remove(container.tag)

    assert "hidden" not in refused.value.reason
    assert not quoted or "***" in refused.value.reason


# What a crash left


async def test_shared_parts_left_by_a_crash_are_removed_when_seen_twice(runtime, engine, docker_engine):
    container = member_of(new_tag(), "main", mounts=SCRATCH)
    await runtime.create(container)
    engine.remove_container(container_name(instance_of(runtime), container.tag))
    await runtime.survey()
    assert len(left_over(docker_engine, instance_of(runtime))) == 3

    async def is_swept():
        await runtime.survey()
        return left_over(docker_engine, instance_of(runtime)) == []

    await until(is_swept)


async def sweep_done(runtime):
    await asyncio.gather(*runtime._sweep_tasks._tasks.values())


async def test_shared_parts_in_use_are_never_removed(runtime, engine):
    container = member_of(new_tag(), "main", LONG)
    await runtime.create(container)
    for _ in range(3):
        await runtime.survey()
        await sweep_done(runtime)

    await runtime.start(container.tag)

    assert (await runtime.inspect(container.tag)).address is not None


async def test_shared_parts_of_another_instance_are_not_changed(runtime, engine, docker_engine):
    async with docker_runtime(docker_engine) as other:
        container = member_of(new_tag(), "main")
        await other.create(container)
        engine.remove_container(container_name(instance_of(other), container.tag))
        await runtime.remove(container.tag)
        for _ in range(3):
            await runtime.survey()
            await sweep_done(runtime)

        assert len(left_over(docker_engine, instance_of(other))) == 2
        await other.remove(container.tag)
