"""`explain`: the explanation of any job for a reader. Pure."""

from batchq.domain.explanation.active import running, starting
from batchq.domain.explanation.codes import Code, Explanation
from batchq.domain.explanation.ended import ended
from batchq.domain.explanation.facts import Neighbours, Reader, SchedulerState
from batchq.domain.explanation.queued import held, pending, runnable
from batchq.domain.explanation.table import explanation
from batchq.domain.job import Job, Status
from batchq.domain.lifecycle.forced_failure import is_damaged


def explain(job: Job, neighbours: Neighbours, state: SchedulerState, reader: Reader) -> Explanation:
    """The explanation of a job that the reader may see.

    Other jobs, queues and accounts that the reader may not see are not named.
    """
    if is_damaged(job):
        return explanation(Code.UNREADABLE, since=None, facts={}, words={})
    if job.held:
        return held(job, state)
    match job.status:
        case Status.SUBMITTED | Status.PENDING:
            return pending(job, neighbours, state, reader)
        case Status.RUNNABLE:
            return runnable(job, neighbours, state, reader)
        case Status.STARTING:
            return starting(job, state, reader)
        case Status.RUNNING:
            return running(job, state)
        case Status.SUCCEEDED | Status.FAILED:
            return ended(job, neighbours, reader, state.now)
