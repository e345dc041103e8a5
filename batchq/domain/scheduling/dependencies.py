"""Dependencies: whether a SUBMITTED or PENDING job may run, must wait or fails, and which dependsOn is refused. Pure.

An array waits as a whole for its dependencies, and only then spawns children. With N_TO_N the array itself waits until
the other array spawns children, and each child waits for the child with the same index. SEQUENTIAL without an id makes
each child wait for the one before it; `lifecycle.arrays` passes the failure of a child on to those after it.
"""

from collections.abc import Mapping

from batchq.domain import events as on
from batchq.domain import status_reasons
from batchq.domain.container import Overrides, length
from batchq.domain.enums import FINISHED, DependencyType, Status
from batchq.domain.ids import JobId, child_id, node_of, parent_of
from batchq.domain.job import Dependency, Job, JobSpec

#: The result of `evaluate_dependencies`: an event to apply to the job.
DependencyEvent = on.DependenciesMet | on.DependenciesPending | on.DependencyFailed | on.FoundInvalid

MAX_OVERRIDES_LENGTH = 8192  # AWS: characters of the overrides as JSON
MAX_PROPAGATED_TAGS = 50  # AWS: the tags to propagate, of the job and its definition together
_WAITING = frozenset({Status.SUBMITTED, Status.PENDING})


def invalid_overrides(overrides: Overrides, propagated: int) -> str | None:
    """Why a job is accepted and then FAILED, as AWS does; None for a valid job. `propagated`: the number of tags."""
    if length(overrides) > MAX_OVERRIDES_LENGTH:
        return status_reasons.OVERRIDES_TOO_LONG
    return status_reasons.TOO_MANY_TAGS if propagated > MAX_PROPAGATED_TAGS else None


def evaluate_dependencies(job: Job, known: Mapping[JobId, Job]) -> DependencyEvent:
    """The event that follows for the job from the jobs that it depends on.

    A dependency that FAILED or is not in `known` fails it; if all SUCCEEDED they are met; otherwise they are pending.
    `known` must have all existing jobs of `dependencies_to_read`.
    """
    if job.spec.invalid is not None:
        return on.FoundInvalid(reason=job.spec.invalid)
    if not job.spec.depends_on and job.child is None:
        return on.DependenciesMet()
    standing = [(dependency, _status_of_dependency(job, dependency, known)) for dependency in job.spec.depends_on]
    failed = next((_depended_on(job, dependency) for dependency, status in standing if status is Status.FAILED), None)
    if failed is not None:
        return on.DependencyFailed(job_id=failed)
    statuses = {status for _, status in standing} | _before(job, known)
    return on.DependenciesPending() if statuses - {Status.SUCCEEDED} else on.DependenciesMet()


def standing(job: Job, known: Mapping[JobId, Job]) -> tuple[tuple[JobId, Status], ...]:
    """The jobs that this job waits for or waited for, with their statuses. `known`: as for `evaluate_dependencies`.

    For the child of an array these are the children with its index in N_TO_N dependencies, and in a SEQUENTIAL array
    the child before it.
    """
    before = _predecessor(job)
    ahead = () if before is None else ((before, next(iter(_before(job, known)))),)
    if job.child is None:
        named = tuple(
            (dependency.job_id, _status_of_dependency(job, dependency, known))
            for dependency in job.spec.depends_on
            if dependency.job_id
        )
        return (*named, *ahead)
    counterparts = (
        dependency
        for dependency in job.spec.depends_on
        if dependency.job_id and dependency.type is DependencyType.N_TO_N
    )
    ids = (
        (child_id(dependency.job_id, job.child.index), dependency) for dependency in counterparts if dependency.job_id
    )
    return (*((job_id, _status_of_dependency(job, dependency, known)) for job_id, dependency in ids), *ahead)


def waits_for(job: Job) -> tuple[JobId, ...]:
    """The ids of the jobs whose end, or the spawning of whose children, may change what this job waits for.

    A dependency on a child of an array includes the array, because the child may never be spawned.
    """
    if not job.spec.depends_on:
        return ()
    return tuple(dict.fromkeys(job_id for dependency in job.spec.depends_on for job_id in _ids(job, dependency)))


def waits(job: Job) -> bool:
    """Whether the job is waiting for its dependencies. An array with children does not wait any more."""
    return job.status in _WAITING and job.array_state is None


def dependencies_to_read(job: Job) -> tuple[JobId, ...]:
    """The ids of all jobs that `evaluate_dependencies` needs: `waits_for`, and for SEQUENTIAL the child before it."""
    if not job.spec.depends_on and job.child is None:
        return ()
    before = _predecessor(job)
    return waits_for(job) if before is None else (*waits_for(job), before)


def named(spec: JobSpec) -> tuple[JobId, ...]:
    """The ids of all jobs that `dependencies_refusal` needs: those in dependsOn, their arrays, a first child."""
    ids = [dependency.job_id for dependency in spec.depends_on if dependency.job_id is not None]
    parents = (parent[0] for parent in map(parent_of, ids) if parent is not None)
    arrays = (
        dependency.job_id
        for dependency in spec.depends_on
        if dependency.job_id and dependency.type is DependencyType.N_TO_N
    )
    return (*ids, *parents, *(child_id(job_id, 0) for job_id in arrays))


def dependencies_refusal(spec: JobSpec, known: Mapping[JobId, Job]) -> str | None:
    """Why the dependsOn of a new job is refused; None if it is accepted. batchq refuses unknown ids.

    `known`: the jobs of `named` that exist and that the caller may see.
    """
    return next(filter(None, (_refusal(dependency, spec.array_size, known) for dependency in spec.depends_on)), None)


def _refusal(dependency: Dependency, array_size: int | None, known: Mapping[JobId, Job]) -> str | None:
    """Why one dependency is refused; None if it is accepted. AWS does not document most of these cases."""
    job_id = dependency.job_id
    if job_id is None:
        return None if array_size is not None else "A SEQUENTIAL dependency without a jobId is for array jobs only."
    if node_of(job_id)[1] is not None:
        return f"Job {job_id} in dependsOn is a node: depend on its job."
    if job_id not in known and not _may_come(job_id, known):
        return f"Job {job_id} in dependsOn does not exist."
    if dependency.type is not DependencyType.N_TO_N:
        return None
    if _is_being_deleted(job_id, known):
        return f"Job {job_id} in dependsOn does not exist any more."
    other = known[job_id].spec.array_size if job_id in known and known[job_id].child is None else None
    if array_size is None or other != array_size:
        return f"An N_TO_N dependency needs two array jobs of one size, and job {job_id} and this job are not."
    return None


def _is_being_deleted(job_id: JobId, known: Mapping[JobId, Job]) -> bool:
    """Whether retention is deleting the array: it deletes the children first, beginning with index 0."""
    array = known.get(job_id)
    had_children = array is not None and array.array_state is not None and array.status in FINISHED
    return had_children and child_id(job_id, 0) not in known


def _may_come(job_id: JobId, known: Mapping[JobId, Job]) -> bool:
    """Whether the id is that of a child that its array has still to spawn."""
    parent = parent_of(job_id)
    array = None if parent is None else known.get(parent[0])
    if parent is None or array is None or array.spec.array_size is None:
        return False
    return array.status not in FINISHED and parent[1] < array.spec.array_size and job_id == child_id(*parent)


def _ids(job: Job, dependency: Dependency) -> tuple[JobId, ...]:
    if dependency.job_id is None:
        return ()
    if job.child is None:
        parent = parent_of(dependency.job_id)
        return (dependency.job_id,) if parent is None else (dependency.job_id, parent[0])
    return (child_id(dependency.job_id, job.child.index),) if dependency.type is DependencyType.N_TO_N else ()


def _status_of_dependency(job: Job, dependency: Dependency, known: Mapping[JobId, Job]) -> Status:
    """The status of a dependency as it counts for this job.

    SUCCEEDED if it is not for this job: an array's own dependencies were met before it had children.
    """
    if dependency.job_id is None:
        return Status.SUCCEEDED
    if dependency.type is DependencyType.N_TO_N:
        return _counterpart(job, dependency.job_id, known)
    return Status.SUCCEEDED if job.child is not None else _named(dependency.job_id, known)


def _depended_on(job: Job, dependency: Dependency) -> JobId | None:
    """The id that a failed dependency is reported with: for a child with N_TO_N that of its counterpart."""
    if dependency.job_id is None or dependency.type is not DependencyType.N_TO_N or job.child is None:
        return dependency.job_id
    return child_id(dependency.job_id, job.child.index)


def _counterpart(job: Job, other: JobId, known: Mapping[JobId, Job]) -> Status:
    """For a child the status of the child with the same index, PENDING if it is not spawned yet.

    For the array itself SUCCEEDED once the other array has children.
    """
    if job.child is not None:
        counterpart = known.get(child_id(other, job.child.index))
        return Status.PENDING if counterpart is None else counterpart.status
    array = known.get(other)
    if array is None:
        return Status.FAILED
    if array.array_state is not None:
        return Status.SUCCEEDED
    return Status.FAILED if array.status in FINISHED else Status.PENDING


def _named(job_id: JobId, known: Mapping[JobId, Job]) -> Status:
    """The status of a job in dependsOn. A missing child counts as PENDING as long as its array is not finished."""
    if job_id in known:
        return known[job_id].status
    parent = parent_of(job_id)
    array = None if parent is None else known.get(parent[0])
    return Status.FAILED if array is None or array.status in FINISHED else Status.PENDING


def _before(job: Job, known: Mapping[JobId, Job]) -> set[Status]:
    """The status of the child before it in a SEQUENTIAL array. A failure counts as PENDING: the array passes it on."""
    before = _predecessor(job)
    if before is None:
        return set()
    return {Status.SUCCEEDED if before in known and known[before].status is Status.SUCCEEDED else Status.PENDING}


def _predecessor(job: Job) -> JobId | None:
    if job.child is None or job.child.index == 0 or not job.spec.sequential:
        return None
    return child_id(job.child.parent, job.child.index - 1)
