"""Threads for calls that block. A few for each kind of call, so that a call which hangs holds up only its own kind.

`concurrent.futures.ThreadPoolExecutor` has no share for each account, no call that only an idle thread takes, and
joins its threads at exit, so that a call which hangs would keep the process. It costs more CPU as well: 115 us a call
against 107 us in a row, 367 us against 260 us at a hundred calls a second (medians of 7 interleaved rounds).
"""

import asyncio
import threading
from collections import Counter, deque
from collections.abc import Callable
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from itertools import count
from queue import SimpleQueue
from typing import Generic, Protocol, TypeVar

from msgspec import Struct

from batchq.errors import EngineUnknown

WAIT_AT_CLOSE = 1.0  # seconds

Answer = TypeVar("Answer")
Left = TypeVar("Left")


class Closable(Protocol):
    def close(self) -> None: ...


Tool = TypeVar("Tool", bound=Closable)


class PoolTask(Generic[Tool, Answer]):
    """Work for a thread, and the place where its answer or its error is left: the event loop's that it is made on."""

    def __init__(self, work: Callable[[Tool], Answer], account: str = "") -> None:
        self.account = account
        self._work = work
        self._loop = asyncio.get_running_loop()
        self.outcome: asyncio.Future[Answer] = self._loop.create_future()

    def do(self, equipped: Callable[[], Tool]) -> None:
        """In the thread. Nobody waits for what is cancelled."""
        if self.outcome.cancelled():
            return
        try:
            answer = self._work(equipped())
        except BaseException as error:  # noqa: BLE001 - it is handed to whoever waits for the outcome
            self._hand(self._fail, error)
        else:
            self._hand(self._leave, answer)

    def _hand(self, over: Callable[[Left], None], it: Left) -> None:
        with suppress(RuntimeError):  # the loop is closed: nobody waits
            self._loop.call_soon_threadsafe(over, it)

    def _leave(self, answer: Answer) -> None:
        if not self.outcome.done():
            self.outcome.set_result(answer)

    def _fail(self, error: BaseException) -> None:
        if not self.outcome.done():
            self.outcome.set_exception(error)


class OfferedTask(Generic[Tool, Answer]):
    """Work on whose outcome nobody waits: the thread that did it passes its answer or its error on."""

    account = ""

    def __init__(self, work: Callable[[Tool], Answer], then: Callable[[Answer | BaseException], None]) -> None:
        self._work = work
        self._then = then

    def do(self, equipped: Callable[[], Tool]) -> None:
        try:
            answer = self._work(equipped())
        except BaseException as error:  # noqa: BLE001 - it is passed on to whoever gave the errand
            self._then(error)
        else:
            self._then(answer)


Work = PoolTask[Tool, object] | OfferedTask[Tool, object]


class Seat(Generic[Tool]):
    """Where one thread waits for work. `account` is whose work it does now, None while it has none."""

    def __init__(self) -> None:
        self._given: SimpleQueue[Work[Tool] | None] = SimpleQueue()
        self.account: str | None = None
        self.put = self._given.put
        self.get = self._given.get


class Sizes(Struct, frozen=True, kw_only=True):
    """How many threads do the work of one kind, for all accounts together and for one of them."""

    #: Threads for whatever comes.
    all: int
    #: Threads that an account has at least: beyond `all` too, while others keep those busy.
    account: int
    #: Threads at most, so that accounts without end cannot have threads without end.
    most: int


class WorkQueue(Generic[Tool]):
    """Where jobs wait for threads, and threads for jobs: the one that was busy last has the next, and no other wakes.

    In one queue for all, each job that is taken wakes another thread, which finds nothing. An account whose calls hang
    fills `all` threads at most; an account with fewer threads than its share is served before those with more.
    """

    def __init__(self, sizes: Sizes) -> None:
        self._sizes = sizes
        self._lock = threading.Lock()
        self._jobs: dict[str, deque[tuple[int, PoolTask[Tool, object]]]] = {}
        self._busy: Counter[str] = Counter()
        self._at_work = 0
        self._numbers = count()
        self._idle: list[Seat[Tool]] = []
        self._closed = False

    def put(self, job: PoolTask[Tool, object], *, threads: int) -> bool:
        """Whether one more thread is needed for it, where there are so many. Without, it is done by one of these."""
        with self._lock:
            may_begin = self._may_begin(job.account)
            if not may_begin or not self._idle:
                waiting = self._jobs.setdefault(job.account, deque())
                waiting.append((next(self._numbers), job))
                within_share = self._busy[job.account] + len(waiting) <= self._sizes.account
                return may_begin and threads < (self._sizes.most if within_share else self._sizes.all)
            seat = self._occupy(self._idle.pop(), job.account)
        seat.put(job)
        return False

    def hand(self, errand: OfferedTask[Tool, object]) -> bool:
        """Whether a thread that has nothing to do takes it. None does at a desk that is closed."""
        with self._lock:
            if not self._idle or self._at_work >= self._sizes.all:
                return False
            seat = self._occupy(self._idle.pop(), errand.account)
        seat.put(errand)
        return True

    def take(self, seat: Seat[Tool]) -> Work[Tool] | None:
        """The next job, None when there will be none. `seat` is that of the thread that asks, and waits there."""
        with self._lock:
            self._vacate(seat)
            if self._closed:
                return None
            job = self._next()
            if job is not None:
                self._occupy(seat, job.account)
                return job
            self._idle.append(seat)
        return seat.get()

    def close(self) -> list[PoolTask[Tool, object]]:
        """The jobs that nobody has begun."""
        with self._lock:
            self._closed = True
            left, idle = [job for waiting in self._jobs.values() for _, job in waiting], self._idle
            self._jobs, self._idle = {}, []
        for seat in idle:
            seat.put(None)
        return left

    def _may_begin(self, account: str) -> bool:
        limit = self._sizes.most if self._busy[account] < self._sizes.account else self._sizes.all
        return self._at_work < limit

    def _next(self) -> PoolTask[Tool, object] | None:
        """The first that may begin: of the accounts with fewer threads than their share, or else of all."""
        able = [it for it in self._jobs if self._may_begin(it)]
        if not able:
            return None
        account = min(able, key=lambda it: (self._busy[it] >= self._sizes.account, self._jobs[it][0][0]))
        waiting = self._jobs[account]
        _, job = waiting.popleft()
        if not waiting:
            del self._jobs[account]
        return job

    def _occupy(self, seat: Seat[Tool], account: str) -> Seat[Tool]:
        seat.account = account
        self._busy[account] += 1
        self._at_work += 1
        return seat

    def _vacate(self, seat: Seat[Tool]) -> None:
        account, seat.account = seat.account, None
        if account is not None:
            self._at_work -= 1
            self._busy[account] -= 1
            if not self._busy[account]:
                del self._busy[account]


class ThreadPool(Generic[Tool]):
    """Threads of these sizes, made when all others are busy, each with a tool of its own that no other thread touches.

    They are daemons: one that hangs in a call keeps neither `close` nor the end of the process waiting.
    """

    def __init__(self, name: str, *, sizes: Sizes, equip: Callable[[Tool | None], Tool]) -> None:
        """`equip` is given the thread's tool before each job, None at first, and answers the one to use."""
        self._name = name
        self._sizes = sizes
        self._equip = equip
        self._desk: WorkQueue[Tool] = WorkQueue(sizes)
        self._gone: list[Future[None]] = []

    async def run(self, work: Callable[[Tool], Answer], *, account: str = "") -> Answer:
        """Cancelled, it leaves off waiting; work that has begun goes on. Raises EngineUnknown without any thread."""
        job = PoolTask(work, account)
        if self._desk.put(job, threads=len(self._gone)):  # type: ignore[arg-type]  # whatever a job answers
            try:
                self._hire()
            except EngineUnknown:
                if not self._gone:
                    job.outcome.cancel()
                    raise
        return await job.outcome

    def offer(self, work: Callable[[Tool], Answer], then: Callable[[Answer | BaseException], None]) -> bool:
        """Whether a thread that has nothing to do takes it at once, and passes on what comes of it. By any thread."""
        return self._desk.hand(OfferedTask(work, then))  # type: ignore[arg-type]  # nor what an errand does

    async def close(self) -> None:
        """Work not yet begun is dropped. Threads in the middle of a call are left to it after a second."""
        desk, self._desk = self._desk, WorkQueue(self._sizes)
        gone, self._gone = self._gone, []
        for job in desk.close():
            job.outcome.cancel()
        if gone:
            _, hanging = await asyncio.wait(map(asyncio.wrap_future, gone), timeout=WAIT_AT_CLOSE)
            for each in hanging:
                each.cancel()

    def _hire(self) -> None:
        """One more. Raises EngineUnknown; those that are there will do then."""
        gone: Future[None] = Future()
        desk = self._desk
        begin(f"{self._name}-{len(self._gone) + 1}", lambda: self._work(desk, gone))
        self._gone.append(gone)

    def _work(self, desk: WorkQueue[Tool], gone: "Future[None]") -> None:
        seat: Seat[Tool] = Seat()
        tool: Tool | None = None

        def equipped() -> Tool:
            nonlocal tool
            tool = self._equip(tool)
            return tool

        while (job := desk.take(seat)) is not None:
            job.do(equipped)
            del job  # or it would hold on to its answer until the next one comes
        if tool is not None:
            tool.close()
        with suppress(InvalidStateError):
            gone.set_result(None)


def begin(name: str, work: Callable[[], None]) -> None:
    """In a thread that keeps nobody waiting. Raises EngineUnknown when the machine has none left for us."""
    try:
        threading.Thread(target=work, name=name, daemon=True).start()
    except RuntimeError as none:
        raise EngineUnknown(f"{name}: {none}") from none
