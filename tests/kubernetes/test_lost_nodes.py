"""Jobs on a node that left the cluster, with a whole server on the model of the API server."""

import pytest

from batchq.domain.enums import Status
from batchq.domain.status_reasons import HOST_TERMINATED
from tests.support.kubernetes_api import TWO_CORES, node
from tests.support.scripts import LASTING

pytestmark = pytest.mark.parametrize("world", ["model"], indirect=True)
OFF = {"key": "node.kubernetes.io/out-of-service", "effect": "NoExecute"}


def away(name, **changes):
    return node(name, TWO_CORES, ready=False, **changes)


async def node_of(world, job):
    return (await world.job(job)).attempt.containers[0].machine


@pytest.mark.parametrize("taints", [None, [OFF]])
async def test_a_job_is_retried_elsewhere_and_its_pod_removed(world, taints):
    job = await world.start(LASTING, attempts=2)
    lost, cluster = await node_of(world, job), world.machine.model

    cluster.lose_node(lost, taints and away(lost, taints=taints))

    await world.wait_until(job, lambda job: job.attempt is not None and job.attempt.number == 2)
    await world.wait_for(job, Status.RUNNING)
    first, second = (await world.job(job)).all_attempts
    assert first.status_reason == HOST_TERMINATED
    assert second.containers[0].machine != lost
    cluster.nodes.pop(lost, None)
    cluster.collect_pods()
    await world.wait_until(job, lambda _: len(cluster.pods) == 1)


async def test_a_job_on_a_node_that_does_not_answer_is_terminated_once_the_node_was_deleted(world):
    job = await world.start(LASTING, attempts=2)
    lost, cluster = await node_of(world, job), world.machine.model
    cluster.lose_node(lost, away(lost))
    await world.terminate(job, "enough")
    await world.sleep(3)
    assert (await world.job(job)).status is Status.RUNNING

    cluster.set_node(lost, None)

    done = await world.wait_for(job, Status.FAILED, status_reason="enough")
    assert len(done.attempts) == 1
    cluster.collect_pods()
