"""Generates submissions of every kind of job, with a script for each container, and their accounts.

In some runs half of the jobs belong to an account whose vCPUs are limited.
"""

from collections.abc import Callable, Mapping
from datetime import timedelta
from functools import cache
from zlib import crc32

from msgspec.structs import replace

from batchq.compute.simulated.script import Script, script_variable
from batchq.domain.access.accounts import Account, AccountLimits, AccountName, Caller, Directory, Owner
from batchq.domain.catalog import JobDefinition
from batchq.domain.container import ContainerSpec, Overrides, Resources
from batchq.domain.enums import Action, DependencyType
from batchq.domain.ids import ConsumableName, JobId, QueueName, SubmissionKey, child_id
from batchq.domain.job import ConsumableRequirement, Dependency, ExitRule, RetryStrategy
from batchq.domain.job_request import JobRequest
from batchq.domain.task import Condition, DefinitionForm, NodeRange, Nodes, Task
from tests.simulation import checkpoints, groups
from tests.simulation.choices import Choices
from tests.simulation.signal_checks import tags
from tests.support import builders
from tests.support.builders import ADMIN, PEOPLE

LARGEST = 4000  # thousandths of a vCPU that an environment ever has
ENVIRONMENTS = ("east", "west")
EAST_LABEL = ("pool", "east")  # of the machines that run jobs of `east`, if it selects machines by a label
FAIR = QueueName("fair")
QUEUES = {"urgent": (10, ENVIRONMENTS), "usual": (1, ENVIRONMENTS[::-1]), FAIR: (1, ENVIRONMENTS)}
DEFINITIONS = {"plain": "batchq-test:latest", "pulled": "far/away:1", "missing": "no/such:1"}
SHARES = ("red", "green", "blue")
LICENCES, TOKENS = ConsumableName("licences"), ConsumableName("tokens")
RULES = (ExitRule(action=Action.EXIT, on_exit_code="3"), ExitRule(action=Action.RETRY, on_reason="*"))
SEQUENTIAL = Dependency(job_id=None, type=DependencyType.SEQUENTIAL)
TEAM = AccountName("team")
MEMBER = replace(ADMIN, account=TEAM, lineage=(TEAM, *ADMIN.lineage))


@cache
def directory(vcpus: float | None) -> Directory:
    """The users and the account; it has no limit if `vcpus` is None."""
    team = Account(name=TEAM, limits=AccountLimits(vcpus=vcpus))
    return Directory(users=PEOPLE.users, accounts={TEAM: team})


def submitter(job_name: str, vcpus: float | None) -> Caller:
    """The caller that submits the job of this name, every time."""
    return MEMBER if vcpus is not None and crc32(job_name.encode()) % 2 else ADMIN


def is_limited(owner: Owner) -> bool:
    return owner.account == TEAM


class SubmissionGenerator:
    """`known` are the submissions so far, by job id.

    `definitions`: those of the submitted tasks and gangs by name, which must be registered before a submission.
    """

    def __init__(self, choices: Choices, known: Mapping[JobId, JobRequest], key: Callable[[], SubmissionKey]) -> None:
        self._rng = choices.client
        self._choices = choices
        self._known = known
        self._key = key
        self._count = 0
        #: How many seconds a container runs; None: until it is stopped.
        self.lasts: tuple[float | None, ...] = (0, 0, 0.3, 2, 8, 30, None)
        self.definitions: dict[str, JobDefinition] = {}

    def next(self) -> JobRequest:
        self._count += 1
        rng = self._rng
        queue = QueueName(rng.choice(list(QUEUES)))
        fields = rng.choices([self._plain, self._array, self._task, self._gang], weights=[6, 3, 2, 2])[0]()
        fields = {"depends_on": self._after()} | fields
        if queue == FAIR:
            fields |= {"share_identifier": rng.choice(SHARES), "scheduling_priority": rng.randrange(3)}
        return JobRequest(
            **{"definition_name": "plain"} | fields,
            name=f"job-{self._count}",
            queue=queue,
            retry=RetryStrategy(attempts=rng.choice([1, 2, 3, 5]), evaluate_on_exit=rng.choice([(), (), RULES])),
            timeout=rng.choice([None, None, timedelta(seconds=5), timedelta(seconds=20)]),
            needs=self._needs(),
            key=self._key() if rng.random() < 0.7 else None,
            tags=(*tags(self._choices.stop_steps), *self._group_tags()),
        )

    def _group_tags(self) -> tuple[tuple[str, str], ...]:
        return groups.tags(self._choices.groups, self._choices.group_rate, self._known)

    def any_id(self) -> JobId:
        """The id of a job, preferably a recent one, of a child or of a node; sometimes an unknown id."""
        rng, ids = self._rng, list(self._known)
        if not ids or rng.random() < 0.05:
            return builders.job_id(rng.randrange(10**6))
        job_id = rng.choice(ids[-6:] if rng.random() < 0.7 else ids)
        submission = self._known[job_id]
        if submission.array_size is not None and rng.random() < 0.5:
            return child_id(job_id, rng.randrange(submission.array_size))
        defined = self.definitions.get(submission.definition_name)
        if defined is not None and defined.nodes.form is DefinitionForm.NODES and rng.random() < 0.4:
            return JobId(f"{job_id}#{rng.randrange(defined.nodes.count)}")
        return job_id

    # -------------------------------------------------------------------------------------------------------- kinds

    def _plain(self):
        rng = self._rng
        return {
            "definition_name": rng.choices(list(DEFINITIONS), weights=[10, 2, 1])[0],
            "overrides": Overrides(
                environment=(script_variable(*self._scripts()),),
                millicpus=LARGEST * 2 if rng.random() < 0.05 else rng.choice([250, 500, 1000, 1500]),
                memory_mib=rng.choice([32, 32, 512]),
            ),
        }

    def _array(self):
        """An array, also of tasks. Some depend child by child on another array, or are sequential."""
        rng = self._rng
        arrays = [job_id for job_id, submitted in self._known.items() if submitted.array_size is not None][-4:]
        other = rng.choice(arrays) if arrays and rng.random() < 0.4 else None
        size = rng.choice([2, 2, 3, 3, 6, 25]) if other is None else self._known[other].array_size
        waits = [] if other is None else [Dependency(job_id=other, type=DependencyType.N_TO_N)]
        waits += [SEQUENTIAL] if rng.random() < 0.3 else []
        own = [script_variable(self._script(), child=index) for index in range(size) if rng.random() < 0.2]
        made = (
            self._task()
            if rng.random() < 0.2
            else {
                "overrides": Overrides(
                    environment=(script_variable(*self._scripts()), *own), millicpus=rng.choice([250, 1000])
                )
            }
        )
        return made | {"array_size": size, "depends_on": (*self._after(), *waits)}

    def _task(self):
        return self._defined(task=self._containers(self._rng.choice([1, 2, 3, 4])))

    def _gang(self):
        """A multi-node job; each node has its own task."""
        count = self._rng.choice([1, 2, 3])
        tasks = [self._containers(self._rng.choice([1, 1, 2])) for _ in range(count)]
        ranges = tuple(NodeRange(first=other_task, last=other_task, task=task) for other_task, task in enumerate(tasks))
        main = self._rng.randrange(count)
        return self._defined(nodes=Nodes(count=count, main=main, ranges=ranges, form=DefinitionForm.NODES))

    def _defined(self, **work):
        name = f"work-{self._count}"
        self.definitions[name] = builders.definition(name=name, **work)
        return {"definition_name": name}

    def _containers(self, count: int) -> Task:
        """A task; each container may depend on those before it, and at least one is essential."""
        rng = self._rng
        essential = rng.randrange(count)
        containers = []
        for index in range(count):
            after = {container.name: rng.choice(list(Condition)) for container in containers if rng.random() < 0.4}
            containers.append(
                builders.task_container(
                    f"c{index}",
                    after=after,
                    essential=index == essential or rng.random() < 0.4,
                    image=rng.choices(list(DEFINITIONS.values()), weights=[20, 2, 1])[0],
                    environment=(script_variable(*self._scripts()),),
                    resources=Resources(millicpus=rng.choice([250, 250, 500]), memory_mib=32),
                    start_timeout=rng.choice([None, None, timedelta(seconds=4)]),
                    stop_timeout=rng.choice([None, timedelta(0), timedelta(seconds=4)]),
                )
            )
        return builders.task(*containers)

    def _after(self) -> tuple[Dependency, ...]:
        rng, ids = self._rng, list(self._known)[-8:]
        after = rng.sample(ids, min(len(ids), rng.choice([0, 0, 0, 1, 2])))
        return tuple(Dependency(job_id=self._or_a_child(job_id)) for job_id in after)

    def _or_a_child(self, job_id: JobId) -> JobId:
        size = self._known[job_id].array_size
        return job_id if size is None or self._rng.random() < 0.5 else child_id(job_id, self._rng.randrange(size))

    def _needs(self) -> tuple[ConsumableRequirement, ...]:
        rng = self._rng
        return tuple(
            ConsumableRequirement(resource=name, quantity=rng.choice([1, 1, 2]))
            for name in (LICENCES, TOKENS)
            if rng.random() < 0.15
        )

    def _scripts(self) -> list[Script]:
        return [self._script() for _ in range(self._rng.choice([1, 1, 2, 3]))]

    def _script(self) -> Script:
        rng = self._rng
        lasts = rng.choice(self.lasts)
        certain = rng.random() < 0.5  # and then for ever, also for a start that comes late
        return Script(
            seconds=lasts,
            exit_code=rng.choice([0, 0, 0, 1, 3]),
            out_of_memory=rng.random() < 0.05,
            on_term=rng.choice([None, 0, 143]),
            term_delay=rng.choice([0, 0, 1, 3]),
            kill_delay=rng.choice([0, 0, 0, 7]),
            output=tuple(f"line {index}" for index in range(rng.choice([0, 1, 3]))),
            start_delay=rng.choice([0, 0, 0, 2, 6]),
            refuse=rng.choices([None, "no such program"], weights=[12, 1])[0],
            refusals=None if certain else rng.choice([None, 1, 2, 5]),
            refuse_certain=certain,
            **checkpoints.script(self._choices.stop_steps),
        )


def specs(nodes: Nodes) -> list[ContainerSpec]:
    """The specs of all containers of a job."""
    return [container.spec for task in nodes.tasks for container in task.containers]
