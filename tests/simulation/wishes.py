"""What users want done: jobs of every kind, and a script for each container of theirs."""

from collections.abc import Callable, Mapping
from datetime import timedelta
from random import Random

from batchq.compute.simulated.script import Script, write
from batchq.domain.container import ContainerSpec, Overrides, Resources
from batchq.domain.ids import ConsumableName, JobId, QueueName, child_id
from batchq.domain.job import (
    Action,
    Dependency,
    DependencyType,
    ExitRule,
    Need,
    RetryStrategy,
)
from batchq.domain.task import Condition, NodeRange, Nodes, Task
from batchq.ports.jobs import SubmissionKey
from batchq.services.jobs import Submission
from tests.support import builders

LARGEST = 4000  # thousandths of a vCPU that an environment ever has
ENVIRONMENTS = ("east", "west")
FAIR = QueueName("fair")
QUEUES = {"urgent": (10, ENVIRONMENTS), "usual": (1, ENVIRONMENTS[::-1]), FAIR: (1, ENVIRONMENTS)}
DEFINITIONS = {"plain": "batchq-test:latest", "pulled": "far/away:1", "missing": "no/such:1"}
SHARES = ("red", "green", "blue")
LICENCES, TOKENS = ConsumableName("licences"), ConsumableName("tokens")
RULES = (ExitRule(action=Action.EXIT, on_exit_code="3"), ExitRule(action=Action.RETRY, on_reason="*"))
SEQUENTIAL = Dependency(job_id=None, type=DependencyType.SEQUENTIAL)


class Wishes:
    """`known` are the jobs so far, by id, as they were asked for."""

    def __init__(self, dice: Random, known: Mapping[JobId, Submission], key: Callable[[], SubmissionKey]) -> None:
        self._dice = dice
        self._known = known
        self._key = key
        self._count = 0

    def next(self) -> Submission:
        self._count += 1
        dice = self._dice
        queue = QueueName(dice.choice(list(QUEUES)))
        asked = dice.choices([self._plain, self._array, self._task, self._gang], weights=[6, 3, 2, 2])[0]()
        asked = {"depends_on": self._after()} | asked
        if queue == FAIR:
            asked |= {"share_identifier": dice.choice(SHARES), "scheduling_priority": dice.randrange(3)}
        return Submission(
            **{"overrides": Overrides(), "definition_name": "plain"} | asked,
            name=f"job-{self._count}",
            queue=queue,
            retry=RetryStrategy(attempts=dice.choice([1, 2, 3, 5]), evaluate_on_exit=dice.choice([(), (), RULES])),
            timeout=dice.choice([None, None, timedelta(seconds=5), timedelta(seconds=20)]),
            needs=self._needs(),
            key=self._key() if dice.random() < 0.7 else None,
        )

    def any_id(self) -> JobId:
        """Of young jobs rather than old ones; of a child or a node too, and now and then one that nobody knows."""
        dice, ids = self._dice, list(self._known)
        if not ids or dice.random() < 0.05:
            return builders.job_id(dice.randrange(10**6))
        job_id = dice.choice(ids[-6:] if dice.random() < 0.7 else ids)
        asked = self._known[job_id]
        if asked.array_size is not None and dice.random() < 0.5:
            return child_id(job_id, dice.randrange(asked.array_size))
        if asked.nodes is not None and dice.random() < 0.4:
            return JobId(f"{job_id}#{dice.randrange(asked.nodes.count)}")
        return job_id

    # -------------------------------------------------------------------------------------------------------- kinds

    def _plain(self):
        dice = self._dice
        return {
            "definition_name": dice.choices(list(DEFINITIONS), weights=[10, 2, 1])[0],
            "overrides": Overrides(
                environment=(write(*self._scripts()),),
                millicpus=LARGEST * 2 if dice.random() < 0.05 else dice.choice([250, 500, 1000, 1500]),
                memory_mib=dice.choice([32, 32, 512]),
            ),
        }

    def _array(self):
        """Of tasks, too. Some wait, child by child, for another array, or for each other."""
        dice = self._dice
        arrays = [job_id for job_id, it in self._known.items() if it.array_size is not None][-4:]
        other = dice.choice(arrays) if arrays and dice.random() < 0.4 else None
        size = dice.choice([2, 2, 3, 3, 6, 25]) if other is None else self._known[other].array_size
        waits = [] if other is None else [Dependency(job_id=other, type=DependencyType.N_TO_N)]
        waits += [SEQUENTIAL] if dice.random() < 0.3 else []
        own = [write(self._script(), child=index) for index in range(size) if dice.random() < 0.2]
        made = (
            self._task()
            if dice.random() < 0.2
            else {
                "overrides": Overrides(environment=(write(*self._scripts()), *own), millicpus=dice.choice([250, 1000]))
            }
        )
        return made | {"array_size": size, "depends_on": (*self._after(), *waits)}

    def _task(self):
        return {"task": self._containers(self._dice.choice([1, 2, 3, 4]))}

    def _gang(self):
        """Each node has a task of its own."""
        count = self._dice.choice([1, 2, 3])
        tasks = [self._containers(self._dice.choice([1, 1, 2])) for _ in range(count)]
        ranges = tuple(NodeRange(first=it, last=it, task=task) for it, task in enumerate(tasks))
        return {"nodes": Nodes(count=count, main=self._dice.randrange(count), ranges=ranges)}

    def _containers(self, count: int) -> Task:
        """Each may wait for those before it; one at least is essential."""
        dice = self._dice
        essential = dice.randrange(count)
        containers = []
        for index in range(count):
            after = {it.name: dice.choice(list(Condition)) for it in containers if dice.random() < 0.4}
            containers.append(
                builders.task_container(
                    f"c{index}",
                    after=after,
                    essential=index == essential or dice.random() < 0.4,
                    image=dice.choices(list(DEFINITIONS.values()), weights=[20, 2, 1])[0],
                    environment=(write(*self._scripts()),),
                    resources=Resources(millicpus=dice.choice([250, 250, 500]), memory_mib=32),
                    start_timeout=dice.choice([None, None, timedelta(seconds=4)]),
                    stop_timeout=dice.choice([None, timedelta(0), timedelta(seconds=4)]),
                )
            )
        return builders.task(*containers)

    def _after(self) -> tuple[Dependency, ...]:
        dice, ids = self._dice, list(self._known)[-8:]
        after = dice.sample(ids, min(len(ids), dice.choice([0, 0, 0, 1, 2])))
        return tuple(Dependency(job_id=self._or_a_child(it)) for it in after)

    def _or_a_child(self, job_id: JobId) -> JobId:
        size = self._known[job_id].array_size
        return job_id if size is None or self._dice.random() < 0.5 else child_id(job_id, self._dice.randrange(size))

    def _needs(self) -> tuple[Need, ...]:
        dice = self._dice
        return tuple(
            Need(resource=name, quantity=dice.choice([1, 1, 2])) for name in (LICENCES, TOKENS) if dice.random() < 0.15
        )

    def _scripts(self) -> list[Script]:
        return [self._script() for _ in range(self._dice.choice([1, 1, 2, 3]))]

    def _script(self) -> Script:
        dice = self._dice
        lasts = dice.choice([0, 0, 0.3, 2, 8, 30, None])
        certain = dice.random() < 0.5  # and then for ever, also for a start that comes late
        return Script(
            seconds=lasts,
            exit_code=dice.choice([0, 0, 0, 1, 3]),
            out_of_memory=dice.random() < 0.05,
            on_term=dice.choice([None, 0, 143]),
            term_delay=dice.choice([0, 0, 1, 3]),
            kill_delay=dice.choice([0, 0, 0, 7]),
            output=tuple(f"line {it}" for it in range(dice.choice([0, 1, 3]))),
            start_delay=dice.choice([0, 0, 0, 2, 6]),
            refuse=dice.choices([None, "no such program"], weights=[12, 1])[0],
            refusals=None if certain else dice.choice([None, 1, 2, 5]),
            refuse_certain=certain,
        )


def specs(nodes: Nodes | None, task: Task | None, container: ContainerSpec) -> list[ContainerSpec]:
    """Those of all the containers that a job is made of."""
    tasks = [it.task for it in nodes.ranges] if nodes is not None else [task] if task is not None else []
    return [it.spec for task in tasks for it in task.containers] or [container]
