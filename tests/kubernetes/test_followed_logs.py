"""Logs that are followed: on the model of the API server, and on a cluster whose kubelets rotate them."""

from contextlib import aclosing

import pytest

from batchq.domain.enums import Status
from batchq.domain.ids import Tag
from tests.support.scripts import Script, lasting

BLOCKS, LINES = 10, 30_000  # of 3 MB together in a block; a kubelet rotates at 10 MiB, and compares each 10 s
PAUSE = 6  # seconds
NUMBERED = (
    f"block=0; while [ $block -lt {BLOCKS} ]; do first=$((block*{LINES})); "
    f"seq $first $((first+{LINES - 1})) | sed 's/$/ {100 * 'x'}/'; block=$((block+1)); sleep {PAUSE}; done"
)


async def lines_of(world, job_id):
    """All stored lines of the first attempt of a job."""
    tag, position, lines = Tag(job_id=job_id, attempt=1), 0, []
    while (page := await world.archive.read(tag.log_id, position=position, limit=10**5, max_bytes=2**24)).lines:
        lines += [line.message for line in page.lines]
        position = page.end
    return lines


async def follow_logs(world):
    world.follows_logs = True
    await world.restart()


async def test_a_followed_job_is_stopped_restarted_beside_and_read_as_any_other(world):
    await follow_logs(world)
    job = await world.start(lasting(7, output=("ready", "two")))
    await world.restart()

    await world.terminate(job, "enough")

    await world.wait_for(job, Status.FAILED, exit_codes=[7])
    await world.wait_until_containers_are_gone()
    assert await world.output(job) == ["ready", "two"]


@pytest.mark.kubernetes
@pytest.mark.timeout(300)
@pytest.mark.parametrize("world", ["cluster"], indirect=True)
async def test_no_line_of_a_rotated_log_is_lost_or_stored_twice(world):
    await follow_logs(world)
    job = await world.submit(Script(seconds=0), command=("sh", "-c", NUMBERED))
    await world.wait_for(job, Status.RUNNING)
    await world.restart()

    async def is_rotated():
        """Whether the API server does not show the first line any more."""
        await world.clock.sleep(1)
        async with aclosing(world.machine.logs(Tag(job_id=job, attempt=1), after=0)) as lines:
            async for line in lines:
                return not line.message.startswith("0 ")
        return False

    await world.until(is_rotated, "the log was not rotated")
    await world.wait_for(job, Status.SUCCEEDED)

    await world.wait_until_containers_are_gone()
    lines = await lines_of(world, job)
    print(*(line for line in lines if line.startswith("batchq: ")), sep="\n")
    numbers = [int(line.partition(" ")[0]) for line in lines if not line.startswith("batchq: ")]
    assert numbers == list(range(BLOCKS * LINES))
