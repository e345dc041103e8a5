"""Pods of several containers: each has its own start, at most one, its own stop, and its own end."""

import asyncio
from contextlib import suppress
from random import Random

import pytest
from msgspec.structs import replace

from batchq.compute.kubernetes import pod_stop
from batchq.compute.kubernetes.pod_names import HELD_IMAGE, pod_name
from batchq.compute.kubernetes.pod_stop import MAX_KILLS
from batchq.domain.container import Secret, TextFile
from batchq.domain.task import TaskContainer
from batchq.errors import (
    ContainerGone,
    ContainerUnusable,
    ImageUnavailable,
    RuntimeUnknown,
    StartHadNoEffect,
    StartInterrupted,
)
from batchq.ports.runtime import ContainerState
from tests.compute.kubernetes.conftest import bound, name_of
from tests.support.containers import death_of, new_tag, output, over, part_of, started, until
from tests.support.examples import quick_seeds
from tests.support.kubernetes import INSTANCE, runtime_at, served
from tests.support.kubernetes_api import ModelCluster, node
from tests.support.scripts import Script

LASTS = Script(seconds=None, on_term=7, output=("ready",))
DEAF = Script(seconds=None, output=("ready",))
QUICK = Script(seconds=0, exit_code=3)
RUNNING = {"running": {"startedAt": "2026-01-01T00:00:00Z"}}


def pair(one=QUICK, two=QUICK, **changes):
    """The launches of the containers `one` and `two` of a task."""
    tag = new_tag()
    first, second = part_of(tag, "0/one", one, **changes), part_of(tag, "0/two", two, **changes)
    return (
        replace(first, beside=(TaskContainer(name="two", spec=second.spec),)),
        replace(second, beside=(TaskContainer(name="one", spec=first.spec),)),
    )


async def both_run(runtime, *scripts):
    launches = pair(*scripts)
    for launch in launches:
        await runtime.create(launch)
        await runtime.start(launch.tag)
    return [launch.tag for launch in launches]


def pod_of(cluster, tag):
    return cluster.pods[pod_name(INSTANCE, tag)]


def images_of(cluster, tag):
    return {container["name"]: container["image"] for container in pod_of(cluster, tag)["spec"]["containers"]}


def patches(fault):
    return lambda method, _path: fault if method == "PATCH" else None


async def test_the_first_create_stores_a_pod_whose_containers_are_all_held(model):
    runtime, cluster = model
    one, two = pair()

    made = await runtime.create(one)
    other = await runtime.create(two)

    assert images_of(cluster, one.tag) == {"one": HELD_IMAGE, "two": HELD_IMAGE}
    assert {made.container_id.partition("/")[0], other.container_id.partition("/")[0]} == {
        pod_of(cluster, one.tag)["metadata"]["uid"]
    }
    assert len(cluster.pods) == 1


async def test_a_start_of_one_container_does_not_start_the_other(model):
    runtime, cluster = model
    one, two = pair()
    made = await runtime.create(one)
    await runtime.create(two)

    await runtime.start(one.tag)

    assert (await over(runtime, one.tag)).exit_code == 3
    assert (await runtime.inspect(two.tag)).state is ContainerState.CREATED
    assert cluster.starts == {made.container_id: 1}


async def test_a_container_starts_after_all_others_have_ended(model):
    runtime, cluster = model
    one, two = pair()
    await runtime.create(one)
    await runtime.start(one.tag)
    await over(runtime, one.tag)

    made = await runtime.create(two)
    await runtime.start(two.tag)

    assert (await over(runtime, two.tag)).exit_code == 3
    assert cluster.starts[made.container_id] == 1


@pytest.mark.parametrize("fault", ["lost", "twice"])
async def test_a_start_without_a_reply_or_sent_twice_starts_the_container_once(model, fault):
    runtime, cluster = model
    one, _ = pair()
    made = await runtime.create(one)
    cluster.fault = patches(fault)

    with suppress(RuntimeUnknown):
        await runtime.start(one.tag)
    await runtime.start(one.tag)

    assert (await over(runtime, one.tag)).exit_code == 3
    assert cluster.starts == {made.container_id: 1}


async def test_a_late_start_does_not_start_a_removed_container(model):
    runtime, cluster = model
    tags = await both_run(runtime, LASTS, LASTS)
    started = dict(cluster.starts)
    one, two = pair()
    await runtime.create(one)
    await runtime.create(two)
    cluster.fault = patches("late")
    with pytest.raises(RuntimeUnknown):
        await runtime.start(two.tag)
    cluster.fault = lambda _method, _path: None
    await runtime.remove(two.tag)

    await cluster.run_late_calls()

    assert images_of(cluster, two.tag) == {"one": HELD_IMAGE, "two": HELD_IMAGE}
    assert cluster.starts == started
    assert len(tags) == 2


async def test_a_late_start_does_not_start_a_killed_container_again(model):
    runtime, cluster = model
    one, two = await both_run(runtime, DEAF, LASTS)
    await runtime.kill(one)
    await over(runtime, one)
    name = pod_name(INSTANCE, one)

    reply = await runtime._pods.start_container(cluster.pods[name], one, "batchq-test:latest")

    assert reply.status == 422
    assert set(cluster.starts.values()) == {1}
    assert (await runtime.inspect(two)).state is ContainerState.RUNNING


@pytest.mark.parametrize("seed", quick_seeds(2, of=6))
async def test_a_third_of_all_replies_lost_starts_each_container_at_most_once(seed):
    """Both containers of each task start at the same time; the server is replaced in between."""
    rng = Random(seed)
    cluster = ModelCluster()
    cluster.fault = lambda _method, path: (
        None if "watch" in path else rng.choice([None, None, None, None, "lost", "twice", "refused"])
    )

    async def answered(call, *arguments):
        while True:
            try:
                return await call(*arguments)
            except RuntimeUnknown:
                await asyncio.sleep(0)

    async def life(container):
        runtime = runtime_at(url)
        made = await answered(runtime.create, container)
        if rng.random() < 0.5:
            await runtime.close()
            runtime = runtime_at(url)
        await answered(runtime.create, replace(container, container_id=made.container_id))
        await answered(runtime.start, container.tag)
        assert (await answered(over, runtime, container.tag)).exit_code == 3
        assert cluster.starts[made.container_id] == 1
        return runtime

    async with served(cluster) as url, asyncio.timeout(60):
        for _ in range(3):
            launches = pair()
            runtimes = await asyncio.gather(*(life(launch) for launch in launches))
            for runtime, other_container in zip(runtimes, launches, strict=True):
                await answered(runtime.remove, other_container.tag)
                await runtime.close()
    assert set(cluster.starts.values()) == {1}
    assert cluster.pods == {}


async def test_a_kill_ends_one_container_with_its_exit_code_and_log_and_the_other_runs_on(model):
    runtime, cluster = model
    one, two = await both_run(runtime, DEAF, LASTS)

    await runtime.kill(one)

    found = await over(runtime, one)
    assert (found.exit_code, found.host_lost) == (137, False)
    assert await output(runtime, one) == ["ready"]
    assert (await runtime.inspect(two)).state is ContainerState.RUNNING
    assert "activeDeadlineSeconds" not in pod_of(cluster, one)["spec"]


async def test_the_pod_is_ended_if_its_kubelet_ignores_kills_and_no_other_container_runs(model, caplog):
    runtime, cluster = model
    cluster.ends_changed_containers = False
    one, two = await both_run(runtime, DEAF, DEAF)
    for _ in range(2 * MAX_KILLS):
        await runtime.kill(one)
    assert (await runtime.inspect(one)).state is ContainerState.RUNNING
    assert "activeDeadlineSeconds" not in pod_of(cluster, one)["spec"]

    await runtime.kill(two)
    await runtime.kill(one)

    assert {(await over(runtime, launch)).exit_code for launch in (one, two)} == {137}
    assert "does not kill it alone" in caplog.text


async def test_without_a_shell_no_signal_is_sent_and_the_kill_follows(model, caplog):
    """A deletion would stop the other containers of the pod as well."""
    runtime, cluster = model
    cluster.has_shell = False
    one, two = await both_run(runtime, LASTS, LASTS)

    await runtime.signal_stop(one)
    await runtime.kill(one)

    assert (await over(runtime, one)).exit_code == 7  # the image's stop signal comes before SIGKILL
    assert (await runtime.inspect(two)).state is ContainerState.RUNNING
    assert "SIGTERM was not sent: its image has no shell" in caplog.text


def fails(_method, path):
    return (500, "no connection") if path.endswith("/exec") else None


async def test_a_signal_is_repeated_until_the_node_runs_commands_again(model):
    """A kubelet that was started again refuses them for some seconds."""
    runtime, cluster = model
    one, two = await both_run(runtime, LASTS, LASTS)
    cluster.fault = fails
    for _ in range(20):
        with pytest.raises(RuntimeUnknown):
            await runtime.signal_stop(one)
    cluster.fault = lambda _method, _path: None

    await runtime.signal_stop(one)

    assert (await over(runtime, one)).exit_code == 7
    assert (await runtime.inspect(two)).state is ContainerState.RUNNING


async def test_a_signal_is_given_up_only_while_the_node_answers(model, monkeypatch, caplog):
    monkeypatch.setattr(pod_stop, "MAX_FAILED_SHARED_SIGNALS", 2)
    runtime, cluster = model
    one, _ = await both_run(runtime, LASTS, LASTS)
    name = pod_of(cluster, one)["spec"]["nodeName"]
    cluster.fault = fails
    cluster.set_node(name, node(name, ready=False))
    await until(lambda: is_away(runtime, name))
    for _ in range(5):
        with pytest.raises(RuntimeUnknown):
            await runtime.signal_stop(one)

    cluster.set_node(name, node(name))
    await until(lambda: is_away(runtime, name, away=False))
    with pytest.raises(RuntimeUnknown):
        await runtime.signal_stop(one)
    await runtime.signal_stop(one)

    assert "SIGTERM was not sent" in caplog.text


async def is_away(runtime, name, *, away=True):
    return [machine.name for machine in await runtime.machines() if bool(machine.away_since) is away].count(name) == 1


async def test_containers_that_share_process_ids_are_signalled_alone(model):
    runtime, cluster = model
    for container in (launches := pair(LASTS, LASTS, share_pids=True)):
        await runtime.create(container)
        await runtime.start(container.tag)

    await runtime.signal_stop(launches[0].tag)

    assert (await over(runtime, launches[0].tag)).exit_code == 7
    assert (await runtime.inspect(launches[1].tag)).state is ContainerState.RUNNING
    assert pod_of(cluster, launches[0].tag)["spec"]["shareProcessNamespace"] is True
    assert "PPid" in cluster.commands[-1]


async def test_an_image_that_cannot_be_pulled_refuses_one_container_alone(model):
    runtime, cluster = model
    cluster.missing_images["absent:1"] = "not found"
    one, two = pair(LASTS, QUICK)
    two = replace(two, spec=replace(two.spec, image="absent:1"))
    await runtime.create(one)
    await runtime.start(one.tag)
    made = await runtime.create(two)

    with pytest.raises(ImageUnavailable, match=r"^CannotPullContainerError: not found$"):
        await runtime.start(two.tag)
    with pytest.raises(ImageUnavailable, match=r"^CannotPullContainerError: not found$"):
        await runtime.start(two.tag)  # the reason is in the pod

    assert (await runtime.inspect(one.tag)).state is ContainerState.RUNNING
    assert (await runtime.inspect(two.tag)).state is ContainerState.CREATED
    assert cluster.starts[made.container_id] == 0
    await runtime.remove(two.tag)
    assert await runtime.inspect(two.tag) is None


async def test_a_node_that_refuses_a_pod_before_any_container_ran_has_it_replaced_once(manual):
    runtime, cluster = manual
    one, two = pair()
    made = [await runtime.create(launch) for launch in (one, two)]
    starting = asyncio.create_task(runtime.start(one.tag))
    await bound(cluster, pod_name(INSTANCE, one.tag))
    cluster.set_status(pod_name(INSTANCE, one.tag), phase="Failed", reason="OutOfcpu", message="too little cpu")
    with pytest.raises(StartHadNoEffect, match="too little cpu"):
        await starting

    with pytest.raises(ContainerUnusable):
        await runtime.create(replace(one, container_id=made[0].container_id))
    again = await runtime.create(one)
    # The container `two` was created in the first pod, none of whose containers ran.
    with pytest.raises(ContainerUnusable):
        await runtime.create(replace(two, container_id=made[1].container_id))
    other = await runtime.create(two)

    assert again.container_id != made[0].container_id
    assert other.container_id.partition("/")[0] == again.container_id.partition("/")[0]


async def test_a_container_of_a_pod_that_ended_with_its_node_is_lost_and_not_created_again(manual):
    runtime, cluster = manual
    one, two = pair()
    name = pod_name(INSTANCE, one.tag)
    await runtime.create(one)
    starting = asyncio.create_task(runtime.start(one.tag))
    await bound(cluster, name)
    cluster.set_container(name, RUNNING, "one", containerID="containerd://1")
    await starting
    cluster.set_container(name, {"terminated": {"reason": "Unknown", "exitCode": 255}}, "one")
    cluster.set_container(name, {"terminated": {"reason": "ContainerStatusUnknown", "exitCode": 137}}, "two")
    cluster.set_status(name, phase="Failed")

    await runtime.create(two)
    with pytest.raises(StartInterrupted):
        await runtime.start(two.tag)

    assert (await runtime.inspect(one.tag)).host_lost


async def test_a_pod_that_is_deleted_and_absent_is_lost_for_all_its_containers(model):
    runtime, cluster = model
    one, two = pair()
    made = [await runtime.create(launch) for launch in (one, two)]
    await runtime.start(one.tag)
    cluster.pods.clear()

    for launch, created in zip((one, two), made, strict=True):
        with pytest.raises(ContainerGone):
            await runtime.create(replace(launch, container_id=created.container_id))


async def test_the_end_of_each_container_is_reported(model):
    runtime, _ = model
    one, two = await both_run(runtime, LASTS, LASTS)
    async with runtime.deaths() as deaths:
        await runtime.signal_stop(two)
        assert (await death_of(deaths, two)).found.exit_code == 7

        await runtime.remove(one)
        await death_of(deaths, one)


async def test_a_survey_removes_a_pod_whose_last_container_was_removed(model):
    """The server ended between both requests."""
    runtime, cluster = model
    tags = await both_run(runtime, QUICK, QUICK)
    for tag in tags:
        await over(runtime, tag)
    cluster.fault = lambda method, _path: "refused" if method == "DELETE" else None
    await runtime.remove(tags[0])
    with pytest.raises(RuntimeUnknown):
        await runtime.remove(tags[1])
    cluster.fault = lambda _method, _path: None

    assert await runtime.survey() == ()

    assert cluster.pods == {}


async def test_a_pod_whose_removal_is_denied_does_not_hide_the_others(model):
    """As by an admission webhook of the cluster."""
    runtime, cluster = model
    tags = await both_run(runtime, QUICK, QUICK)
    for tag in tags:
        await over(runtime, tag)
    other = await started(runtime, LASTS)
    cluster.fault = lambda method, _path: (403, "denied the request") if method == "DELETE" else None
    for tag in tags:
        with suppress(RuntimeUnknown):
            await runtime.remove(tag)

    assert [found.tag for found in await runtime.survey()] == [other]

    cluster.fault = lambda _method, _path: None
    assert [found.tag for found in await runtime.survey()] == [other]
    assert [pod["metadata"]["name"] for pod in cluster.pods.values()] == [name_of(other)]


async def test_the_secret_of_a_pod_has_the_values_of_all_its_containers(tmp_path):
    from batchq.compute.secrets import Secrets  # noqa: PLC0415 - only here
    from tests.support.kubernetes import kubernetes_runtime  # noqa: PLC0415 - only here

    file = tmp_path / "secrets.json"
    file.write_text('{"db": "hidden"}')
    file.chmod(0o600)
    async with kubernetes_runtime(secrets=Secrets(file=file, environment={})) as (runtime, cluster):
        one, two = pair(secrets=(Secret(name="P", value_from="db"),), files=(TextFile(path="/f", content="text"),))
        await runtime.create(one)

        (secret,) = cluster.secrets.values()
        assert secret["stringData"] == {
            "one-env-0": "hidden",
            "two-env-0": "hidden",
            "one-file-0": "text",
            "two-file-0": "text",
        }
        assert two.tag.container == "two"


async def test_a_node_of_several_is_named_by_the_service_of_its_attempt(model):
    runtime, cluster = model
    tag = new_tag()
    main = replace(part_of(tag, "0/default", LASTS), nodes=2)
    other = replace(part_of(tag, "1/default", LASTS), nodes=2, is_main_node=False)
    for container in (main, other):
        await runtime.create(container)
        await runtime.start(container.tag)

    (service,) = cluster.services.values()
    specs = [pod_of(cluster, container.tag)["spec"] for container in (main, other)]
    assert service["spec"]["clusterIP"] == "None"
    assert service["spec"]["publishNotReadyAddresses"] is True
    assert all(
        pod_of(cluster, container.tag)["metadata"]["labels"].items() >= service["spec"]["selector"].items()
        for container in (main, other)
    )
    assert [spec["hostname"] for spec in specs] == ["node-0", "node-1"]
    assert {spec["subdomain"] for spec in specs} == {service["metadata"]["name"]}
    assert specs[1]["dnsConfig"]["searches"] == [f"{service['metadata']['name']}.jobs.svc.cluster.local"]
    await runtime.remove(main.tag)
    assert cluster.services == {}


async def test_a_pod_with_one_container_is_started_by_its_binding_alone(model):
    runtime, cluster = model
    container = part_of(new_tag(), "1/default", QUICK)

    made = await runtime.create(container)
    await runtime.start(container.tag)

    assert (await over(runtime, container.tag)).exit_code == 3
    assert made.container_id == f"{pod_of(cluster, container.tag)['metadata']['uid']}/default"
    assert [method for method, _ in cluster.calls if method == "PATCH"] == []
