"""The end of a run: without further faults every job finishes in time; then the remaining state is checked."""

from datetime import datetime, timedelta
from decimal import Decimal
from itertools import pairwise

from batchq.domain.cost import cost_of
from batchq.domain.enums import FINISHED, Status
from batchq.domain.ids import parent_of
from batchq.domain.job import Job
from batchq.domain.lifecycle.status import EDGES
from batchq.engine.budgets import CHECK_INTERVAL
from tests.simulation.container_records import ContainerRecord
from tests.simulation.dependency_checks import counterparts, waits
from tests.simulation.server import SURVEY_INTERVAL
from tests.simulation.submissions import specs

SETTLE_TIMEOUT = timedelta(minutes=60)
KILL_TIMEOUT = timedelta(seconds=5)  # beyond its grace
ROUNDING = Decimal(4) / 10**9  # of the stored amounts of an attempt that runs on up to four days
IDLE_TIME = 21.0  # seconds in which the server should do nothing


async def settle(world) -> None:
    """Terminate jobs that would run for ever; cancel jobs that can never be placed, once all others are finished."""
    ends = world.clock.now() + SETTLE_TIMEOUT
    unending = [job_id for job_id in world.unfinished() if _runs_forever(world.invariants.jobs[job_id])]
    for job_id in unending:
        await world.client.end(job_id)
    ordered = world.clock.now()
    await until(world, lambda: all(_never_ends(world, job_id) for job_id in world.unfinished()), ends)
    _check_kill_times(world, unending, ordered)
    for job_id in world.unfinished():
        await world.client.end(job_id, by_cancel=True)
    await until(world, lambda: not world.unfinished() and _left(world) <= world.invariants.orphans.keys(), ends)
    if _left(world):
        world.server.leave()  # the next one finds them when it starts
        await world.clock.sleep(1)
        await world.ready()
    await until(world, lambda: not world.unfinished() and not _left(world), ends)


def _left(world):
    return {tag for each in world.engines for tag in each.engine.containers}


def _is_empty(world):
    """I4, I15: no container was created on the other engine."""
    return not world.other_engine.engine.containers and not world.other_engine.engine.networks


async def check(world) -> None:
    """I9: nothing is left over. I12: the server is idle. I1, I3: the store has what was committed."""
    # The effects of the last unit of work are carried out after its commit. The next check of the budgets may find that
    # the last attempts have crossed one.
    await world.clock.sleep(1 + CHECK_INTERVAL if world.invariants.budgets.budgets else 1)
    calls = world.run_log.counts["engine calls"]
    changes = len(world.run_log.lines)
    await world.clock.sleep(IDLE_TIME)
    if not world.server.is_idle():
        await world.clock.sleep(0.5)  # a survey may be under way
    engine, state = world.server.engine, world.server.engine.loop.state
    if not world.server.is_idle() or state.active:
        world.run_log.fail("I9 nothing is left over", f"{engine.tasks.names} {state.active}")
    health = engine.health()
    if health.engine is not None or (
        set(health.loops.values()) != {"ok"} and not world.run_log.counts["bugs reported"]
    ):
        world.run_log.fail("I12 the server is healthy", f"{health}")
    surveys = IDLE_TIME / SURVEY_INTERVAL + 1
    if world.run_log.counts["engine calls"] - calls > 2 * surveys or len(world.run_log.lines) != changes:
        world.run_log.fail("I12 an idle server makes no calls", "\n".join(world.run_log.lines[changes:]))
    networks = [each.engine.networks for each in world.engines if each.engine.networks]
    if networks or not _is_empty(world):
        world.run_log.fail("I9 nothing is left over", f"{networks}")
    if await world.server.store.bulk_stops():
        world.run_log.fail("I9 nothing is left over", "an order to stop jobs")
    if state.counts.read() != await world.server.store.unfinished_counts():
        world.run_log.fail("I1 the counts are those of the store", f"{state.counts.read()}")
    await _check_store(world)
    await world.invariants.budgets.check_end(world)
    await _check_logs(world)
    directories = {job_id: await world.checkpoints.directory(job_id) for job_id in world.invariants.jobs}
    world.invariants.checkpoints.check_end(directories.get)


async def until(world, holds, ends: datetime) -> None:
    """Wait until the condition holds; by `ends` at the latest, else an invariant is violated."""
    while not holds():
        if world.clock.now() > ends:
            left = [
                f"{job.spec.name} {job.status} {job.status_reason}"
                for job in map(world.invariants.jobs.get, world.unfinished())
            ]
            containers = [world.run_log.name_of(job_id) for job_id in _left(world)]
            world.run_log.fail(
                "I12 everything settles",
                f"{left} {containers} {world.server.engine.tasks.names} {world.server.engine.loop.state.active}",
            )
            return
        await world.clock.sleep(1)


def _runs_forever(job: Job) -> bool:
    """Whether one of its scripts never ends by itself."""
    environments = [dict(spec.environment) for spec in specs(job.spec.nodes)]
    return any('"seconds":null' in text for environment in environments for text in environment.values())


def _never_ends(world, job_id) -> bool:
    """Whether the job is unschedulable or waits for such a job; an array if its children are."""
    jobs = world.invariants.jobs
    if job_id not in jobs:
        return _never_ends(world, parent_of(job_id)[0])
    job = jobs[job_id]
    if job.unschedulable:
        return True
    if job.status is not Status.PENDING:
        return False
    if job.array_state is not None:
        left = [child for child in world.invariants.dependencies.children(job_id) if child.status not in FINISHED]
        return len(left) > 0 and all(_never_ends(world, job.id) for job in left)
    if world.invariants.groups.is_gated(job) and any(
        _never_ends(world, other.id) for other in world.invariants.groups.occupants(job)
    ):
        return True
    waits_for = [
        wait for wait in (*waits(job), *counterparts(job)) if wait not in jobs or jobs[wait].status not in FINISHED
    ]
    return any(_never_ends(world, job_id) for job_id in waits_for)


def _check_kill_times(world, unending, ordered: datetime) -> None:
    """I7: while the engine answers, a terminated container is dead soon after its grace period.

    One that was stopping before may be waiting for a checkpoint.
    """
    for job_id in unending:
        family = (job_id, *(child.id for child in world.invariants.dependencies.children(job_id)))
        for seen in (run for each in family for run in world.invariants.containers.of_job(each) if run.ran):
            spec = world.invariants.jobs[job_id].spec
            grace = spec.stop_grace + timedelta(seconds=seen.container.script.kill_delay)
            if spec.checkpoints is not None:
                grace += spec.checkpoints.timeout
            took = seen.died_at - max(ordered, seen.container.started_at)
            if took > grace + KILL_TIMEOUT:
                world.invariants.fail("I7 a container is dead within its grace period", seen.tag, took)


async def _check_spending(world) -> None:
    """I1: each attempt that ended is charged once, whatever failed; also those of jobs that are deleted."""
    charged = sum(amount for _, amount in await world.server.store.spending_totals(None))
    jobs = [job for job in world.invariants.jobs.values() if job.attempts]
    owed = sum(found.total for job in jobs if (found := cost_of(job, world.clock.now())) is not None)
    if abs(charged - owed) > ROUNDING * sum(len(job.attempts) for job in jobs):
        world.run_log.fail("I1 each attempt is charged once", f"{charged} and not {owed}")


async def _check_store(world) -> None:
    store = world.server.store
    stored = await store.jobs(list(world.invariants.jobs))
    over = {job.id for job in world.invariants.jobs.values() if job.status in FINISHED}
    world.invariants.deleted = over - stored.keys() if world.invariants.deletes else set()
    world.run_log.counts["forgotten"] += len(world.invariants.deleted)
    if dict(stored) != {key: job for key, job in world.invariants.jobs.items() if key not in world.invariants.deleted}:
        world.run_log.fail("I1 what was committed is what is stored", "")
    world.invariants.resources.check_shares(await store.shares())
    if dict(await store.used_up()) != {name: used for name, used in world.invariants.resources.used_up.items() if used}:
        world.run_log.fail("I1 what was used up is what is stored", f"{await store.used_up()}")
    await _check_spending(world)
    for job_id in world.invariants.acknowledged:
        if job_id not in stored and job_id not in world.invariants.deleted:
            world.invariants.fail("I1 no acknowledged job is lost", job_id)
    await world.invariants.history.check_store(store, world.invariants.deleted)
    world.invariants.history.check_feed(world.server.engine.history_feed)
    if world.server.engine.history_feed.last != len(world.invariants.history.committed):
        world.run_log.fail(
            "I13 the feed in memory ends with the last commit", f"{world.server.engine.history_feed.last}"
        )
    for job_id in stored:
        walk = [job.status for job in await store.history(job_id) if job.is_status]
        if any(after not in EDGES[before] for before, after in pairwise(walk)):
            world.invariants.fail("I13 the history is a legal walk", job_id, walk)
        if walk[0] is not Status.SUBMITTED or walk[-1] is not stored[job_id].status:
            world.invariants.fail("I13 the history is whole", job_id, walk)


async def _check_logs(world) -> None:
    """I14: the output of each container is archived, once, before the container is removed."""
    for seen in world.invariants.containers.all():
        if seen.tag.job_id in world.invariants.deleted or seen.tag in world.invariants.orphans:
            continue
        if seen.ran and seen.tag not in world.invariants.containers.removed_by_hand and not _started_late(world, seen):
            wrote = [line.message for line in seen.container.lines()]
            page = await world.archive.read(seen.tag.log_id, position=0, limit=1000, max_bytes=1 << 20)
            if [line.message for line in page.lines] != wrote:
                world.invariants.fail("I14 the log is what was written", seen.tag)


def _started_late(world, seen: ContainerRecord) -> bool:
    """Whether a late call started it after the start was abandoned: it was being removed, or has no attempt."""
    tag = seen.tag
    job = world.invariants.jobs.get(tag.job_id)
    known = () if job is None else [attempt for attempt in job.attempts if attempt.number == tag.attempt]
    ran = [
        container
        for attempt in known
        for container in attempt.containers
        if container.key == tag.container_key and container.started_at is not None
    ]
    is_known = bool(ran if tag.container_key else known)
    return world.invariants.containers.late["start", tag] > 0 and (seen.started_while_removed or not is_known)
