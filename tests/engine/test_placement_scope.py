"""A unit of work reads only the queues in which a job may start or become the head."""

from batchq.domain import events as on
from batchq.domain import status_reasons
from batchq.domain.job import Dependency, Status
from batchq.engine.mailbox import CatalogChanged
from batchq.engine.scheduling.queue_cache import QueueCache
from tests.domain.lives import after, cancel, exited, pending, runnable, running, started, terminate
from tests.engine.desk import LOOKED, ONE, desk_over, news, request, submit
from tests.engine.turns import ground
from tests.support.builders import environment, queue

FULL = 4000
FOR_VCPUS = status_reasons.no_room("vCPUs of compute environment local")


class Watched(QueueCache):
    """It remembers in which queues it was asked who waits."""

    def __init__(self, store):
        super().__init__(store)
        self.looked = []

    async def runnable(self, queue, *asked, **options):
        self.looked.append(queue)
        return await super().runnable(queue, *asked, **options)


async def desk_that_looked(*jobs, on_ground=None):
    """A desk over these jobs after its first unit of work; what it looks at from here on is in its `ahead`."""
    desk = await desk_over(*jobs, on_ground=on_ground)
    desk.ahead = desk.loop.scheduler.queue_cache = Watched(desk.store)
    await desk.process(LOOKED)
    desk.ahead.looked.clear()
    return desk


async def reason(desk, job):
    return (await desk.store.jobs([job.id]))[job.id].status_reason


async def test_a_job_submitted_behind_the_head_of_a_full_queue_reads_no_queue():
    desk = await desk_that_looked(running(millicpus=FULL), runnable())

    await desk.process(submit(ONE))

    assert desk.ahead.looked == []
    assert (await desk.store.jobs([ONE]))[ONE].status is Status.RUNNABLE


async def test_a_job_cancelled_behind_the_head_reads_no_queue():
    behind = runnable(order=9)
    desk = await desk_that_looked(running(millicpus=FULL), runnable(order=8), behind)

    await desk.process(request(behind, cancel()))

    assert desk.ahead.looked == []
    assert await desk.status(behind) is Status.FAILED


async def test_a_job_that_was_not_examined_starts_when_capacity_is_free():
    runs, head = running(millicpus=FULL), runnable()
    desk = await desk_that_looked(runs, head)
    await desk.process(submit(ONE))

    await desk.process(news(runs, exited(0)))

    assert [await desk.status(it) for it in (head, (await desk.store.jobs([ONE]))[ONE])] == [Status.STARTING] * 2


async def test_a_job_that_was_not_examined_starts_after_a_change_of_the_catalog():
    on_ground = ground()
    desk = await desk_that_looked(running(millicpus=FULL), runnable(), on_ground=on_ground)
    await desk.process(submit(ONE))
    on_ground.environments["local"] = environment(max_millicpus=2 * FULL)

    await desk.process(CatalogChanged())

    assert (await desk.store.jobs([ONE]))[ONE].status is Status.STARTING


async def test_an_older_job_that_becomes_runnable_is_the_new_head():
    runs, last = running(millicpus=FULL), running(millicpus=FULL)
    older, head = pending(order=1, depends_on=(Dependency(job_id=last.id),)), runnable(order=2)
    desk = await desk_that_looked(runs, last, older, head)

    await desk.process(news(last, exited(0)))

    assert [await reason(desk, it) for it in (older, head)] == [FOR_VCPUS, None]


async def test_the_job_behind_a_terminated_head_is_the_new_head():
    head, behind = runnable(order=8), runnable(order=9)
    desk = await desk_that_looked(running(millicpus=FULL), head, behind)

    await desk.process(request(head, terminate()))

    assert await reason(desk, behind) == FOR_VCPUS


async def test_a_job_behind_the_head_is_examined_while_capacity_is_free():
    desk = await desk_that_looked(running(millicpus=3000), runnable(millicpus=FULL, order=9))

    await desk.process(submit(ONE))

    assert desk.ahead.looked == ["default"]


async def test_a_job_that_begins_to_run_causes_no_placement():
    runs = running(millicpus=1000)
    desk = await desk_that_looked(runs, runnable(millicpus=FULL))

    await desk.process(news(runs, started()))

    assert desk.ahead.looked == []


async def test_an_empty_queue_is_read_once():
    runs = running()
    desk = await desk_that_looked(runs, on_ground=ground(queue(), queue("other")))

    await desk.process(news(runs, exited(0)))

    assert desk.ahead.looked == []


async def test_a_job_that_waits_in_a_queue_that_was_empty_starts_when_capacity_is_free():
    runs = running(millicpus=FULL)
    desk = await desk_that_looked(runs)
    await desk.process(submit(ONE))

    await desk.process(news(runs, exited(0)))

    assert (await desk.store.jobs([ONE]))[ONE].status is Status.STARTING


async def test_a_blocked_head_starts_when_capacity_is_free():
    runs, head = running(millicpus=FULL), after(runnable(), on.FoundBlocked(reason=FOR_VCPUS))
    desk = await desk_that_looked(runs, head)

    await desk.process(news(runs, exited(0)))

    assert await desk.status(head) is Status.STARTING


async def test_a_queue_whose_last_job_started_is_not_read_again():
    runs = running(millicpus=FULL)
    desk = await desk_that_looked(runs, runnable())
    await desk.process(news(runs, exited(0)))
    desk.ahead.looked.clear()

    await desk.process(submit(ONE))

    assert desk.ahead.looked == []
    assert (await desk.store.jobs([ONE]))[ONE].status is Status.STARTING


async def test_a_retried_job_waits_in_its_queue():
    again, other = running(attempts=2, millicpus=FULL), queue("other", priority=9)
    desk = await desk_that_looked(again, on_ground=ground(queue(), other))
    await desk.process(news(again, exited(1)), submit(ONE, queue="other", millicpus=FULL))

    await desk.process(news((await desk.store.jobs([ONE]))[ONE], exited(0)))

    assert await desk.status(again) is Status.STARTING


async def test_after_a_reload_every_queue_is_read():
    desk = await desk_that_looked(running(millicpus=FULL), runnable())

    await desk.loop.load()
    await desk.process(submit(ONE))

    assert desk.ahead.looked == ["default"]
