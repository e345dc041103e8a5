"""A story is told to the real engine in the pretended world, to the end: until every job is over."""

import asyncio
from itertools import count

import pytest

from batchq.compute.simulated.script import Script, write
from batchq.domain.ids import JobId, child_id
from batchq.domain.job import Action, Dependency, DependencyType, ExitRule
from batchq.engine import arrays as families
from batchq.errors import Invalid
from tests.machine.deeds import Order, Pass, Restart, Story, Submit
from tests.machine.facts import ACTIVE, Array, Asked, Facts, Journal, Leaf, Refused
from tests.support import builders
from tests.support.clock import TimerLoop
from tests.support.world import World, simulated

FEW = 2  # children that one unit of work spawns, and tells: so that much comes in between
LOOKS = 200  # ten seconds apart
RULES = (ExitRule(action=Action.EXIT, on_exit_code="3"), ExitRule(action=Action.RETRY, on_reason="*"))
NOBODY = builders.job_id(10**9)
SEQUENTIAL = Dependency(job_id=None, type=DependencyType.SEQUENTIAL)


def play(story: Story) -> Facts:
    """What was asked and seen."""
    with pytest.MonkeyPatch.context() as patch, asyncio.Runner(loop_factory=TimerLoop) as runner:
        patch.setattr(families, "MOST", FEW)
        return runner.run(_play(story))


async def _play(story):
    facts = Facts()
    journal = Journal(facts, lambda: _served(facts))
    world = simulated(new_job_id=map(builders.job_id, count()).__next__)
    world.store.before_commit, world.store.after_commit = _breathe, journal.committed
    await world.boot()
    await world.settle_ground()
    player = Player(world, facts, journal)
    try:
        for deed in story.deeds:
            await player.do(deed)
        if await player.see_it_through():
            await world.end()
    except (AssertionError, TimeoutError) as why:
        facts.trouble.append(f"the world is not left as it should be: {why}")
    finally:
        await world.crash()
        await world.machine.close()
    return facts


def _served(facts):
    """Seconds that a server was there."""
    return round(asyncio.get_running_loop().time() - facts.away, 6)


async def _breathe(_changes):
    """Before it commits, others have their turn: whoever was answered after one commit acts before the next."""
    for _ in range(3):
        await asyncio.sleep(0)


class Player:
    def __init__(self, world: World, facts: Facts, journal: Journal) -> None:
        self._world = world
        self._facts = facts
        self._journal = journal
        self._ids: list[JobId] = []
        self._reasons = count()

    async def do(self, deed):
        match deed:
            case Submit():
                await self._submit(deed)
            case Order(kind=kind):
                await self._order(kind, self._named(deed))
            case Pass(seconds=seconds):
                await self._world.passes(seconds)
            case Restart(away=away):
                await self._restart(away)

    async def _restart(self, away):
        await self._world.crash()
        await self._world.passes(away)
        self._facts.away += away
        await self._world.boot()

    async def see_it_through(self) -> bool:
        """Whether every job comes to its end. Whoever would run for ever is terminated when it runs."""
        for _ in range(LOOKS):
            await self._world.passes(10)
            left = [it for it in self._facts.ids() if not self._over(it)]
            if not left:
                return True
            for job_id in filter(self._is_endless, left):
                await self._order("terminate", job_id)
        return False

    async def _submit(self, deed):
        other = self._counterpart(deed)
        size = deed.size if other is None else len(self._facts.arrays[other].children)
        after = tuple(dict.fromkeys(self._named(it) for it in deed.after)) if self._ids else ()
        waits = [Dependency(job_id=it) for it in after]
        if deed.sequential and size is not None:
            waits.append(SEQUENTIAL)
        if other is not None:
            waits.append(Dependency(job_id=other, type=DependencyType.N_TO_N))
        asked = self._world.submit(
            array_size=size,
            after=waits,
            attempts=deed.attempts,
            rules=RULES if deed.gives_up else (),
            millicpus=2000 if deed.large else 250,
            environment=(
                write(*map(_script, deed.acts)),
                *(write(_script(act), child=index) for index, act in deed.own),
            ),
        )
        try:
            job_id = await asked
        except Invalid as why:
            self._facts.refused.append(Refused(after=after, commit=self._journal.commits, why=str(why)))
            return
        self._ids.append(job_id)
        self._note(job_id, deed, size=size, after=after, other=other)

    def _note(self, job_id, deed, *, size, after, other):
        if size is None:
            self._facts.leaves[job_id] = _leaf(deed, deed.acts, after=after)
            return
        children = tuple(child_id(job_id, index) for index in range(size))
        begins_after = () if other is None else (other,)
        self._facts.arrays[job_id] = Array(children=children, after=after, begins_after=begins_after)
        for index, it in enumerate(children):
            waits = [children[index - 1]] if deed.sequential and index else []
            waits += [] if other is None else [child_id(other, index)]
            own = dict(deed.own)
            acts = (own[index],) if index in own else deed.acts
            self._facts.leaves[it] = _leaf(deed, acts, after=tuple(waits), parent=job_id)

    def _counterpart(self, deed):
        arrays = list(self._facts.arrays)
        return arrays[deed.counterpart % len(arrays)] if deed.counterpart is not None and arrays else None

    def _named(self, deed):
        """The id that a dependency or an order speaks of."""
        number = deed.of if isinstance(deed, Order) else deed.job
        if number is None or not self._ids:
            return NOBODY
        job_id = self._ids[number % len(self._ids)]
        array = self._facts.arrays.get(job_id)
        return job_id if array is None or deed.child is None else array.children[deed.child % len(array.children)]

    async def _order(self, kind, job_id):
        sent, reason = self._journal.commits, f"{kind} {next(self._reasons)}"
        await getattr(self._world, kind)(job_id, reason)
        granted, at = self._journal.commits, _served(self._facts)
        self._facts.orders.append(Asked(kind=kind, of=job_id, reason=reason, sent=sent, granted=granted, at=at))

    def _over(self, job_id):
        """A child that its array never had is none that anybody waits for."""
        seen = self._facts.seen.get(job_id)
        if seen is not None:
            return seen.over is not None
        parent = self._facts.leaves[job_id].parent
        return parent is not None and self._over(parent)

    def _is_endless(self, job_id):
        leaf, seen = self._facts.leaves.get(job_id), self._facts.seen.get(job_id)
        if leaf is None or seen is None or seen.last.status not in ACTIVE:
            return False
        return leaf.act(len(seen.starts))[0] is None


def _leaf(deed, acts, *, after, parent=None):
    told = tuple((act.seconds, act.exit_code) for act in acts)
    return Leaf(parent=parent, acts=told, attempts=deed.attempts, gives_up=deed.gives_up, after=after)


def _script(act):
    return Script(seconds=act.seconds, exit_code=act.exit_code, on_term=None if act.deaf else 143)
