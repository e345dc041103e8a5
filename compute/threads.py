"""Threads for calls that block. A few for each kind of call, so that a call which hangs holds up only its own kind."""

import asyncio
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from queue import SimpleQueue
from typing import Generic, Protocol, TypeVar

from batchq.errors import EngineUnknown

WAIT_AT_CLOSE = 1.0  # seconds

Answer = TypeVar("Answer")
Left = TypeVar("Left")


class Closable(Protocol):
    def close(self) -> None: ...


Tool = TypeVar("Tool", bound=Closable)


class Job(Generic[Tool, Answer]):
    """Work for a thread, and the place where its answer or its error is left: the event loop's that it is made on."""

    def __init__(self, work: Callable[[Tool], Answer]) -> None:
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


class Errand(Generic[Tool, Answer]):
    """Work on whose outcome nobody waits: the thread that did it passes its answer or its error on."""

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


Own = SimpleQueue[Job[Tool, object] | Errand[Tool, object] | None]


class Desk(Generic[Tool]):
    """Where jobs wait for threads, and threads for jobs: the one that was busy last has the next, and no other wakes.

    In one queue for all, each job that is taken wakes another thread, which finds nothing.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._jobs: deque[Job[Tool, object]] = deque()
        self._idle: list[Own[Tool]] = []
        self._closed = False

    def put(self, job: Job[Tool, object]) -> bool:
        """Whether a thread takes it at once."""
        with self._lock:
            if not self._idle:
                self._jobs.append(job)
                return False
            own = self._idle.pop()
        own.put(job)
        return True

    def hand(self, errand: Errand[Tool, object]) -> bool:
        """Whether a thread that has nothing to do takes it. None does at a desk that is closed."""
        with self._lock:
            if not self._idle:
                return False
            own = self._idle.pop()
        own.put(errand)
        return True

    def take(self, own: Own[Tool]) -> Job[Tool, object] | Errand[Tool, object] | None:
        """The next job, None when there will be none. `own` is where the thread that asks waits for it."""
        with self._lock:
            if self._closed:
                return None
            if self._jobs:
                return self._jobs.popleft()
            self._idle.append(own)
        return own.get()

    def close(self) -> list[Job[Tool, object]]:
        """The jobs that nobody has begun."""
        with self._lock:
            self._closed = True
            left, idle = list(self._jobs), self._idle
            self._jobs, self._idle = deque(), []
        for own in idle:
            own.put(None)
        return left


class Crew(Generic[Tool]):
    """At most `size` threads, made when all others are busy, each with a tool of its own that no other thread touches.

    They are daemons: one that hangs in a call keeps neither `close` nor the end of the process waiting.
    """

    def __init__(self, name: str, *, size: int, equip: Callable[[Tool | None], Tool]) -> None:
        """`equip` is given the thread's tool before each job, None at first, and answers the one to use."""
        self._name = name
        self._size = size
        self._equip = equip
        self._desk: Desk[Tool] = Desk()
        self._gone: list[Future[None]] = []

    async def run(self, work: Callable[[Tool], Answer]) -> Answer:
        """Cancelled, it leaves off waiting; work that has begun goes on. Raises EngineUnknown without any thread."""
        job = Job(work)
        if not self._desk.put(job):  # type: ignore[arg-type]  # the desk does not care what a job answers
            try:
                self._hire()
            except EngineUnknown:
                if not self._gone:
                    job.outcome.cancel()
                    raise
        return await job.outcome

    def offer(self, work: Callable[[Tool], Answer], then: Callable[[Answer | BaseException], None]) -> bool:
        """Whether a thread that has nothing to do takes it at once, and passes on what comes of it. By any thread."""
        return self._desk.hand(Errand(work, then))  # type: ignore[arg-type]  # nor what an errand does

    async def close(self) -> None:
        """Work not yet begun is dropped. Threads in the middle of a call are left to it after a second."""
        desk, self._desk = self._desk, Desk()
        gone, self._gone = self._gone, []
        for job in desk.close():
            job.outcome.cancel()
        if gone:
            _, hanging = await asyncio.wait(map(asyncio.wrap_future, gone), timeout=WAIT_AT_CLOSE)
            for each in hanging:
                each.cancel()

    def _hire(self) -> None:
        """One more, if there may be. Raises EngineUnknown; those that are there will do then."""
        if len(self._gone) == self._size:
            return
        gone: Future[None] = Future()
        desk = self._desk
        begin(f"{self._name}-{len(self._gone) + 1}", lambda: self._work(desk, gone))
        self._gone.append(gone)

    def _work(self, desk: Desk[Tool], gone: "Future[None]") -> None:
        own: Own[Tool] = SimpleQueue()
        tool: Tool | None = None

        def equipped() -> Tool:
            nonlocal tool
            tool = self._equip(tool)
            return tool

        while (job := desk.take(own)) is not None:
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
