"""Words about jobs, their orders and their history, as the command line has them, and the paths of their pages."""

from collections.abc import Container, Mapping
from datetime import timedelta

from batchq.api.stop_shapes import history_entry_answer
from batchq.domain.container import Resources
from batchq.domain.enums import ACTIVE, FINISHED, QUEUED, Status, StopKind
from batchq.domain.ids import JobId, job_path, node_of, parent_of
from batchq.domain.job import Attempt, AttemptContainer, Job
from batchq.domain.lifecycle.container_rules import task_container_of
from batchq.domain.lifecycle.stopping import awaits_final_checkpoint, latest_order
from batchq.domain.lifecycle.views import shown_task
from batchq.domain.progress import JobProgress
from batchq.domain.stop_messages import ORDER_WORDS
from batchq.domain.stop_values import StopStep
from batchq.domain.use import use_words
from batchq.domain.wording import duration_words
from batchq.ports.history import HistoryEntry

#: A job, or the child `ID:INDEX` of an array.
JOB = "/jobs/{job:[0-9a-f:-]{1,64}}"
NODE = JOB + "/nodes/{node:[0-9]{1,6}}"


def job_title(job: Job) -> str:
    """The name of a job, with the index of a child or node, as `train:3`."""
    child, (_, node) = parent_of(job.id), node_of(job.id)
    return job.spec.name + ("" if child is None else f":{child[1]}") + ("" if node is None else f"#{node}")


def job_crumbs(job_id: JobId, name: str, *below: tuple[str, str]) -> list[tuple[str, str]]:
    """The names and paths of the pages above a page: the jobs, the array of a child, and for pages `below` a job it.

    `name`: that of the job without an index.
    """
    whole, node = node_of(job_id)
    child = parent_of(whole)
    crumbs = [("Jobs", "/ui/jobs")]
    if child is not None:
        crumbs += [(name, job_path(child[0])), ("Children", f"{job_path(child[0])}/children")]
    if node is not None:
        crumbs.append((name, job_path(whole)))
    return [*crumbs, *below]


def tab_title(name: str, counts: Mapping[str, int], *, lower_bounds: Container[str] = ()) -> str:
    """The title of a browser's tab, with the counts that are not 0: `fit: 3 running, 1 failed`; or the first count.

    `lower_bounds`: the words of counts that may be higher.
    """
    shown = [f"{count:,}{'+' if word in lower_bounds else ''} {word}" for word, count in counts.items() if count]
    shown = shown or [f"0 {next(iter(counts))}"]
    return f"{name}: {', '.join(shown)}" if name else ", ".join(shown)


def time_left(progress: JobProgress) -> str:
    """As `about 4 min left`; empty if no run time is known, or no job runs."""
    seconds = progress.seconds_left()
    return "" if seconds is None else f"about {duration_words(timedelta(seconds=round(seconds)))} left"


def condition(job: Job) -> str:
    """What the status of an unfinished job does not show: `held`, `paused`, `stopping`, `killed`; else empty.

    Of a PENDING array with running children it is their number.
    """
    order = latest_order(job)
    if job.status in FINISHED:
        return ""
    if job.status in ACTIVE and order is not None and order.kind is not StopKind.CANCEL:
        if order.killed_at is not None:
            return "killed"
        if awaits_final_checkpoint(job) and order.checkpoint_error is None and order.signalled_at is None:
            return "checkpoint"
        return ORDER_WORDS[order.kind].effect
    if job.hold is None:
        running = running_children(job)
        return f"{running:,} running" if running else ""
    return "paused" if job.hold.paused else "held"


def running_children(job: Job) -> int:
    """How many children of an array are STARTING or RUNNING; 0 for any other job, and for an array that has ended."""
    if job.array_state is None or job.status is not Status.PENDING:
        return 0
    return sum(count for status, count in job.array_state.counts if status in ACTIVE)


def array_parts(job: Job) -> list[tuple[str, int]]:
    """The parts of the bar of an unfinished array with running children; empty for any other job."""
    if job.array_state is None or not running_children(job):
        return []
    missing = (job.spec.array_size or 0) - sum(count for _, count in job.array_state.counts)
    counts = {**dict(job.array_state.counts), Status.SUBMITTED: missing}
    return [(status.value, counts[status]) for status in _BAR_ORDER if counts.get(status)]


#: Of a bar. Children that the array has not created count as SUBMITTED.
_BAR_ORDER = (Status.SUCCEEDED, Status.FAILED, Status.RUNNING, Status.STARTING, *sorted(QUEUED))


def attempt_use_words(job: Job, run: Attempt) -> str:
    """What an attempt used, beside what the job or node requests. Empty: the attempt has not run."""
    return _use_words(run, shown_resources(job))


def container_use_words(job: Job, container: AttemptContainer) -> str:
    """What a container used, beside what the container requests. Empty: the container has not run."""
    return _use_words(container, task_container_of(job, container).spec.resources)


def _use_words(run: Attempt | AttemptContainer, requested: Resources) -> str:
    if run.started_at is None:
        return ""
    vcpus, memory_mib = requested.millicpus / 1000, requested.memory_mib
    return use_words(run.use, run.started_at, run.stopped_at, vcpus=vcpus, memory_mib=memory_mib)


def shown_resources(job: Job) -> Resources:
    """What a job, or a node, requests."""
    return job.spec.resources if node_of(job.id)[1] is None else shown_task(job).resources


def entry_words(entry: HistoryEntry) -> str:
    """As `HistoryEntryResponse.text`."""
    order = entry.stop and f"{ORDER_WORDS[entry.stop.kind].verb}{_author(entry.stop)}, '{entry.stop.reason}'"
    return history_entry_answer(entry).text(order or "")


def _author(step: StopStep) -> str:
    return f" by {step.user}" if step.user else ""


def job_id_of(path: Mapping[str, str]) -> JobId:
    """The job, child or node of a path."""
    return JobId(f"{path['job']}#{path['node']}" if "node" in path else path["job"])
