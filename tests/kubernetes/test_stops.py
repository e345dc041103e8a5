"""The ways to stop a container of a pod: each ends as docs/kubernetes.md says, in time, with its whole log.

Prints the seconds from the call to the end, of some pods that are stopped at once. The images are those of the bed.

A busy kubelet of 1.20 may lose the exit code of a container whose pod is deleted: the code is 137 then.
"""

import asyncio
import time
from collections import Counter
from contextlib import suppress
from datetime import timedelta
from statistics import median

import pytest
from msgspec.structs import replace

from batchq.domain.access.accounts import ContainerPolicy
from batchq.domain.container import Resources
from batchq.domain.task import TaskContainer
from batchq.engine.containers.executor import SIGNAL_RETRY_INTERVAL
from batchq.errors import ContainerGone, RuntimeUnknown
from batchq.ports.runtime import ContainerState
from tests.kubernetes.bed.__main__ import STATE, kill_on_nodes, request
from tests.kubernetes.conftest import on_cluster
from tests.support.containers import PATIENCE, launch, launched, new_tag, output, part_of, until_answered
from tests.support.scripts import AMPLE, IMAGE

ROUNDS, FEW = 20, 5  # pods that are stopped at once
GRACE = timedelta(seconds=3)
LATE = 30.0  # seconds that a busy machine may add
POLL_INTERVAL = 0.2  # seconds; more often would be a load that makes the stops slow
SMALL = Resources(millicpus=20, memory_mib=16)
SIGINT_IMAGE, NO_SHELL_IMAGE = "batchq-test:sigint", "batchq-test:entrypoint"
POLITE = "trap 'echo stopped; exit 7' TERM"
DEAF = "trap '' TERM"
pytestmark = [pytest.mark.kubernetes, pytest.mark.process, pytest.mark.timeout(300)]


@pytest.fixture
async def runtime():
    if not STATE.exists():
        pytest.skip("the cluster is not the bed of these tests")
    async with on_cluster() as runtime:
        yield runtime


def waiting(handler, sleep="sleep"):
    """A script that handles signals this way, at once because the sleep is in the background."""
    return f"{handler}; echo ready; {sleep} 600 & p=$!; while kill -0 $p 2>/dev/null; do wait $p; done"


def launch_of(handler, **changes):
    script = waiting(handler, "/busybox sleep" if changes.get("image") == NO_SHELL_IMAGE else "sleep")
    command = (script,) if changes.get("image") == NO_SHELL_IMAGE else ("sh", "-c", script)
    return launch(**{"image": IMAGE, "resources": SMALL, "command": command} | changes)


async def start(runtime, launches):
    """Start the containers at once, and wait until each has written `ready`. Returns their tags."""

    async def ready(container):
        tag = await until_answered(lambda: launched(runtime, container))
        while await output(runtime, tag) != ["ready"]:  # noqa: ASYNC110 - a cluster sets no event
            await asyncio.sleep(2 * POLL_INTERVAL)
        return tag

    return await asyncio.gather(*map(ready, launches))


async def signal_stop(runtime, tag, grace):
    """Send SIGTERM as the engine does, and repeat it until it is answered."""
    async with asyncio.timeout(PATIENCE):
        while True:
            try:
                return await runtime.signal_stop(tag, grace=grace)
            except RuntimeUnknown:
                await asyncio.sleep(SIGNAL_RETRY_INTERVAL)
            except ContainerGone:
                return None


async def stop(runtime, tag, grace):
    """Stop a container as the engine does. Returns the seconds until its end was seen, and its last inspection."""
    began = time.monotonic()
    await signal_stop(runtime, tag, grace)
    kill_at = time.monotonic() + grace.total_seconds()
    while True:
        with suppress(RuntimeUnknown, ContainerGone):
            found = await runtime.inspect(tag)
            if found.state is ContainerState.EXITED:
                return time.monotonic() - began, found
            if time.monotonic() > kill_at:
                await runtime.kill(tag)
        await asyncio.sleep(POLL_INTERVAL)


async def stop_all(runtime, tags, way, grace=GRACE):
    """Stop the containers at once. Returns the seconds and the inspections."""
    ends = await asyncio.gather(*(stop(runtime, tag, grace) for tag in tags))
    took, codes = [end[0] for end in ends], Counter(found.exit_code for _, found in ends)
    print(f"{way}: median {median(took):.1f} s, max {max(took):.1f} s, exit codes {dict(codes)}")
    return took, [found for _, found in ends]


@pytest.mark.parametrize("is_restricted", [False, True])
async def test_a_program_that_handles_sigterm_ends_by_itself_with_its_own_exit_code(runtime, is_restricted):
    """A restricted one has a read-only root, a numeric user and no capabilities."""
    spec = {"read_only_root": True, "user": "1000:1000"} if is_restricted else {}
    allowances = (ContainerPolicy(root=False),) if is_restricted else ()
    tags = await start(runtime, [replace(launch_of(POLITE, **spec), allowances=allowances) for _ in range(ROUNDS)])

    took, ends = await stop_all(runtime, tags, f"SIGTERM, handled{', restricted' if is_restricted else ''}", AMPLE)

    assert {(end.exit_code, end.host_lost) for end in ends} == {(7, False)}
    assert max(took) <= LATE
    assert [await output(runtime, tag) for tag in tags] == [["ready", "stopped"]] * ROUNDS


async def test_a_program_that_ignores_sigterm_is_killed_after_its_grace(runtime):
    tags = await start(runtime, [launch_of(DEAF) for _ in range(ROUNDS)])

    took, ends = await stop_all(runtime, tags, "SIGTERM, ignored, then the kill")

    assert {(end.exit_code, end.host_lost) for end in ends} == {(137, False)}
    assert GRACE.total_seconds() <= min(took) <= max(took) <= GRACE.total_seconds() + LATE
    assert [await output(runtime, tag) for tag in tags] == [["ready"]] * ROUNDS


async def test_a_program_of_an_image_with_stopsignal_sigint_gets_sigterm_and_sigint_before_the_kill(runtime):
    handler = "trap 'echo terminated' TERM; trap 'echo interrupted; exit 9' INT"
    tags = await start(runtime, [launch_of(handler, image=SIGINT_IMAGE) for _ in range(ROUNDS)])

    took, ends = await stop_all(runtime, tags, "STOPSIGNAL SIGINT, SIGTERM ignored, then the kill")

    assert {(end.exit_code, end.host_lost) for end in ends} <= {(9, False), (137, False)}
    assert GRACE.total_seconds() <= min(took) <= max(took) <= GRACE.total_seconds() + LATE
    logs = [await output(runtime, tag) for tag in tags]
    assert 9 in {end.exit_code for end in ends}
    for end, log in zip(ends, logs, strict=True):
        assert log[:2] == ["ready", "terminated"]
        assert log[2:] == ["interrupted"] or end.exit_code == 137


@pytest.mark.parametrize(
    ("handler", "grace", "exit_code"), [(POLITE, AMPLE, 7), (DEAF, GRACE, 137)], ids=["handled", "ignored"]
)
async def test_a_pod_of_an_image_without_a_shell_is_deleted_with_its_grace(runtime, handler, grace, exit_code):
    tags = await start(runtime, [launch_of(handler, image=NO_SHELL_IMAGE) for _ in range(ROUNDS)])

    took, ends = await stop_all(
        runtime, tags, f"no shell, SIGTERM {'handled' if handler is POLITE else 'ignored'}", grace
    )

    assert {(end.exit_code, end.host_lost) for end in ends} <= {(exit_code, False), (137, False)}
    assert max(took) <= GRACE.total_seconds() + LATE
    whole = ["ready", "stopped"] if handler is POLITE else ["ready"]
    assert [await output(runtime, tag) for tag in tags] == [whole] * ROUNDS


async def test_a_deletion_by_another_client_during_a_stop_ends_the_container_as_lost_with_its_host(runtime):
    """The log of a pod that another client deletes may be gone."""
    tags = await start(runtime, [launch_of(DEAF) for _ in range(FEW)])
    for tag in tags:
        await signal_stop(runtime, tag, GRACE)
    paths = [f"{runtime._pods.path}/{runtime._pods.name_of(tag)}" for tag in tags]
    options = {"gracePeriodSeconds": int(GRACE.total_seconds())}
    await asyncio.gather(*(asyncio.to_thread(request, path, "DELETE", options) for path in paths))

    took, ends = await stop_all(runtime, tags, "deleted by another client during the stop")

    assert {(end.exit_code, end.host_lost) for end in ends} == {(137, True)}
    assert max(took) <= GRACE.total_seconds() + LATE


@pytest.mark.timeout(90)
async def test_each_of_several_containers_that_share_process_ids_is_stopped_alone(runtime):
    """Their process 1 is the pause container."""
    tags = await start(runtime, [container for _ in range(FEW) for container in pair(new_tag())])
    polite, deaf = tags[::2], tags[1::2]

    took, ends = await stop_all(runtime, polite, "shared process ids, one container, SIGTERM handled", AMPLE)
    assert {(end.exit_code, end.host_lost) for end in ends} == {(7, False)}
    assert max(took) <= LATE
    assert {(await runtime.inspect(tag)).state for tag in deaf} == {ContainerState.RUNNING}
    assert [await output(runtime, tag) for tag in polite] == [["ready", "stopped"]] * FEW

    took, ends = await stop_all(runtime, deaf, "shared process ids, one container, SIGTERM ignored, then the kill")
    assert {(end.exit_code, end.host_lost) for end in ends} == {(137, False)}
    assert GRACE.total_seconds() <= min(took) <= max(took) <= GRACE.total_seconds() + LATE
    assert [await output(runtime, tag) for tag in deaf] == [["ready"]] * FEW


@pytest.mark.timeout(90)
async def test_one_of_several_containers_gets_sigterm_although_the_kubelet_was_killed_before(runtime):
    """Until the kubelet runs again, commands that send signals fail. A deletion would stop both containers."""
    polite, deaf = await start(runtime, pair(new_tag()))
    await asyncio.to_thread(kill_on_nodes, "kubelet")

    took, (end,) = await stop_all(runtime, [polite], "one container of two, SIGTERM handled, kubelet killed", AMPLE)

    assert (end.exit_code, end.host_lost) == (7, False)
    assert max(took) <= LATE
    assert await output(runtime, polite) == ["ready", "stopped"]
    assert (await runtime.inspect(deaf)).state is ContainerState.RUNNING


def pair(tag):
    """The launches of two containers of one pod, which share their process ids: `polite` handles SIGTERM."""
    polite, deaf = (
        part_of(tag, f"0/{name}", share_pids=True, resources=SMALL, command=("sh", "-c", waiting(handler)))
        for name, handler in (("polite", POLITE), ("deaf", DEAF))
    )
    # The first container that is created makes the pod, and so also the other container.
    return (
        replace(polite, beside=(TaskContainer(name="deaf", spec=deaf.spec),)),
        replace(deaf, beside=(TaskContainer(name="polite", spec=polite.spec),)),
    )
