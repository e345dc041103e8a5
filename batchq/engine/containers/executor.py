"""Effects become calls of the runtime, and what is learnt from them becomes letters.

Calls about one container wait for each other, so a stop can never slip in between a create and a start. No call waits
for a container to end, and none takes an end from anything but an inspection. A call without an answer may have been
carried out: it is made again, from a look at what is there.
"""

import asyncio
import logging
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable

from msgspec import Struct, field

from batchq.domain import effects as do
from batchq.domain import events as on
from batchq.domain.catalog import Network
from batchq.domain.ids import JobId, Tag
from batchq.domain.job import Job
from batchq.domain.lifecycle.container_gates import spec_of
from batchq.domain.lifecycle.status import attempt_of
from batchq.domain.lifecycle.stop_order import signal_of
from batchq.engine.account_limits import Accounts
from batchq.engine.containers.report import is_known_to_run, is_waited_for, report
from batchq.engine.containers.start import Start
from batchq.engine.containers.start_breaker import StartBreaker
from batchq.engine.messages import Deliver, Ring
from batchq.engine.supervisor import Tasks
from batchq.errors import ContainerGone, EngineUnknown, LogRefused, StoreFailed
from batchq.ports.clock import Clock
from batchq.ports.runtime import ContainerCalls, ContainerState, DeathReport, Inspection

log = logging.getLogger(__name__)

MAX_LOG_REFUSALS = 3  # of an engine that was asked for the log of a container that is over
ASK_AGAIN = 1.0  # seconds after a stop signal that was not answered


class Case(Struct, kw_only=True):
    """What is known of one container, from the first call about it until it is cleared away.

    `turn` is held by the call that may change it. `judged`: the verdict of its start is told. `look_again`: something
    was heard of it since it was last looked at.
    """

    under_way: set[type[do.Effect]] = field(default_factory=set)
    turn: asyncio.Lock = field(default_factory=asyncio.Lock)
    start: Start | None = None
    judged: bool = False
    signalled: bool = False
    look_again: bool = False

    @property
    def closed(self) -> bool:
        return not (self.under_way or self.judged or self.signalled)


class Executor:
    """`keep_log` copies a container's output into the archive, and tells whether the container is removed by that.

    `network_on` tells what a compute environment says, `saved` tells a job that is under way, as last saved.
    Asking for what is already under way does nothing.
    """

    def __init__(
        self,
        *,
        runtime: ContainerCalls,
        network_on: Callable[[str], Network | None],
        accounts: Accounts,
        breaker: StartBreaker,
        keep_log: Callable[[Tag], Awaitable[bool]],
        clock: Clock,
        tasks: Tasks,
        saved: Callable[[JobId], Job | None],
        post: Callable[[Deliver | Ring], None],
    ) -> None:
        self._runtime = runtime
        self._network_on = network_on
        self._accounts = accounts
        self._breaker = breaker
        self._keep_log = keep_log
        self._clock = clock
        self._tasks = tasks
        self._saved = saved
        self._post = post
        self._cases: dict[Tag, Case] = {}
        self._refused_logs: Counter[Tag] = Counter()
        self._clearing: defaultdict[JobId, dict[Tag, asyncio.Task[None]]] = defaultdict(dict)

    def act(self, effect: do.Effect, job: Job | None) -> None:
        tag = effect.tag
        case = self._cases.get(tag)
        if isinstance(effect, do.AbandonStart):
            _abandon(case)
            return
        if case is None:
            case = self._cases[tag] = Case()
        if type(effect) in case.under_way:
            return
        case.under_way.add(type(effect))
        if isinstance(effect, do.StartContainer):
            case.start = self._prepared(tag, job)
        task = self._tasks.task(f"{type(effect).__name__} {tag}", self._carry_out(effect, job, case))
        if isinstance(effect, do.ClearAway):
            _abandon(case)  # over before its start was answered: nothing more is to be asked for it
            self._clearing[tag.job_id][tag] = task

    def hear(self, news: Tag | DeathReport) -> None:
        """Of a container that may have ended. What was found of it since is as good as a look of our own.

        That it is absent is for a look of our own to find: the engine may have been exchanged.
        """
        if isinstance(news, DeathReport) and news.found is not None:
            self._judge(news.tag, news.found, self._cases.get(news.tag))
        else:
            self.look(news.tag if isinstance(news, DeathReport) else news)

    def look(self, tag: Tag) -> None:
        """Something was heard of this container: see what is true. A look under way may have been too early for it."""
        self.act(do.InspectContainer(tag=tag), None)
        self._cases[tag].look_again = True

    async def _carry_out(self, effect: do.Effect, job: Job | None, case: Case) -> None:
        """One at a time for a container, but a look, which changes nothing, need not wait."""
        tag = effect.tag
        try:
            if isinstance(effect, do.InspectContainer):
                await self._look_until_current(tag, case)
            else:
                async with case.turn:
                    await self._change(effect, job, case)
        finally:
            case.under_way.discard(type(effect))
            if isinstance(effect, do.ClearAway):
                self._cleared(tag)
            if case.closed:
                del self._cases[tag]

    async def _change(self, effect: do.Effect, job: Job | None, case: Case) -> None:
        match effect:
            case do.StartContainer(tag=tag):
                await self._start(tag, case)
            case do.StopContainer(tag=tag):
                await self._stop(tag, case, None if job is None else signal_of(job, tag))
            case do.KillContainer(tag=tag):
                await self._kill(tag)
            case do.ClearAway(tag=tag):
                await self._clear(tag, job, case)
            case do.AbandonStart() | do.InspectContainer():
                raise TypeError(effect)

    def _prepared(self, tag: Tag, job: Job | None) -> Start:
        """Before the call has its turn: from here on it can be given up."""
        assert job is not None, f"a start of {tag}, which is of an unknown job"
        return Start(
            job=job,
            tag=tag,
            network=self._network_on(attempt_of(job).environment),
            runtime=self._runtime,
            accounts=self._accounts,
            breaker=self._breaker,
            clock=self._clock,
            tasks=self._tasks,
            save=lambda made: self._save(tag, made),
        )

    async def _start(self, tag: Tag, case: Case) -> None:
        """To a verdict, and not again: until that is saved the job looks as if it still had to be started.

        What the engine still has of earlier attempts goes first.
        """
        assert case.start is not None, f"the start of {tag} was not prepared"
        try:
            await case.start.after(self._clearing_before(tag))
            news = () if case.judged else await case.start.run()
        finally:
            case.start = None
        case.judged = case.judged or news != ()
        self._tell(tag, news)

    def _clearing_before(self, tag: Tag) -> list[asyncio.Task[None]]:
        """Of earlier attempts. Each ends when it was tried once: what the engine does not answer for is dead."""
        return [task for of, task in self._clearing.get(tag.job_id, {}).items() if of.attempt < tag.attempt]

    def _cleared(self, tag: Tag) -> None:
        self._clearing[tag.job_id].pop(tag, None)
        if not self._clearing[tag.job_id]:
            del self._clearing[tag.job_id]

    async def _stop(self, tag: Tag, case: Case, signal: str | None) -> None:
        """Until it is delivered, and not again: to many programs a second signal means to drop everything.

        Nor longer than it is wanted: what was given up is to be cleared away, whether or not it hears.
        """
        while not case.signalled:
            if do.ClearAway in case.under_way:
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
                case.signalled = True
        self._tell(tag, (on.StopAsked(attempt=tag.attempt, part=tag.part),))

    async def _kill(self, tag: Tag) -> None:
        """Once; the job's alarm asks again while it lives."""
        try:
            await self._runtime.kill(tag)
        except EngineUnknown as unknown:
            log.warning("container %s: no answer to the kill: %s", tag, unknown)
        except ContainerGone:
            self.look(tag)

    async def _clear(self, tag: Tag, job: Job | None, case: Case) -> None:
        """Its log first. What fails here is found by the next survey, which asks again."""
        case.signalled = case.judged = False
        try:
            if not await self._removed_with_log(tag, job):
                await self._runtime.remove(tag)
        except (EngineUnknown, StoreFailed) as failure:
            log.warning("container %s is not cleared away yet: %s", tag, failure)
        else:
            self._refused_logs.pop(tag, None)

    async def _removed_with_log(self, tag: Tag, job: Job | None) -> bool:
        """Whether storing its output removed it. A log that is not captured, or is refused too often, is not stored."""
        if job is not None and not spec_of(job, tag).logging.captured:
            return False
        try:
            return await self._keep_log(tag)
        except LogRefused as refused:
            self._refused_logs[tag] += 1
            if self._refused_logs[tag] < MAX_LOG_REFUSALS:
                raise
            log.warning("container %s: removed without its log, which cannot be read: %s", tag, refused)
            return False

    async def _look_until_current(self, tag: Tag, case: Case) -> None:
        case.look_again = True
        while case.look_again:
            case.look_again = False
            await self._inspect(tag, case)

    async def _inspect(self, tag: Tag, case: Case) -> None:
        try:
            found = await self._runtime.inspect(tag)
        except EngineUnknown as unknown:
            log.warning("container %s could not be looked at: %s", tag, unknown)
        else:
            self._judge(tag, found, case)

    def _judge(self, tag: Tag, found: Inspection | None, case: Case | None) -> None:
        """A container on its way to its start may look absent or not begun; that is the start's business."""
        is_starting = case is not None and case.start is not None
        if not is_starting or (found is not None and found.stopped_at is not None):
            news = report(tag, found)
            self._tell(tag, news[-1:] if is_known_to_run(tag, self._saved(tag.job_id)) else news)
        if found is not None and found.state is ContainerState.RUNNING:
            self._post(Ring(job_id=tag.job_id, seen_alive=tag, began=found.started_at))

    async def _save(self, tag: Tag, event: on.ContainerCreated) -> None:
        """Return when the event is saved. Raises Unavailable."""
        saved: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._post(Deliver(job_id=tag.job_id, event=event, answer=saved))
        await saved

    def _tell(self, tag: Tag, events: tuple[on.News, ...]) -> None:
        job = self._saved(tag.job_id)
        for event in events:
            self._post(Deliver(job_id=tag.job_id, event=event, at_leisure=not is_waited_for(event, job)))


def _abandon(case: Case | None) -> None:
    """Where no start is under way there is nothing to give up: it has been made, and its letter is on its way."""
    if case is not None and case.start is not None:
        case.start.abandoned.set()
