"""Users: they submit all sorts of jobs, change their minds, ask twice, and leave before the answer."""

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import replace
from datetime import timedelta
from typing import Any

from batchq.domain.catalog import EnvironmentName, State
from batchq.domain.container import Overrides
from batchq.domain.job import Action, Dependency, ExitRule, RetryStrategy
from batchq.domain.names import JobId, QueueName, node_id
from batchq.domain.task import Condition, NodeRange, Nodes, Task, TaskContainer
from batchq.errors import BatchqError, Invalid
from batchq.ports import Clock
from batchq.service import Submission
from batchq.values import SubmissionKey
from compute.script import Script, write
from tests.simulation.dice import Dice
from tests.simulation.oracles import Witness
from tests.simulation.server import Server
from tests.simulation.story import Story
from tests.support import builders

LARGEST = 4000  # thousandths of a vCPU that an environment ever has
ENVIRONMENTS = ("east", "west")
QUEUES = {"urgent": (10, ENVIRONMENTS), "usual": (1, ENVIRONMENTS[::-1])}
DEFINITIONS = {"plain": "batchq-test:latest", "pulled": "far/away:1", "missing": "no/such:1"}


class Lost(Exception):
    """No answer came: the server is away, died, or was not waited for."""


class Client:
    """`server` tells who serves now. What was acknowledged is told to the witness at once."""

    def __init__(
        self, *, server: Callable[[], Server | None], clock: Clock, dice: Dice, story: Story, witness: Witness
    ) -> None:
        self._server = server
        self._clock = clock
        self._dice = dice.client
        self._story = story
        self._witness = witness
        self._count = 0
        self.ids: list[JobId] = []

    async def settle_ground(self) -> None:
        """Before anything goes wrong."""
        for name in ENVIRONMENTS:
            await self._resize(name, LARGEST, new=True)
        for name, (priority, environments) in QUEUES.items():
            made = builders.queue(name, priority=priority, environments=environments)
            await self.ask(
                lambda it, made=made: it.catalog.create_queue(
                    name=made.name,
                    state=made.state,
                    priority=made.priority,
                    environments=made.environments,
                    document="{}",
                    tags=(),
                )
            )
        for name, image in DEFINITIONS.items():
            made = builders.definition(name=name, image=image)
            await self.ask(lambda it, made=made: it.catalog.register(made))

    async def restore_ground(self) -> None:
        for name in ENVIRONMENTS:
            await self._insist(lambda name=name: self._resize(name, LARGEST))
        for name in QUEUES:
            await self._insist(lambda name=name: self._switch(QueueName(name), State.ENABLED))

    async def act(self) -> None:
        """One of the things that users do."""
        what = self._dice.choices(
            [self._submit, self._submit_twice, self._terminate, self._cancel, self._change_ground],
            weights=[10, 1, 3, 3, 1],
        )[0]
        try:
            await what()
        except (Lost, BatchqError) as why:
            self._story.tell(f"client {what.__name__} got {type(why).__name__}")

    async def end(self, job_id: JobId, *, by_cancel: bool = False) -> None:
        """Until it is acknowledged."""
        if by_cancel:
            await self._insist(lambda: self._request_cancel(job_id))
        else:
            await self._insist(lambda: self._request_terminate(job_id))

    async def ask(self, what: Callable[[Server], Coroutine[Any, Any, Any]], *, patience: float | None = None) -> Any:
        """The answer. Raises Lost, and what the service raises."""
        server = self._server()
        if server is None or not server.ready:
            raise Lost
        call = asyncio.create_task(what(server), name="a request")
        died = asyncio.create_task(server.life.died.wait())
        try:
            await asyncio.wait({call, died}, timeout=patience, return_when=asyncio.FIRST_COMPLETED)
            if call.done():
                return call.result()
            raise Lost
        finally:
            call.cancel()
            died.cancel()

    async def _submit(self) -> None:
        """With a key it may be sent again after it was lost, as boto3 does; without one it is sent once."""
        submission = self._submission()
        for _ in range(3 if submission.key else 1):
            try:
                await self._request_submit(submission)
            except Lost:
                await self._clock.sleep(self._dice.choice([0.1, 1, 4]))
            except Invalid:
                raise
            except BatchqError:
                await self._clock.sleep(0.5)
            else:
                return

    async def _submit_twice(self) -> None:
        """The first is still under way when the second comes."""
        submission = replace(self._submission(), key=self._key())
        answers = await asyncio.gather(
            self._request_submit(submission), self._request_submit(submission), return_exceptions=True
        )
        if len({it for it in answers if isinstance(it, str)}) > 1:
            self._story.breaks("I2 a repeated submission is the same job", submission.name)

    async def _request_submit(self, submission: Submission) -> JobId:
        job = await self.ask(lambda it: it.jobs.submit(submission), patience=self._patience())
        self._witness.submitted(submission.name, job.id)
        self._story.tell(f"client has {submission.name}")
        if job.id not in self.ids:
            self.ids.append(job.id)
        return job.id

    async def _terminate(self) -> None:
        """Of a gang, now and then of one node."""
        job_id = self._any_job()
        nodes = self._witness.jobs[job_id].spec.nodes if job_id in self._witness.jobs else None
        if nodes is not None and self._dice.random() < 0.4:
            node = self._dice.randrange(nodes.count)
            await self.ask(lambda it: it.jobs.terminate(node_id(job_id, node), "a user stops it"))
            self._story.tell(f"client terminated node {node} of {self._story.called(job_id)}")
        else:
            await self._request_terminate(job_id)

    async def _cancel(self) -> None:
        await self._request_cancel(self._any_job())

    async def _request_terminate(self, job_id: JobId) -> None:
        await self.ask(lambda it: it.jobs.terminate(job_id, "a user stops it"), patience=self._patience())
        self._witness.terminated(job_id)
        self._story.tell(f"client terminated {self._story.called(job_id)}")

    async def _request_cancel(self, job_id: JobId) -> None:
        await self.ask(lambda it: it.jobs.cancel(job_id, "a user cancels it"), patience=self._patience())
        self._witness.cancelled(job_id)
        self._story.tell(f"client cancelled {self._story.called(job_id)}")

    async def _change_ground(self) -> None:
        if self._dice.random() < 0.7:
            await self._resize(self._dice.choice(ENVIRONMENTS), self._dice.choice([500, 1000, 2000, LARGEST]))
        else:
            await self._switch(QueueName(self._dice.choice(list(QUEUES))), self._dice.choice(list(State)))

    async def _resize(self, name: str, millicpus: int, *, new: bool = False) -> None:
        of = EnvironmentName(name)
        if new:
            await self.ask(
                lambda it: it.catalog.create_environment(
                    name=of, state=State.ENABLED, max_millicpus=millicpus, document="{}", tags=()
                )
            )
        else:
            await self.ask(
                lambda it: it.catalog.update_environment(of, lambda was: replace(was, max_millicpus=millicpus))
            )
        self._story.tell(f"client gave {name} {millicpus}")

    async def _switch(self, name: QueueName, state: State) -> None:
        await self.ask(lambda it: it.catalog.update_queue(name, lambda was: replace(was, state=state)))
        self._story.tell(f"client {state} {name}")

    async def _insist(self, request: Callable[[], Coroutine[Any, Any, None]]) -> None:
        while True:
            try:
                return await request()
            except (Lost, BatchqError):
                await self._clock.sleep(1)

    # -------------------------------------------------------------------------------------------------- what they want

    def _any_job(self) -> JobId:
        """Young ones rather than old ones, and now and then one that nobody knows."""
        if not self.ids or self._dice.random() < 0.05:
            return builders.job_id(self._dice.randrange(10**6))
        return self._dice.choice(self.ids[-6:] if self._dice.random() < 0.7 else self.ids)

    def _patience(self) -> float | None:
        return self._dice.choice([None, None, None, 30.0, 0.0, 0.01])

    def _key(self) -> SubmissionKey:
        return builders.submission(invocation_id=f"call {self._count}")

    def _submission(self) -> Submission:
        self._count += 1
        dice = self._dice
        scripts = self._scripts()
        task, nodes = self._several()
        after = dice.sample(self.ids[-8:], min(len(self.ids[-8:]), dice.choice([0, 0, 0, 1, 2])))
        rules = (ExitRule(action=Action.EXIT, on_exit_code="3"), ExitRule(action=Action.RETRY, on_reason="*"))
        return Submission(
            name=f"job-{self._count}",
            queue=QueueName(dice.choice(list(QUEUES))),
            definition_name=dice.choices(list(DEFINITIONS), weights=[10, 2, 1])[0],
            overrides=Overrides(
                environment=(write(*scripts),),
                millicpus=LARGEST * 2 if dice.random() < 0.05 else dice.choice([250, 500, 1000, 1500]),
                memory_mib=dice.choice([32, 32, 512]),
            ),
            task=task,
            nodes=nodes,
            retry=RetryStrategy(attempts=dice.choice([1, 2, 3, 5]), evaluate_on_exit=dice.choice([(), (), rules])),
            timeout=dice.choice([None, None, timedelta(seconds=5), timedelta(seconds=20)]),
            depends_on=tuple(Dependency(job_id=it) for it in after),
            key=self._key() if dice.random() < 0.7 else None,
        )

    def _several(self) -> tuple[Task | None, Nodes | None]:
        """A task, a gang, or (mostly) neither."""
        dice = self._dice
        what = dice.random()
        if what < 0.2:
            return self._task(most=4), None
        if what < 0.35:
            count = dice.choice([1, 2, 3])
            ranges = tuple(NodeRange(first=it, last=it, task=self._task(most=2)) for it in range(count))
            return None, Nodes(count=count, main=dice.randrange(count), ranges=ranges)
        return None, None

    def _task(self, *, most: int) -> Task:
        """Each may wait for those before it."""
        names = [f"c{it}" for it in range(self._dice.randint(1, most))]
        essential = self._dice.choice(names)
        return Task(containers=tuple(self._container(name, names[:it], essential) for it, name in enumerate(names)))

    def _container(self, name: str, before: list[str], essential: str) -> TaskContainer:
        dice = self._dice
        after = dice.sample(before, min(len(before), dice.choice([0, 0, 1, 2])))
        return builders.task_container(
            name,
            after={it: dice.choice(list(Condition)) for it in after},
            essential=name == essential or dice.random() < 0.4,
            start_timeout=dice.choice([None, None, timedelta(seconds=5)]),
            stop_timeout=dice.choice([None, timedelta(0), timedelta(seconds=4)]),
            image=dice.choices(list(DEFINITIONS.values()), weights=[10, 2, 1])[0],
            environment=(write(*self._scripts()),),
            millicpus=250,
            memory_mib=32,
        )

    def _scripts(self) -> list[Script]:
        return [self._script() for _ in range(self._dice.choice([1, 1, 2, 3]))]

    def _script(self) -> Script:
        dice = self._dice
        lasts = dice.choice([0, 0, 0.3, 2, 8, 30, None])
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
            refusals=dice.choice([None, 1, 2, 5]),
            refuse_certain=dice.random() < 0.5,
        )
