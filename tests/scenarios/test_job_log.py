"""A follower of a job's log gets every line once, in order, from before the start to the end."""

import asyncio

import pytest

from batchq.domain.access.accounts import Caller
from batchq.domain.enums import Status
from batchq.domain.ids import child_id, node_id
from batchq.errors import Invalid, NotFound
from batchq.ports.logs import LogLine
from batchq.services.job_log import JobLogQuery
from tests.support.builders import gang, task
from tests.support.scripts import LASTING, Script, contained, lasting

EVE = Caller(user="eve", account="lab", lineage=("lab", "root"))
WAIT = 10.0  # seconds


async def read(world, job, *, caller=None, limit=100, wait=0.0, **fields):
    query = JobLogQuery(job_id=job, limit=limit, wait=wait, **fields)
    return await world.server.job_log.page(query, caller=caller or world.caller)


async def follow(world, job, *, wait=WAIT, **fields):
    """All lines until the log is over, with the number of the attempt of each."""
    lines, after = [], None
    while True:
        page = await read(world, job, after=after, wait=wait, **fields)
        lines += [(page.next.attempt, line.message) for line in page.lines]
        if page.over:
            return lines
        after = page.next


async def test_a_follower_waits_for_the_start_and_reads_to_the_end(world):
    blocker = await world.start(millicpus=4000)
    job = await world.submit(Script(seconds=1, output=("one", "two")), millicpus=4000)
    follower = asyncio.create_task(follow(world, job))
    await world.sleep(0.5)

    await world.finish(blocker)

    assert await follower == [(1, "one"), (1, "two")]


async def test_a_follower_continues_with_the_next_attempt(world):
    job = await world.submit(Script(seconds=1, exit_code=1, output=("again",)), attempts=2)

    assert await follow(world, job) == [(1, "again"), (2, "again")]
    assert await follow(world, job, attempt=1) == [(1, "again")]


async def test_pages_are_bounded_and_a_wait_ends_without_lines(world):
    job = await world.submit(lasting(output=("one", "two", "three")))
    await world.wait_for_output(job, "three")

    first = await read(world, job, limit=2)
    second = await read(world, job, limit=2, after=first.next)
    third = await read(world, job, limit=2, after=second.next, wait=1.0)

    assert [[line.message for line in page.lines] for page in (first, second, third)] == [["one", "two"], ["three"], []]
    assert not third.over
    assert third.next == second.next


async def test_the_last_lines_are_read_first_if_requested(world):
    job = await world.run(Script(seconds=0, output=("one", "two", "three")))

    assert await follow(world, job, tail=2) == [(1, "two"), (1, "three")]
    assert await follow(world, job, tail=0) == []


async def test_lines_from_a_time_on_are_read_if_requested(world):
    job = await world.run(Script(seconds=0, output=("one", "two")))
    second = (await read(world, job)).lines[1].at

    assert (1, "two") in await follow(world, job, since=second)
    assert await follow(world, job, since=second + 1) == []
    assert await follow(world, job, since=0, tail=1) == [(1, "two")]


async def test_a_child_that_its_array_never_created_is_refused_with_the_reason(world):
    failed = await world.submit(Script(seconds=0, exit_code=1))
    array = await world.run(LASTING, Status.FAILED, array_size=5, after=(failed,))

    with pytest.raises(NotFound, match=r"its array ended .FAILED. before it created this child"):
        await read(world, child_id(array, 3))
    with pytest.raises(NotFound, match="not found"):
        await read(world, child_id(array, 3), caller=EVE)


async def test_many_followers_share_the_copies_of_one_log(world):
    job = await world.submit(lasting(output=("one",)))
    await world.wait_for_output(job, "one")
    await world.sleep(1)
    before = world.runtime.log_reads

    pages = await asyncio.gather(*(follow_once(world, job) for _ in range(100)))

    assert [line.message for page in pages for line in page.lines] == []
    assert 1 <= world.runtime.log_reads - before <= 15


async def follow_once(world, job):
    first = await read(world, job)
    return await read(world, job, after=first.next, wait=2.0)


def messages(page):
    return [line.message for line in page.lines]


async def test_a_reader_gets_output_from_right_before_the_request(simulated, monkeypatch):
    lines = []

    async def logs(_tag, *, after):
        for line in lines:
            if line.at > after:
                yield line

    monkeypatch.setattr(simulated.runtime, "logs", logs)
    job = await simulated.start()
    assert messages(await read(simulated, job)) == []
    await simulated.sleep(0.1)  # less than the age up to which readers share a copy
    lines.append(LogLine(at=int(simulated.clock.now().timestamp() * 1e9), message="of a burst"))

    page = await read(simulated, job)

    assert (messages(page), page.incomplete) == (["of a burst"], False)


async def test_a_reader_waits_three_seconds_at_most_for_the_engine(simulated, monkeypatch):
    answers = asyncio.Event()

    async def logs(_tag, *, after):
        await answers.wait()
        yield LogLine(at=after + 1, message="late")

    monkeypatch.setattr(simulated.runtime, "logs", logs)
    job, loop = await simulated.start(), asyncio.get_running_loop()
    began = loop.time()

    page = await read(simulated, job)

    assert (messages(page), page.over, page.incomplete) == ([], False, True)
    assert loop.time() - began == pytest.approx(3, abs=0.1)
    reader = asyncio.create_task(read(simulated, job))
    await asyncio.sleep(2)
    answers.set()
    page = await reader
    assert (messages(page), page.incomplete) == (["late"], False)


async def test_the_log_of_a_job_that_never_started_is_over(world):
    await world.submit(LASTING, millicpus=4000)
    job = await world.submit(LASTING, millicpus=4000)

    await world.cancel(job)

    assert await follow(world, job) == []


async def test_an_array_is_read_by_child_from_before_its_children_exist(world):
    array = await world.submit(Script(seconds=0, output=("child",)), array_size=2)

    with pytest.raises(Invalid, match=f"{array}:0 to {array}:1"):
        await read(world, array)
    assert await follow(world, child_id(array, 1)) == [(1, "child")]
    with pytest.raises(NotFound):
        await read(world, child_id(array, 2))


async def test_a_task_is_read_by_container(world):
    done = Script(seconds=0, output=("app",))
    beside = Script(seconds=60, on_term=0, output=("beside",))
    both = task(contained("app", done), contained("sidecar", beside, essential=False))
    job = await world.run(task=both)

    with pytest.raises(Invalid, match="name one of app, sidecar"):
        await read(world, job)
    with pytest.raises(Invalid, match="has no container 'other'"):
        await read(world, job, container="other")
    assert await follow(world, job, container="app") == [(1, "app")]


async def test_a_multi_node_job_is_read_by_node(world):
    nodes = gang(2, each=task(contained("default", Script(seconds=1, on_term=0, output=("node",)))))
    job = await world.run(nodes=nodes)

    with pytest.raises(Invalid, match=f"{job}#0 to {job}#1"):
        await read(world, job)
    assert await follow(world, node_id(job, 0)) == [(1, "node")]
    with pytest.raises(NotFound):
        await read(world, node_id(job, 2))


async def test_others_do_not_see_that_the_job_exists(world):
    job = await world.run(Script(seconds=0, output=("secret",)))

    with pytest.raises(NotFound, match=f"Job {job} not found."):
        await read(world, job, caller=EVE)


async def test_a_forged_position_is_refused_or_empty(world):
    job = await world.run(Script(seconds=0, output=("one", "two")))
    page = await read(world, job, limit=1)

    for position in (1, 10**17):
        with pytest.raises(Invalid):
            await read(world, job, after=type(page.next)(attempt=1, position=position))
    other = await read(world, job, after=type(page.next)(attempt=7, position=0))
    assert (other.lines, other.over) == ((), True)
