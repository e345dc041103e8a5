"""Pods that an admission webhook of the cluster changed: what it added never counts as a part of the job."""

import logging

import pytest

from batchq.ports.runtime import ContainerState
from tests.compute.kubernetes.conftest import name_of
from tests.support.containers import launch, new_tag, output, over, part_of, started
from tests.support.scripts import Script

LASTS, QUICK = Script(seconds=None, on_term=7, output=("ready",)), Script(seconds=0, exit_code=3, output=("done",))


def injects(*played, first=False):
    """A webhook that adds a container that plays the scripts."""

    def change(pod):
        env = [{"name": name, "value": value} for name, value in launch(*played).spec.environment]
        sidecar = {"name": "proxy", "image": "proxy:1", "env": env}
        own = pod["spec"]["containers"]
        pod["spec"]["containers"] = [sidecar, *own] if first else [*own, sidecar]
        pod["metadata"]["annotations"]["sidecar.example/injected"] = "true"

    return change


@pytest.mark.parametrize("first", [False, True])
async def test_a_job_ends_with_its_own_container_and_its_pod_is_removed(model, first):
    runtime, cluster = model
    cluster.webhook = injects(LASTS, first=first)
    tag = await started(runtime, QUICK)

    found = await over(runtime, tag)
    assert (found.exit_code, found.host_lost) == (3, False)
    assert [found.tag for found in await runtime.survey()] == [tag]
    assert await output(runtime, tag) == ["done"]

    await runtime.remove(tag)
    assert cluster.pods.get(name_of(tag), {"metadata": {}})["metadata"].get("finalizers", []) == []


async def test_the_end_of_an_added_container_ends_no_job(model):
    runtime, cluster = model
    cluster.webhook = injects(Script(seconds=0, exit_code=1))
    tag = await started(runtime, LASTS)

    assert (await runtime.inspect(tag)).state is ContainerState.RUNNING
    await runtime.signal_stop(tag)
    assert (await over(runtime, tag)).exit_code == 7


async def test_a_pod_with_an_added_container_is_killed_by_its_deadline(model):
    runtime, cluster = model
    cluster.webhook = injects(LASTS)
    tag = await started(runtime, Script(seconds=None))

    await runtime.kill(tag)

    assert (await over(runtime, tag)).exit_code == 137
    assert cluster.pods[name_of(tag)]["spec"]["activeDeadlineSeconds"] == 1


async def test_the_containers_of_a_task_are_removed_beside_an_added_one(model):
    runtime, cluster = model
    cluster.webhook = injects(LASTS, first=True)
    one = part_of(new_tag(), "0/one", QUICK, beside=("two",))
    two = part_of(one.tag, "0/two", QUICK, beside=("one",))
    for part in (one, two):
        await runtime.create(part)
        await runtime.start(part.tag)
        assert (await over(runtime, part.tag)).exit_code == 3

    for part in (one, two):
        await runtime.remove(part.tag)

    assert [pod["metadata"]["finalizers"] for pod in cluster.pods.values()] in ([], [[]])


async def test_a_change_of_the_jobs_own_container_is_logged_once(model, caplog):
    def change(pod):
        pod["spec"]["containers"][0] |= {"image": "mirror/busybox", "command": ["wrapper"]}

    runtime, cluster = model
    cluster.webhook = change
    container = launch(QUICK)
    with caplog.at_level(logging.INFO, logger="batchq.compute.kubernetes"):
        for _ in range(2):
            await runtime.create(container)

    (line,) = [record.getMessage() for record in caplog.records if "admission" in record.getMessage()]
    assert line == (
        f"pod {name_of(container.tag)}: the admission of the cluster changed its container main: "
        f"image {container.spec.image} -> mirror/busybox, command"
    )
