"""ListTrainingJobEvents and ListTrainingJobStages, both from the history of a job."""

from collections.abc import Sequence
from datetime import UTC, datetime

from msgspec import Struct

from batchq.api.modelarts.wire import TrainingEventsQuery
from batchq.domain.job import FINISHED, Attempt, Job, Status
from batchq.domain.stop_orders import StopProgress, StopStep
from batchq.domain.times import milliseconds
from batchq.ports.history import HistoryEntry

SOURCE = "batchq"
MAX_RECORDS = 50  # the newest attempts, whose stages are listed

_TEXTS = {
    Status.SUBMITTED: "The training job is created.",
    Status.PENDING: "The training job waits for other jobs.",
    Status.RUNNABLE: "The training job is queued.",
    Status.STARTING: "The containers of the training job are being created.",
    Status.RUNNING: "The training job is running.",
    Status.SUCCEEDED: "The training job is completed.",
    Status.FAILED: "The training job has ended and is not completed.",
}
#: The stages of an attempt, in their order.
_STAGES = {
    "scheduling": "The job is being scheduled.",
    "preparing": "The containers are created.",
    "running": "The job is running.",
    "end": "The attempt has ended.",
}
_STOP_TEXTS = {
    StopProgress.ORDERED: "The training job is to be stopped",
    StopProgress.SIGNALLED: "The stop signal is sent",
    StopProgress.KILLED: "The containers are killed",
}


class TrainingEvent(Struct, frozen=True, kw_only=True):
    """An event of a job."""

    message: str
    #: `Info`, `Warning` or `Error`.
    level: str
    #: RFC 3339, UTC.
    time: str
    source: str = SOURCE


class TrainingEventsAnswer(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One page of events."""

    #: All events that match.
    total: int
    limit: int
    #: The number of the page, from 0.
    offset: int
    #: `desc` or `asc`.
    order: str
    start_time: str | None = None
    end_time: str | None = None
    events: tuple[TrainingEvent, ...]


class TrainingStage(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A stage of an attempt."""

    job_id: str
    #: `scheduling`, `preparing`, `running` or `end`.
    name: str
    en_message: str
    #: RFC 3339, UTC, as is `end_time`.
    start_time: str
    #: Absent while the stage lasts.
    end_time: str | None = None
    #: From 1.
    stage_order: int


class TrainingStageRecord(Struct, frozen=True, kw_only=True):
    """The stages of one attempt."""

    #: From 1, oldest first.
    record_order: int
    stages: tuple[TrainingStage, ...]


class TrainingStagesAnswer(Struct, frozen=True, kw_only=True):
    """The stages of all attempts, the oldest first."""

    total_count: int
    running_records: tuple[TrainingStageRecord, ...]


def events_answer(history: Sequence[HistoryEntry], query: TrainingEventsQuery) -> TrainingEventsAnswer:
    """The events that a query selects. `history`: oldest first."""
    found = [_event(it) for it in history if _is_within(it.at, query)]
    found = [
        it for it in found if query.level in {None, it.level} and (query.pattern is None or query.pattern in it.message)
    ]
    if query.order == "desc":
        found.reverse()
    return TrainingEventsAnswer(
        total=len(found),
        limit=query.limit,
        offset=query.offset,
        order=query.order,
        start_time=None if query.start_time is None else str(query.start_time),
        end_time=None if query.end_time is None else str(query.end_time),
        events=tuple(found[query.offset * query.limit : (query.offset + 1) * query.limit]),
    )


def stages_answer(job: Job) -> TrainingStagesAnswer:
    """The stages of a job. A job without an attempt has the stage that it waits in."""
    known = job.all_attempts
    records = [
        TrainingStageRecord(
            record_order=it.number,
            stages=_stages(job, it, since=known[index - 1].stopped_at if index else job.created_at),
        )
        for index, it in enumerate(known)
        if index >= len(known) - MAX_RECORDS
    ]
    if not known or (job.attempt is None and job.status not in FINISHED):
        since = (known[-1].stopped_at if known else None) or job.created_at
        waiting = _stage(job, "scheduling", since, job.stopped_at)
        records.append(TrainingStageRecord(record_order=len(known) + 1, stages=(waiting,)))
    return TrainingStagesAnswer(total_count=len(records), running_records=tuple(records))


def _is_within(at: datetime, query: TrainingEventsQuery) -> bool:
    moment = milliseconds(at)
    return (query.start_time or 0) <= moment and (query.end_time is None or moment <= query.end_time)


def _event(it: HistoryEntry) -> TrainingEvent:
    if it.stop is not None:
        return TrainingEvent(message=_stop_text(it.stop), level="Warning", time=_text(it.at))
    message = _TEXTS[it.status] + (f" {it.reason}" if it.reason else "")
    return TrainingEvent(message=message, level="Error" if it.status is Status.FAILED else "Info", time=_text(it.at))


def _stop_text(step: StopStep) -> str:
    by = f" by {step.user}" if step.user else ""
    task = "" if step.node is None else f" (worker-{step.node})"
    return f"{_STOP_TEXTS[step.progress]}{task}: {step.kind.value.lower()}{by}: {step.reason}"


def _stages(job: Job, it: Attempt, *, since: datetime | None) -> tuple[TrainingStage, ...]:
    """The stages of an attempt that began to wait at `since`."""
    placed = it.placed_at or it.started_at
    if placed is None:
        return ()
    stages = [_stage(job, "scheduling", min(since or placed, placed), placed)]
    stages.append(_stage(job, "preparing", placed, it.started_at or it.stopped_at))
    if it.started_at is not None:
        stages.append(_stage(job, "running", it.started_at, it.stopped_at))
    if it.stopped_at is not None:
        stages.append(_stage(job, "end", it.stopped_at, it.stopped_at))
    return tuple(stages)


def _stage(job: Job, name: str, start: datetime, end: datetime | None) -> TrainingStage:
    return TrainingStage(
        job_id=job.id,
        name=name,
        en_message=_STAGES[name],
        start_time=_text(start),
        end_time=None if end is None else _text(end),
        stage_order=1 + [*_STAGES].index(name),
    )


def _text(moment: datetime) -> str:
    return moment.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
