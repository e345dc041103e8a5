"""Small plays with one end, whatever becomes of servers, answers and disks meanwhile: a sweep has them played over."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from batchq.compute.simulated.script import Script, write
from batchq.domain import status_reasons
from batchq.domain.container import Overrides
from batchq.domain.ids import JobId, QueueName
from batchq.domain.job import Dependency, Job, RetryStrategy, Status
from batchq.services.jobs import Submission
from tests.simulation import ending
from tests.simulation.fate import Fate
from tests.simulation.truth import Seen
from tests.simulation.wishes import LARGEST
from tests.simulation.world import World

BRIEF = Script(seconds=0)
SHORT = Script(seconds=2, output=("a line",))
FAILS = Script(seconds=1, exit_code=1)
DEAF = Script(seconds=None, on_term=None)
POLITE = Script(seconds=None, on_term=0)
REFUSED_TWICE = Script(seconds=2, refuse="no such user", refusals=2, refuse_certain=False)
SETTLES_WITHIN = timedelta(minutes=5)
MANY = tuple(f"job {number}" for number in range(300))
LOOKS = 0.05  # seconds between two looks at what has come about


@dataclass(frozen=True, kw_only=True)
class End:
    status: Status
    attempts: int
    starts: int
    reason: str | None = None


SUCCEEDED = End(status=Status.SUCCEEDED, attempts=1, starts=1)
TERMINATED = End(status=Status.FAILED, attempts=1, starts=1, reason="a user stops it")
TIMED_OUT = End(status=Status.FAILED, attempts=1, starts=1, reason=status_reasons.TIMED_OUT)


class Play:
    """A course: the stage on which a plot is played. `answered_in` is how long a request took at most."""

    def __init__(self, world: World, plot: "Plot", fate: Fate) -> None:
        self.world = world
        self.ids: dict[str, JobId] = {}
        self.answered_in = timedelta()
        self._plot = plot
        self._fate = fate

    async def course(self) -> None:
        await self.world.settle_ground()
        await self.world.serve()
        self._fate.over = False
        await self._plot.tell(self)
        soon = self.world.clock.now() + SETTLES_WITHIN
        await ending.until(self.world, lambda: self._all_over, soon)
        self._fate.over = True
        await self.world.ready()
        await self.world.clock.sleep(self._fate.settles_in)
        await ending.check(self.world)

    @property
    def _all_over(self) -> bool:
        return not self.world.unfinished() and not self.world.machine.engine.containers

    async def submit(self, name: str, *scripts: Script, after: str | None = None, **asked: Any) -> None:
        """Until it is acknowledged."""
        overrides = Overrides(environment=(write(*scripts),), **{"millicpus": 250} | asked.pop("room", {}))
        depends_on = () if after is None else (Dependency(job_id=self.ids[after]),)
        submission = Submission(
            **{"definition_name": "plain", "retry": RetryStrategy(attempts=1)} | asked,
            overrides=overrides,
            name=name,
            queue=QueueName("usual"),
            depends_on=depends_on,
            key=self.world.client.key(),
        )
        asked_at = self.world.clock.now()
        self.ids[name] = await self.world.client.insist(submission)
        self.answered_in = max(self.answered_in, self.world.clock.now() - asked_at)

    async def terminate(self, name: str) -> None:
        asked_at = self.world.clock.now()
        await self.world.client.end(self.ids[name])
        self.answered_in = max(self.answered_in, self.world.clock.now() - asked_at)

    async def cancel(self, name: str) -> None:
        await self.world.client.end(self.ids[name], by_cancel=True)

    async def until(self, holds: Callable[[], bool]) -> None:
        while not holds():
            await self.world.clock.sleep(LOOKS)

    async def passes(self, seconds: float) -> None:
        await self.world.clock.sleep(seconds)

    def job(self, name: str) -> Job:
        """As last committed."""
        return self.world.witness.jobs[self.ids[name]]

    def started(self, name: str) -> list[Seen]:
        """The containers of it that ever ran."""
        return [it for it in self.world.witness.truth.of_job(self.ids[name]) if it.ran]

    def ends(self) -> Mapping[str, End]:
        return {
            name: End(
                status=job.status,
                attempts=len(job.attempts),
                starts=len(self.started(name)),
                reason=None if job.status is Status.SUCCEEDED else job.status_reason,
            )
            for name, job in ((name, self.job(name)) for name in self.ids)
        }


@dataclass(frozen=True, kw_only=True)
class Plot:
    """`ends` are those of its jobs, by name: what it comes to if nothing goes wrong, and if something does."""

    name: str
    tell: Callable[[Play], Awaitable[None]]
    ends: Mapping[str, End]


async def _one(play: Play) -> None:
    await play.submit("a", SHORT)


async def _at_once(play: Play) -> None:
    await play.submit("a", BRIEF)


async def _again(play: Play) -> None:
    await play.submit("a", FAILS, FAILS, SHORT, retry=RetryStrategy(attempts=3))


async def _another_waits(play: Play) -> None:
    await play.submit("a", SHORT)
    await play.submit("b", SHORT, after="a")


async def _no_room(play: Play) -> None:
    for name in "abc":
        await play.submit(name, SHORT, room={"millicpus": LARGEST})


async def _pulled(play: Play) -> None:
    await play.submit("a", SHORT, definition_name="pulled")


async def _terminated(play: Play, script: Script) -> None:
    await play.submit("a", script)
    await play.until(lambda: play.started("a"))
    await play.passes(1)
    await play.terminate("a")


async def _crowd(play: Play) -> None:
    for name in MANY:
        await play.submit(name, DEAF, room={"millicpus": 25, "memory_mib": 4})
    await play.until(lambda: all(play.job(name).status is Status.RUNNING for name in MANY))
    play.answered_in = timedelta()
    await asyncio.gather(*(play.terminate(name) for name in MANY))


async def _timed_out(play: Play) -> None:
    await play.submit("a", DEAF, timeout=timedelta(seconds=2))


async def _fails(play: Play) -> None:
    await play.submit("a", FAILS, SHORT, retry=RetryStrategy(attempts=3))


ONE = Plot(name="one that succeeds", tell=_one, ends={"a": SUCCEEDED})
AT_ONCE = Plot(name="one that ends at once", tell=_at_once, ends={"a": SUCCEEDED})
AGAIN = Plot(
    name="one that succeeds at last", tell=_again, ends={"a": End(status=Status.SUCCEEDED, attempts=3, starts=3)}
)
FAILING = Plot(name="one that fails first", tell=_fails, ends={"a": End(status=Status.SUCCEEDED, attempts=2, starts=2)})
DEPENDENT = Plot(name="one after another", tell=_another_waits, ends={"a": SUCCEEDED, "b": SUCCEEDED})
NO_ROOM = Plot(name="one without room", tell=_no_room, ends=dict.fromkeys("abc", SUCCEEDED))
PULLED = Plot(name="one whose image is pulled", tell=_pulled, ends={"a": SUCCEEDED})
DEAF_ONE = Plot(name="a deaf one is terminated", tell=lambda it: _terminated(it, DEAF), ends={"a": TERMINATED})
POLITE_ONE = Plot(name="a polite one is terminated", tell=lambda it: _terminated(it, POLITE), ends={"a": TERMINATED})
TOO_LONG = Plot(name="one takes too long", tell=_timed_out, ends={"a": TIMED_OUT})
REFUSED = Plot(name="one starts in the end", tell=lambda it: it.submit("a", REFUSED_TWICE), ends={"a": SUCCEEDED})
CROWD = Plot(name="a crowd is terminated", tell=_crowd, ends=dict.fromkeys(MANY, TERMINATED))

PLOTS = (ONE, AT_ONCE, AGAIN, FAILING, DEPENDENT, NO_ROOM, PULLED, DEAF_ONE, POLITE_ONE, TOO_LONG, REFUSED)
