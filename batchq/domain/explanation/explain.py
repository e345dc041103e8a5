"""`explain`: the explanation of any job for a reader. Pure."""

from batchq.domain.explanation.active import explain_running, explain_starting
from batchq.domain.explanation.codes import Code, Explanation
from batchq.domain.explanation.ended import explain_ended
from batchq.domain.explanation.facts import Neighbours, Reader, SchedulerState
from batchq.domain.explanation.queued import explain_held, explain_pending, explain_runnable
from batchq.domain.explanation.words import explanation
from batchq.domain.job import Job, Status
from batchq.domain.lifecycle.forced_failure import is_damaged


def explain(job: Job, neighbours: Neighbours, state: SchedulerState, reader: Reader) -> Explanation:
    """The explanation of a job that the reader may see.

    Other jobs, queues and accounts that the reader may not see are not named.
    """
    if is_damaged(job):
        return explanation(Code.UNREADABLE, since=None, facts={}, words={})
    if job.held:
        return explain_held(job, state)
    match job.status:
        case Status.SUBMITTED | Status.PENDING:
            return explain_pending(job, neighbours, state, reader)
        case Status.RUNNABLE:
            return explain_runnable(job, neighbours, state, reader)
        case Status.STARTING:
            return explain_starting(job, state, reader)
        case Status.RUNNING:
            return explain_running(job, state)
        case Status.SUCCEEDED | Status.FAILED:
            return explain_ended(job, neighbours, reader, state.now)
