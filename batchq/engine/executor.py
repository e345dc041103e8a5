"""Effects become calls of the runtime, and what is learnt from them becomes letters.

Calls about one container wait for each other, so a stop can never slip in between a create and a start. No call waits
for a container to end, and none takes an end from anything but an inspection. A call without an answer may have been
carried out: it is made again, from a look at what is there.
"""

import asyncio
import logging
from collections import defaultdict
from collections.abc import Awaitable, Callable
from weakref import WeakValueDictionary

from batchq.domain import effects as do
from batchq.domain import events as on
from batchq.domain.catalog import Network
from batchq.domain.job import Job
from batchq.domain.moves import attempt_of
from batchq.domain.names import JobId, Tag
from batchq.domain.stopping import signal_of
from batchq.engine.accounts import Accounts
from batchq.engine.letters import Deliver, Ring
from batchq.engine.reports import report
from batchq.engine.starting import Start
from batchq.engine.tasks import Tasks
from batchq.errors import ContainerGone, EngineUnknown, StoreFailed
from batchq.ports import Clock, ContainerRuntime
from batchq.values import ContainerState

log = logging.getLogger(__name__)

ASK_AGAIN = 1.0  # seconds after a stop signal that was not answered


class Executor:
    """`keep_log` copies a container's output into the archive, `network_on` tells what a compute environment says.

    Asking for what is already under way does nothing.
    """

    def __init__(
        self,
        *,
        runtime: ContainerRuntime,
        network_on: Callable[[str], Network | None],
        accounts: Accounts,
        keep_log: Callable[[Tag], Awaitable[None]],
        clock: Clock,
        tasks: Tasks,
        post: Callable[[Deliver | Ring], None],
    ) -> None:
        self._runtime = runtime
        self._network_on = network_on
        self._accounts = accounts
        self._keep_log = keep_log
        self._clock = clock
        self._tasks = tasks
        self._post = post
        self._starts: dict[Tag, Start] = {}
        self._clearing: defaultdict[JobId, dict[Tag, asyncio.Task[None]]] = defaultdict(dict)
        self._under_way: set[do.Effect] = set()
        self._look_again: set[Tag] = set()
        self._signalled: set[Tag] = set()
        self._judged: set[Tag] = set()
        self._turns: WeakValueDictionary[Tag, asyncio.Lock] = WeakValueDictionary()

    def act(self, effect: do.Effect, job: Job | None) -> None:
        if isinstance(effect, do.AbandonStart):
            self._abandon(effect.tag)
        elif effect not in self._under_way:
            self._under_way.add(effect)
            if isinstance(effect, do.StartContainer):
                self._prepare_start(effect, job)
            task = self._tasks.task(f"{type(effect).__name__} {effect.tag}", self._carry_out(effect, job))
            if isinstance(effect, do.ClearAway):
                self._abandon(effect.tag)  # over before its start was answered: nothing more is to be asked for it
                self._clearing[effect.tag.job_id][effect.tag] = task

    def look(self, tag: Tag) -> None:
        """Something was heard of this container: see what is true. A look under way may have been too early for it."""
        self._look_again.add(tag)
        self.act(do.InspectContainer(tag=tag), None)

    async def _carry_out(self, effect: do.Effect, job: Job | None) -> None:
        """One at a time for a container, but a look, which changes nothing, need not wait."""
        try:
            if isinstance(effect, do.InspectContainer):
                await self._look_until_current(effect.tag)
            else:
                async with self._turns.setdefault(effect.tag, asyncio.Lock()):
                    await self._change(effect, job)
        finally:
            self._under_way.discard(effect)
            if isinstance(effect, do.ClearAway):
                self._cleared(effect.tag)

    async def _change(self, effect: do.Effect, job: Job | None) -> None:
        match effect:
            case do.StartContainer(tag=tag):
                await self._start(tag)
            case do.StopContainer(tag=tag):
                await self._stop(tag, None if job is None else signal_of(job, tag))
            case do.KillContainer(tag=tag):
                await self._kill(tag)
            case do.ClearAway(tag=tag):
                await self._clear(tag)
            case do.AbandonStart() | do.InspectContainer():
                raise TypeError(effect)

    def _prepare_start(self, effect: do.StartContainer, job: Job | None) -> None:
        """At once, before the call has its turn: from here on it can be given up."""
        assert job is not None, f"{effect} of an unknown job"
        self._starts[effect.tag] = Start(
            job=job,
            tag=effect.tag,
            network=self._network_on(attempt_of(job).environment),
            runtime=self._runtime,
            accounts=self._accounts,
            clock=self._clock,
            tasks=self._tasks,
            save=lambda made: self._save(effect.tag, made),
        )

    async def _start(self, tag: Tag) -> None:
        """To a verdict, and not again: until that is saved the job looks as if it still had to be started.

        What the engine still has of earlier attempts goes first.
        """
        try:
            await self._starts[tag].after(self._clearing_before(tag))
            news = () if tag in self._judged else await self._starts[tag].run()
        finally:
            del self._starts[tag]
        if news:
            self._judged.add(tag)
        self._tell(tag, news)

    def _clearing_before(self, tag: Tag) -> list[asyncio.Task[None]]:
        """Of earlier attempts. Each ends when it was tried once: what the engine does not answer for is dead."""
        return [task for of, task in self._clearing.get(tag.job_id, {}).items() if of.attempt < tag.attempt]

    def _cleared(self, tag: Tag) -> None:
        self._clearing[tag.job_id].pop(tag, None)
        if not self._clearing[tag.job_id]:
            del self._clearing[tag.job_id]

    def _abandon(self, tag: Tag) -> None:
        """Where no start is under way there is nothing to give up: it has been made, and its letter is on its way."""
        if tag in self._starts:
            self._starts[tag].abandoned.set()

    async def _stop(self, tag: Tag, signal: str | None) -> None:
        """Until it is delivered, and not again: to many programs a second signal means to drop everything.

        Nor longer than it is wanted: what was given up is to be cleared away, whether or not it hears.
        """
        while tag not in self._signalled:
            if tag in self._clearing.get(tag.job_id, {}):
                return
            try:
                await self._runtime.signal_stop(tag, signal)
            except EngineUnknown as unknown:
                log.warning("container %s: no answer to the stop signal, sent again: %s", tag, unknown)
                await self._clock.sleep(ASK_AGAIN)
            except ContainerGone:
                self.look(tag)
                return
            else:
                self._signalled.add(tag)
        self._tell(tag, (on.StopAsked(attempt=tag.attempt, part=tag.part),))

    async def _kill(self, tag: Tag) -> None:
        """Once; the job's alarm asks again while it lives."""
        try:
            await self._runtime.kill(tag)
        except EngineUnknown as unknown:
            log.warning("container %s: no answer to the kill: %s", tag, unknown)
        except ContainerGone:
            self.look(tag)

    async def _clear(self, tag: Tag) -> None:
        """Its log first. What fails here is found by the next survey, which asks again."""
        self._signalled.discard(tag)
        self._judged.discard(tag)
        try:
            await self._keep_log(tag)
            await self._runtime.remove(tag)
        except (EngineUnknown, StoreFailed) as failure:
            log.warning("container %s is not cleared away yet: %s", tag, failure)

    async def _look_until_current(self, tag: Tag) -> None:
        self._look_again.add(tag)
        while tag in self._look_again:
            self._look_again.discard(tag)
            await self._inspect(tag)

    async def _inspect(self, tag: Tag) -> None:
        """A container on its way to its start may look absent or not begun; that is the start's business."""
        try:
            found = await self._runtime.inspect(tag)
        except EngineUnknown as unknown:
            log.warning("container %s could not be looked at: %s", tag, unknown)
            return
        if tag not in self._starts or (found is not None and found.stopped_at is not None):
            self._tell(tag, report(tag, found))
        if found is not None and found.state is ContainerState.RUNNING:
            self._post(Ring(job_id=tag.job_id, seen_alive=tag))

    async def _save(self, tag: Tag, event: on.ContainerCreated) -> None:
        """Return when the event is saved. Raises Unavailable."""
        saved: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._post(Deliver(job_id=tag.job_id, event=event, answer=saved))
        await saved

    def _tell(self, tag: Tag, events: tuple[on.News, ...]) -> None:
        for event in events:
            self._post(Deliver(job_id=tag.job_id, event=event))
