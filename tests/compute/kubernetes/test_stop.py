"""Stops: signals by exec, SIGKILL by the deadline of the pod, and the deletion of a pod without a shell."""

import asyncio
from datetime import timedelta

import pytest

from batchq.compute.kubernetes import log_reader, rest
from batchq.compute.kubernetes.pod_names import DELETED_FOR
from batchq.errors import ContainerGone, RuntimeUnknown
from batchq.ports.runtime import ContainerState
from tests.compute.kubernetes.conftest import name_of
from tests.support.containers import output, over, started
from tests.support.kubernetes import kubernetes_runtime
from tests.support.kubernetes_api import ModelCluster
from tests.support.kubernetes_logs import RotatedLog
from tests.support.scripts import Script

POLITE = Script(seconds=None, on_term=7, output=("ready",))
DEAF = Script(seconds=None, output=("ready",))
GRACE = timedelta(seconds=12.5)


def changes_of(cluster):
    """The methods of the requests that change pods, after the start."""
    return [method for method, _ in cluster.calls if method in {"PATCH", "DELETE"}]


async def test_a_signal_is_no_stop_of_the_kubelet(model):
    runtime, cluster = model
    tag = await started(runtime, DEAF)

    await runtime.signal_stop(tag, grace=GRACE)

    assert (await runtime.inspect(tag)).state is ContainerState.RUNNING
    assert changes_of(cluster) == []


async def test_a_kill_keeps_the_exit_code_and_the_log(model):
    runtime, cluster = model
    tag = await started(runtime, DEAF)
    await runtime.signal_stop(tag, grace=GRACE)

    await runtime.kill(tag)

    found = await over(runtime, tag)
    assert (found.exit_code, found.host_lost) == (137, False)
    assert await output(runtime, tag) == ["ready"]
    assert cluster.pods[name_of(tag)]["status"]["reason"] == "DeadlineExceeded"
    assert changes_of(cluster) == ["PATCH"]


async def test_a_change_that_the_server_gave_up_because_of_others_is_not_taken_for_done(model):
    """The API server repeats a patch five times while others change the pod, and then answers 409."""
    runtime, cluster = model
    tag = await started(runtime, DEAF)
    conflict = (409, "Operation cannot be fulfilled on pods: the object has been modified")
    cluster.fault = lambda method, _path: conflict if method == "PATCH" else None

    for change in (runtime.kill, runtime.remove):
        with pytest.raises(RuntimeUnknown, match="the object has been modified"):
            await change(tag)


async def test_an_image_without_a_shell_is_stopped_by_a_deletion_with_the_grace_of_the_step(model):
    runtime, cluster = model
    cluster.has_shell = False
    tag = await started(runtime, POLITE)

    await runtime.signal_stop(tag, grace=GRACE)

    found = await over(runtime, tag)
    metadata = cluster.pods[name_of(tag)]["metadata"]
    assert (found.exit_code, found.host_lost) == (7, False)
    assert metadata["annotations"][DELETED_FOR] == "stop"


async def test_the_first_grace_of_a_deletion_is_kept(caplog):
    async with kubernetes_runtime(ModelCluster(grace=0.5)) as (runtime, cluster):
        cluster.has_shell = False
        tag = await started(runtime, DEAF)
        await runtime.signal_stop(tag, grace=GRACE)
        assert cluster.pods[name_of(tag)]["metadata"]["deletionGracePeriodSeconds"] == 13

        await runtime.kill(tag)
        await runtime.kill(tag)

        assert changes_of(cluster) == ["PATCH", "DELETE"]
        assert caplog.text.count("Kubernetes keeps the first grace of a stop (13 s)") == 1
        assert (await over(runtime, tag)).exit_code == 137


async def test_the_log_of_a_container_that_a_deletion_stops_is_read_before(model):
    """The log of a deleted pod cannot be read after its end."""
    runtime, cluster = model
    cluster.has_shell = False
    tag = await started(runtime, POLITE)
    await runtime.signal_stop(tag, grace=GRACE)
    await over(runtime, tag)
    cluster.fault = lambda _method, path: (404, "gone") if path.endswith("/log") else None

    assert await output(runtime, tag) == ["ready"]
    await runtime.remove(tag)
    cluster.fault = lambda _method, _path: None
    with pytest.raises(ContainerGone):
        await output(runtime, tag)


async def test_the_log_of_a_container_that_a_deletion_stops_is_whole_after_a_long_silence(model, monkeypatch):
    """A container with a long grace may write nothing for minutes, and then its last lines."""
    runtime, cluster = model
    cluster.has_shell = False
    monkeypatch.setattr(rest, "STREAM_TIMEOUT", 0.1)
    monkeypatch.setattr(log_reader, "SILENCE", 0.1)
    tag = await started(runtime, DEAF)
    written = cluster.logs[name_of(tag)] = RotatedLog()
    await written.write("ready")
    await runtime.signal_stop(tag, grace=GRACE)
    await asyncio.sleep(0.4)

    await written.write("saved")
    await written.end()

    assert await output(runtime, tag) == ["ready", "saved"]


async def test_a_signal_that_is_not_to_end_a_container_without_a_shell_is_not_sent(model, caplog):
    runtime, cluster = model
    cluster.has_shell = False
    tag = await started(runtime, POLITE)

    await runtime.signal_stop(tag, "SIGUSR1")

    assert (await runtime.inspect(tag)).state is ContainerState.RUNNING
    assert "SIGUSR1 was not sent: its image has no shell" in caplog.text
    assert changes_of(cluster) == []


async def test_a_container_with_an_init_process_is_signalled_at_its_first_process(model):
    """Process 1 of its pod is the pause container, which a signal does not end."""
    runtime, cluster = model
    tag = await started(runtime, POLITE, init=True)

    await runtime.signal_stop(tag, grace=GRACE)

    assert (await over(runtime, tag)).exit_code == 7
    assert "PPid" in cluster.commands[-1]
    assert changes_of(cluster) == []


async def test_after_five_failed_commands_the_pod_is_deleted(model):
    runtime, cluster = model
    tag = await started(runtime, POLITE)
    cluster.fault = lambda _method, path: (500, "no connection") if path.endswith("/exec") else None

    for _ in range(4):
        with pytest.raises(RuntimeUnknown):
            await runtime.signal_stop(tag, grace=GRACE)
    await runtime.signal_stop(tag, grace=GRACE)

    assert (await over(runtime, tag)).exit_code == 7


async def test_a_pod_in_a_cluster_that_forbids_exec_is_deleted(model):
    runtime, cluster = model
    tag = await started(runtime, POLITE)
    cluster.fault = lambda _method, path: (403, "forbidden") if path.endswith("/exec") else None

    await runtime.signal_stop(tag, grace=GRACE)

    assert (await over(runtime, tag)).exit_code == 7


async def test_an_old_server_kills_by_a_deletion():
    async with kubernetes_runtime(ModelCluster(minor=20), allow_old=True) as (runtime, cluster):
        tag = await started(runtime, DEAF)

        await runtime.kill(tag)

        assert changes_of(cluster) == ["PATCH", "DELETE"]
        assert (await over(runtime, tag)).exit_code == 137
        assert await output(runtime, tag) == ["ready"]
