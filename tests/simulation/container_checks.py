"""Checks of an attempt's containers: the order of starts, the calls for each, and that all end before the attempt."""

from collections.abc import Callable, Iterator, Mapping
from datetime import datetime

from msgspec.structs import replace

from batchq.domain.enums import AttemptContainerState, Status
from batchq.domain.ids import JobId, Tag
from batchq.domain.job import Attempt, AttemptContainer, Job
from batchq.domain.task import Condition, Task
from tests.simulation.container_records import ContainerRecords
from tests.simulation.run_log import Checks, RunLog


class ContainerChecks(Checks):
    def __init__(
        self, *, jobs: Mapping[JobId, Job], containers: ContainerRecords, now: Callable[[], datetime], run_log: RunLog
    ) -> None:
        super().__init__(jobs=jobs, run_log=run_log)
        self._containers = containers
        self._now = now

    def begun(self, job: Job) -> None:
        """A gang is placed with all of its containers, one each."""
        listed = sorted((container.node, container.name) for container in job.attempt.containers)
        if listed != sorted(
            (node, container.name) for node, task in _tasks(job).items() for container in task.containers
        ):
            self.fail("I4 a gang is placed all or none", job.tag, listed)

    def started(self, job: Job, tag: Tag) -> None:
        """aws-batch.md 9 and 11.3: the main node starts first; within a node dependsOn decides."""
        main = job.spec.nodes.main
        if tag.node != main and not any(record.ran for record in self._containers.of_node(tag, main)):
            self.fail("I11 the main node starts first", tag)
        for dependency in _tasks(job)[tag.node].container(tag.container).depends_on:
            if not self._met(
                job, replace(tag, container_key=f"{tag.node}/{dependency.container}"), dependency.condition
            ):
                self.fail(f"I11 a container waits for the {dependency.condition} of another", tag)

    def over(self, job: Job, ended: Attempt) -> None:
        """I6: every container has ended, and the outcome is that of the deciding one."""
        if any(container.state is not AttemptContainerState.ENDED for container in ended.containers):
            self.fail("I10 an attempt is over when all its containers are", job.id, ended)
        decider = next((container for container in ended.containers if container.key == ended.decided_by), None)
        main = job.spec.nodes.main
        if decider is not None and decider.node != main:
            self.fail("I6 the main node decides", job.id, ended)
        if ended.exit_code is not None and (decider is None or decider.exit_code != ended.exit_code):
            self.fail("I6 an attempt's exit is its deciding container's", job.id, ended)

    def _met(self, job: Job, other: Tag, condition: Condition) -> bool:
        """Whether the condition is met; a container whose start failed has ended too."""
        seen = [record for record in self._containers.of(other) if record.ran]
        ended = [record for record in seen if record.ended(self._now())]
        match condition:
            case Condition.START:
                return bool(seen)
            case Condition.SUCCESS:
                return any(run.end is not None and run.end.exit_code == 0 for run in ended)
            case Condition.COMPLETE:
                known = () if job.attempt is None else job.attempt.containers
                return bool(ended) or any(
                    container.key == other.container_key and container.state is AttemptContainerState.ENDED
                    for container in known
                )


def _tasks(job: Job) -> dict[int, Task]:
    """The task of each node."""
    return {node: job.spec.nodes.task(node) for node in range(job.spec.nodes.count)}


def has(job: Job, tag: Tag) -> bool:
    return tag.container_key in {container.key for container in job.attempt.containers}


def may_start(part: AttemptContainer | None) -> bool:
    return part is not None and part.state is AttemptContainerState.STARTING and not part.stop_ordered


def must_be_kept(job: Job, part: AttemptContainer | None) -> bool:
    """Whether a container must stay: network and volumes go with the last one, so it stays while others will start.

    A container of an abandoned start may be removed at once.
    """
    if part is None or (part.stop_ordered and part.state is AttemptContainerState.STARTING):
        return False
    to_come = any(
        container.state in {AttemptContainerState.WAITING, AttemptContainerState.STARTING}
        for container in job.attempt.containers
    )
    return part.state is not AttemptContainerState.ENDED or to_come


def was_forced(job: Job) -> bool:
    """Whether an operator force-failed the job; its containers may still run."""
    return job.status is Status.FAILED and (job.status_reason or "").startswith("Force-failed")


def outcomes(job: Job, ended: Attempt) -> Iterator[tuple[Tag, tuple[object, ...]]]:
    """The reported outcome of each container that ended by itself."""
    for container in ended.containers:
        if container.started_at is not None and container.exit_code is not None:
            yield (
                Tag(job_id=job.id, attempt=ended.number, container_key=container.key),
                (container.started_at, container.stopped_at, container.exit_code),
            )
