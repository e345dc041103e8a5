"""The network of jobs on a real engine, and when their shared networks are removed."""

import asyncio

import pytest
from docker.errors import NotFound
from msgspec.structs import replace

from batchq.compute.docker.create_request import SharedNetwork, attempt_name, shared_network_name
from batchq.compute.docker.shared_networks import SharedNetworks
from batchq.domain.catalog import Network
from batchq.errors import RuntimeUnknown
from batchq.ports.runtime import ContainerState
from tests.support.containers import (
    docker_runtime,
    ended,
    instance_of,
    launch,
    launched,
    left_over,
    new_tag,
    output,
    output_of,
    over,
    part_of,
    tag_of,
    until,
    wait_for_line,
)
from tests.support.scripts import Script

pytestmark = pytest.mark.docker

LONG = Script(seconds=None, on_term=7, output=("ready",))
QUICK = Script(seconds=0, output=("done",))
LOCAL = SharedNetwork(environment="local")
ADDRESS = ("sh", "-c", "ip -4 -o addr show eth0 | awk '{print $4}'")


@pytest.fixture
async def shared(docker_engine):
    async with docker_runtime(docker_engine, network=Network.SHARED) as runtime:
        yield runtime


def shell(*lines):
    return {"command": ("sh", "-c", "; ".join(lines))}


def reads_from(port, at="localhost"):
    """A command that repeats a connection until it succeeds, and writes what it receives."""
    return f"until nc {at} {port} 2>/dev/null; do sleep 0.1; done"


def pause_container_of(engine, runtime):
    return engine.inspect_container(shared_network_name(instance_of(runtime), LOCAL))


def mode_of(engine, runtime, tag):
    return engine.inspect_container(attempt_name(instance_of(runtime), tag))["HostConfig"]["NetworkMode"]


async def dies(engine, runtime):
    """Kill the pause container."""
    pause = pause_container_of(engine, runtime)["Id"]
    engine.kill(pause)

    async def is_dead():
        return not engine.inspect_container(pause)["State"]["Running"]

    await until(is_dead)


# Shared


async def test_jobs_of_an_environment_share_localhost(shared):
    await launched(shared, launch(**shell("echo hello | nc -l -p 8080")))

    assert await output_of(shared, launch(**shell(reads_from(8080)))) == ["hello"]


async def test_jobs_of_an_environment_have_one_address_of_their_own(shared):
    first, second, elsewhere = launch(command=ADDRESS), launch(command=ADDRESS), launch(command=ADDRESS)

    addresses = [
        await output_of(shared, launch) for launch in (first, second, replace(elsewhere, placed_on="elsewhere"))
    ]

    assert addresses[0] == addresses[1] != addresses[2]


@pytest.mark.fault("SE29")
async def test_changes_of_etc_hosts_and_resolv_conf_do_not_reach_other_accounts(shared):
    forge = shell('echo "6.6.6.6 registry" >>/etc/hosts', 'echo "nameserver 6.6.6.6" >/etc/resolv.conf')
    reads = shell("cat /etc/hosts /etc/resolv.conf | grep -c 6.6.6.6")
    await output_of(shared, replace(launch(**forge), account="laba"))

    seen = [await output_of(shared, replace(launch(**reads), account=account)) for account in ("laba", "labb", "")]

    assert seen == [["2"], ["0"], ["0"]]


@pytest.mark.fault("SE29")
async def test_localhost_is_shared_within_an_account_only(shared):
    await launched(shared, replace(launch(**shell("echo hello | nc -l -p 8080")), account="a@b"))
    found = await ended(shared, **shell("nc localhost 8080"))

    assert await output_of(shared, replace(launch(**shell(reads_from(8080))), account="a@b")) == ["hello"]
    assert found.exit_code == 1


async def test_two_jobs_cannot_listen_on_one_port(shared):
    listens = "until grep -q ':1F90 ' /proc/net/tcp /proc/net/tcp6; do sleep 0.1; done"
    first = await launched(shared, launch(**shell(f"nc -l -p 8080 & {listens}", "echo ready", "wait")))
    await wait_for_line(shared, first, "ready")

    found = await ended(shared, **shell("nc -l -p 8080"))

    assert found.exit_code == 1


async def test_the_loopback_of_the_machine_is_not_reachable(shared, docker_engine):
    async with docker_runtime(docker_engine, network=Network.HOST) as on_host:
        server = await launched(on_host, launch(**shell("nc -l -p 28391 & echo ready; wait")))
        await wait_for_line(on_host, server, "ready")

        found = await ended(shared, **shell("nc localhost 28391"))

    assert found.exit_code == 1


async def test_names_are_resolved_as_in_other_containers(shared):
    assert await output_of(
        shared, launch(**shell("nslookup localhost >/dev/null; grep -c nameserver /etc/resolv.conf"))
    ) == ["1"]


async def test_the_death_of_a_pause_container_is_not_reported_and_ends_no_job(shared, engine):
    tag = await launched(shared, launch(LONG))
    async with shared.deaths() as deaths:
        await dies(engine, shared)
        assert (await shared.inspect(tag)).state is ContainerState.RUNNING
        await shared.kill(tag)

        assert tag_of(await anext(deaths)) == tag


async def test_a_later_job_gets_a_new_pause_container(shared, engine):
    await launched(shared, launch(LONG))
    before = pause_container_of(engine, shared)["Id"]
    await dies(engine, shared)
    container = launch(QUICK)

    await shared.create(container)
    with pytest.raises(RuntimeUnknown, match="start"):
        await shared.start(container.tag)
    await shared.create(container)
    await shared.start(container.tag)

    assert (await over(shared, container.tag)).exit_code == 0
    assert pause_container_of(engine, shared)["Id"] != before


async def test_a_started_container_is_never_created_again(shared, engine):
    container = launch(QUICK)
    made = await shared.create(container)
    await shared.start(container.tag)
    await over(shared, container.tag)
    engine.remove_container(pause_container_of(engine, shared)["Id"], force=True)

    again = await shared.create(replace(container, container_id=made.container_id))

    assert (again.container_id, again.state) == (made.container_id, ContainerState.EXITED)


async def test_concurrent_jobs_have_one_pause_container(shared, engine):
    launches = [launch(LONG) for _ in range(6)]

    await asyncio.gather(*(launched(shared, other_launch) for other_launch in launches))

    assert {mode_of(engine, shared, other_launch.tag) for other_launch in launches} == {
        f"container:{pause_container_of(engine, shared)['Id']}"
    }


async def test_the_next_server_uses_the_existing_pause_container(shared, engine, docker_engine):
    await launched(shared, launch(LONG))
    before = pause_container_of(engine, shared)["Id"]

    async with docker_runtime(
        docker_engine, network=Network.SHARED, instance=instance_of(shared), remove_after=False
    ) as again:
        await launched(again, launch(LONG))

    assert pause_container_of(engine, shared)["Id"] == before


async def test_the_last_job_removes_the_network(docker_engine):
    async with docker_runtime(docker_engine, network=Network.SHARED) as runtime:
        tag = await launched(runtime, launch(LONG))
        await runtime.remove(tag)
        assert len(left_over(docker_engine, instance_of(runtime))) == 2

    assert left_over(docker_engine, instance_of(runtime)) == []


async def test_the_network_is_kept_while_a_job_uses_it(docker_engine, engine):
    async with docker_runtime(docker_engine, network=Network.SHARED, remove_after=False) as runtime:
        tag = await launched(runtime, launch(LONG))

    assert pause_container_of(engine, runtime)["State"]["Running"]
    async with docker_runtime(docker_engine, network=Network.SHARED, instance=instance_of(runtime)) as again:
        await again.survey()
        await again.remove(tag)


async def test_an_unused_network_is_removed_after_a_while(shared, engine):
    networks = SharedNetworks(instance_of(shared), max_idle=1)
    tag = await launched(shared, launch(LONG))
    networks.update(engine)
    networks.update(engine)
    await shared.remove(tag)

    networks.update(engine)
    assert pause_container_of(engine, shared)["State"]["Running"]
    networks.update(engine)

    with pytest.raises(NotFound):
        pause_container_of(engine, shared)


async def test_a_dead_pause_container_is_replaced_when_it_is_needed(shared, engine):
    networks = SharedNetworks(instance_of(shared))
    await shared.create(launch())
    before = networks.join(engine, LOCAL)
    await dies(engine, shared)

    networks.update(engine)

    assert networks.join(engine, LOCAL) != before


# The other modes


async def test_on_a_bridge_each_job_has_its_own_address(docker_engine):
    async with docker_runtime(docker_engine, network=Network.BRIDGE) as runtime:
        running = await launched(runtime, launch(**shell(ADDRESS[2], "exec sleep 1000")))
        await until(lambda: _wrote(runtime, running))

        assert await output_of(runtime, launch(command=ADDRESS)) != await output(runtime, running)


async def _wrote(runtime, tag):
    return await output(runtime, tag) != []


async def test_on_the_network_of_the_host_jobs_have_its_addresses(docker_engine, engine):
    async with docker_runtime(docker_engine, network=Network.HOST) as runtime:
        container = launch(**shell("hostname"))

        assert await output_of(runtime, container) == [engine.info()["Name"]]


@pytest.mark.parametrize("network", Network)
async def test_a_container_without_a_node_finds_itself_as_algo_1_in_every_network(docker_engine, network):
    async with docker_runtime(docker_engine, network=network) as runtime:
        container = launch(**shell("ping -c 1 -w 5 algo-1 2>/dev/null | head -n 1 | cut -d: -f1"), named_nodes=True)

        assert await output_of(runtime, container) == ["PING algo-1 (127.0.0.1)"]


async def test_the_setting_of_the_environment_takes_precedence(shared):
    found = replace(launch(**shell("ls /sys/class/net")), network=Network.NONE)

    assert await output_of(shared, found) == ["lo"]


async def test_nodes_without_a_network_share_an_internal_one(docker_engine, engine):
    tag = new_tag()
    async with docker_runtime(docker_engine, network=Network.NONE) as runtime:
        main = await launched(runtime, part_of(tag, "0/default", **shell("echo hello | nc -l -p 8080")))
        address = (await runtime.inspect(main)).address

        received = await output_of(runtime, part_of(tag, "1/default", **shell(reads_from(8080, at=address))))

        assert received == ["hello"]
        assert engine.inspect_network(attempt_name(instance_of(runtime), tag))["Internal"]
