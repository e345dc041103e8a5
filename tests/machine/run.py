"""Executes one sequence of requests in a simulated world, until every job is finished."""

import asyncio
import gc
import re
from itertools import count

import pytest
from msgspec.structs import replace

from batchq.compute.simulated.script import Script, script_variable
from batchq.domain.enums import Action, DependencyType
from batchq.domain.ids import JobId, child_id
from batchq.domain.job import Dependency, ExitRule
from batchq.engine import propagation
from batchq.errors import Invalid, NotFound
from tests.machine.model import differences
from tests.machine.observations import (
    ACTIVE,
    Array,
    CommitRecorder,
    GrantedOrder,
    HoldReply,
    Leaf,
    Record,
    RefusedSubmission,
)
from tests.machine.requests import HoldRequest, Order, Restart, Sequence, Submit, Wait
from tests.support import builders
from tests.support.builders import ADMIN
from tests.support.clock import TimerLoop
from tests.support.world import World, new_simulated

BATCH_SIZE = 2  # children that one unit of work spawns or stops; small, so that other units run in between
MAX_WAITS = 200  # ten seconds apart
USERS = ("ada", "bob", "cora")
RULES = (ExitRule(action=Action.EXIT, on_exit_code="3"), ExitRule(action=Action.RETRY, on_reason="*"))
UNKNOWN_JOB = builders.job_id(10**9)
SEQUENTIAL = Dependency(job_id=None, type=DependencyType.SEQUENTIAL)


RUNS_OF_A_COLLECTION = 10
_runs = count(1)


def run(sequence: Sequence) -> Record:
    """The requests and observations."""
    try:
        return _recorded(sequence)
    finally:
        # The world is a cycle of megabytes. A collection examines the whole process, so that some worlds wait for it.
        if next(_runs) % RUNS_OF_A_COLLECTION == 0:
            gc.collect()


def _recorded(sequence):
    with pytest.MonkeyPatch.context() as patch, asyncio.Runner(loop_factory=TimerLoop) as runner:
        patch.setattr(propagation, "MAX_CHILDREN", BATCH_SIZE)
        return runner.run(_run(sequence))


async def _run(sequence):
    record = Record()
    commits = CommitRecorder(record, lambda: _uptime(record))
    world = new_simulated(new_job_id=map(builders.job_id, count()).__next__)
    world.store.before_commit, world.store.after_commit = _yield_to_clients, commits.committed
    await world.boot()
    await world.create_default_catalog()
    runner = Runner(world, record, commits)
    try:
        for step in sequence.steps:
            await runner.do(step)
        if await runner.run_to_end():
            await world.end()
    except (AssertionError, TimeoutError) as why:
        record.errors.append(f"something is left over: {why}")
    finally:
        await world.crash()
        await world.machine.close()
    return record


def _uptime(record):
    """Seconds in which a server ran."""
    return round(asyncio.get_running_loop().time() - record.away, 6)


async def _yield_to_clients(_changes):
    """Before each commit other tasks run, so that a client that got its reply can send the next request first."""
    for _ in range(3):
        await asyncio.sleep(0)


class Runner:
    def __init__(self, world: World, record: Record, commits: CommitRecorder) -> None:
        self._world = world
        self._record = record
        self._commits = commits
        self._ids: list[JobId] = []
        self._reasons = count()

    async def do(self, step):
        match step:
            case Submit():
                await self._submit(step)
            case Order(kind=kind):
                await self._order(kind, self._with_names(step))
            case HoldRequest(kind=kind):
                await self._hold(kind, self._with_names(step))
            case Wait(seconds=seconds):
                await self._world.sleep(seconds)
            case Restart(away=away):
                await self._restart(away)

    async def _restart(self, away):
        await self._world.crash()
        await self._world.sleep(away)
        self._record.away += away
        await self._world.boot()

    async def run_to_end(self) -> bool:
        """Whether every job finishes once it is released. Jobs that would run for ever are terminated once they run."""
        for job_id in dict.fromkeys(hold.of for hold in self._record.holds if hold.holds):
            await self._hold("release", job_id)
        for _ in range(MAX_WAITS):
            await self._world.sleep(10)
            left = [identifier for identifier in self._record.ids() if not self._over(identifier)]
            if not left:
                return True
            for job_id in filter(self._runs_forever, left):
                await self._order("terminate", job_id)
        return False

    async def _submit(self, step):
        other = self._counterpart(step)
        size = step.size if other is None else len(self._record.arrays[other].children)
        after = tuple(dict.fromkeys(self._with_names(name) for name in step.after)) if self._ids else ()
        waits = [Dependency(job_id=job_id) for job_id in after]
        if step.sequential and size is not None:
            waits.append(SEQUENTIAL)
        if other is not None:
            waits.append(Dependency(job_id=other, type=DependencyType.N_TO_N))
        submission = self._world.submit(
            array_size=size,
            after=waits,
            attempts=step.attempts,
            rules=RULES if step.stops_at_exit_3 else (),
            millicpus=2000 if step.large else 250,
            environment=(
                script_variable(*map(_script, step.scripts)),
                *(script_variable(_script(script), child=index) for index, script in step.own),
            ),
        )
        try:
            job_id = await submission
        except Invalid as why:
            self._record.refused.append(RefusedSubmission(after=after, commit=self._commits.number, why=str(why)))
            return
        self._ids.append(job_id)
        self._record_submission(job_id, step, size=size, after=after, other=other)

    def _record_submission(self, job_id, step, *, size, after, other):
        if size is None:
            self._record.leaves[job_id] = _leaf(step, step.scripts, after=after)
            return
        children = tuple(child_id(job_id, index) for index in range(size))
        begins_after = () if other is None else (other,)
        self._record.arrays[job_id] = Array(children=children, after=after, begins_after=begins_after)
        for index, child in enumerate(children):
            waits = [children[index - 1]] if step.sequential and index else []
            waits += [] if other is None else [child_id(other, index)]
            own = dict(step.own)
            scripts = (own[index],) if index in own else step.scripts
            self._record.leaves[child] = _leaf(step, scripts, after=tuple(waits), parent=job_id)

    def _counterpart(self, step):
        arrays = list(self._record.arrays)
        return arrays[step.counterpart % len(arrays)] if step.counterpart is not None and arrays else None

    def _with_names(self, step):
        """The id of the job that a dependency, an order or a hold names."""
        number = step.of if isinstance(step, Order | HoldRequest) else step.job
        if number is None or not self._ids:
            return UNKNOWN_JOB
        job_id = self._ids[number % len(self._ids)]
        array = self._record.arrays.get(job_id)
        return job_id if array is None or step.child is None else array.children[step.child % len(array.children)]

    async def _order(self, kind, job_id):
        number = next(self._reasons)
        sent, reason, user = self._commits.number, f"{kind} {number}", USERS[number % len(USERS)]
        self._world.caller = replace(ADMIN, user=user)
        await getattr(self._world, kind)(job_id, reason)
        self._world.caller = ADMIN
        granted, at = self._commits.number, _uptime(self._record)
        self._record.orders.append(
            GrantedOrder(kind=kind, of=job_id, user=user, reason=reason, sent=sent, granted=granted, at=at)
        )

    async def _hold(self, kind, job_id):
        sent, refused = self._commits.number, None
        try:
            await getattr(self._world, kind)(job_id)
        except (Invalid, NotFound) as why:
            refused = str(why)
        reply = HoldReply(
            kind=kind, of=job_id, refused=refused, sent=sent, granted=self._commits.number, at=_uptime(self._record)
        )
        self._record.holds.append(reply)

    def _over(self, job_id):
        """Whether the job is finished; a child that was never created is finished with its array."""
        seen = self._record.seen.get(job_id)
        if seen is not None:
            return seen.over is not None
        parent = self._record.leaves[job_id].parent
        return parent is not None and self._over(parent)

    def _runs_forever(self, job_id):
        leaf, seen = self._record.leaves.get(job_id), self._record.seen.get(job_id)
        if leaf is None or seen is None or seen.last.status not in ACTIVE:
            return False
        return leaf.script(len(seen.starts))[0] is None


def _leaf(step, scripts, *, after, parent=None):
    lines = tuple((script.seconds, script.exit_code) for script in scripts)
    return Leaf(parent=parent, scripts=lines, attempts=step.attempts, stops_at_exit_3=step.stops_at_exit_3, after=after)


def _script(script):
    return Script(seconds=script.seconds, exit_code=script.exit_code, on_term=None if script.ignores_signal else 143)


def check(sequence: Sequence) -> None:
    """Run it and compare with the model. Raises AssertionError with the differences and what happened."""
    record = run(sequence)
    problems = [*record.errors, *differences(record)]
    if problems:
        raise AssertionError("\n".join(["", *_with_names(record, [*problems, "", *_lines(record)])]))


def _lines(record):
    lines = [
        (observation.commit, 1, f"{observation.at:8.2f}  {job_id} {_describe(observation)}")
        for job_id, of in record.seen.items()
        for observation in of.observations
    ]
    lines += [
        (order.granted, 2, f"{order.at:8.2f}  {order.kind} {order.of}: {order.reason!r}") for order in record.orders
    ]
    lines += [
        (hold.granted, 2, f"{hold.at:8.2f}  {hold.kind} {hold.of}: {hold.refused or 'done'}") for hold in record.holds
    ]
    return [f"{commit:4} {line}" for commit, _, line in sorted(lines)]


def _describe(observation):
    flags = [name for name in ("held", "cancelled", "terminated", "has_children") if getattr(observation, name)]
    return " ".join(
        [
            observation.status,
            f"({observation.reason})",
            f"{observation.attempts} attempts",
            str(observation.exits),
            *flags,
        ]
    )


def _with_names(record, lines):
    """The lines with the number of each job in place of its id, which differs in each run."""
    names = {
        identifier: f"job-{number}"
        for number, identifier in enumerate(sorted(identifier for identifier in record.ids() if ":" not in identifier))
    }
    ids = re.compile("|".join(names) or "$.")
    return [ids.sub(lambda pair: names[pair[0]], line) for line in lines]
