"""Findings about jobs and containers: jobs that do not end after a stop order, and orphaned containers."""

from collections.abc import Collection, Iterator
from datetime import datetime, timedelta

from batchq.doctor.facts import EngineFacts, Facts, Records
from batchq.doctor.finding import Findings, ok, problem, warning
from batchq.domain.ids import Tag
from batchq.domain.job import Job
from batchq.domain.lifecycle.containers import tags_kept, tags_under_way

JOBS, CONTAINERS = "jobs", "containers"
A_MINUTE = timedelta(minutes=1)
MOST_STRAYS = 3  # batchq leaves more orphans than this alone: they may belong to another database
MOST_NAMED = 5


def findings(facts: Facts) -> Findings:
    records = facts.store.records
    if records is None or records.fault is not None:
        return
    stuck = [job for job in records.active if is_stuck(job, facts.now)]
    for job in stuck:
        says = f"{job.id} was told to end at {_since(job)} and runs on ({job.status_reason})"
        do = f"Look at its process; when nothing helps: batchq force-fail {job.id}, which gives up its container."
        yield problem(JOBS, says, do)
    if not stuck:
        yield ok(JOBS, f"{len(records.active)} run, none of them is stuck")
    if isinstance(facts.engine, EngineFacts):
        yield from _another_engine(facts.engine, records)
        yield from _containers(facts.engine, records, facts.now)


def _another_engine(engine: EngineFacts, records: Records) -> Findings:
    known = records.engine is None or engine.id in {None, records.engine}
    under_way = {tag for job in records.active for tag in tags_under_way(job)}
    if known or not under_way or not under_way.isdisjoint(it.tag for it in engine.containers):
        return
    says = f"{engine.address} is not the container engine that {len(records.active)} jobs run on ({records.engine})"
    do = "Point DOCKER_HOST at theirs and restart batchq. If it is gone for good: batchq resume --new-engine."
    yield problem(JOBS, says, do)


def is_stuck(job: Job, now: datetime) -> bool:
    """Whether a container still runs a minute after it was killed, or a minute after the job's grace period ended."""
    killed = min(_killed(job), default=None)
    if killed is not None:
        return now - killed > A_MINUTE
    return job.stop is not None and now - job.stop.ordered_at - job.stop.grace > A_MINUTE


def _killed(job: Job) -> Iterator[datetime]:
    """The times at which containers that have not ended were first killed."""
    if job.attempt is not None and job.attempt.parts:
        yield from (it.killed_at for it in job.attempt.parts if it.killed_at is not None and it.stopped_at is None)
    elif job.stop is not None and job.stop.killed_at is not None:
        yield job.stop.killed_at


def _since(job: Job) -> str:
    told = job.stop.ordered_at if job.stop is not None else min(_killed(job))
    return told.strftime("%Y-%m-%d %H:%M:%S UTC")


def _containers(engine: EngineFacts, records: Records, now: datetime) -> Findings:
    there = [it.tag for it in engine.containers]
    owned = {tag for job in records.active for tag in (*tags_under_way(job), *tags_kept(job))}
    strays = [tag for tag in there if tag.job_id not in records.named and tag not in records.spared]
    leftovers = [tag for tag in there if tag not in owned and _is_long_over(tag, records, now)]
    if strays:
        yield from _strays(strays, records)
    if leftovers:
        says = f"attempts that are over still have some ({len(leftovers)}): {_listed(leftovers)}"
        yield warning(
            CONTAINERS, says, "A running server removes them; if they stay, its log tells why the engine cannot."
        )
    if not strays and not leftovers:
        yield ok(CONTAINERS, f"{len(there)} of this data are there, none that no job owns")


def _is_long_over(tag: Tag, records: Records, now: datetime) -> bool:
    """Whether the attempt ended more than a minute ago; before that its container is about to be removed."""
    job = records.named.get(tag.job_id)
    if job is None:
        return False
    over = next((it.stopped_at for it in job.attempts if it.number == tag.attempt), job.stopped_at)
    return over is not None and now - over > A_MINUTE


def _strays(strays: Collection[Tag], records: Records) -> Findings:
    says = f"some with this data's label are of no job that is known ({len(strays)}): {_listed(strays)}"
    by_hand = f"docker rm -f $(docker ps -aq --filter label=io.batchq.instance={records.instance})"
    if records.restored_at is not None:
        do = "They are left alone, by batchq resume too; batchq resume --purge clears them away."
        yield warning(CONTAINERS, says, do)
    elif len(strays) > MOST_STRAYS:
        do = f"They are left alone: is this an old copy of the data? If it is all there is, stop batchq and {by_hand}"
        yield problem(CONTAINERS, says, do)
    else:
        yield warning(CONTAINERS, says, "A server removes those that are a minute old, and were there when it started.")


def _listed(tags: Collection[Tag]) -> str:
    named = ", ".join(sorted(map(str, tags))[:MOST_NAMED])
    return f"{named} and others" if len(tags) > MOST_NAMED else named
