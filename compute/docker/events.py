"""Reads the engine's event stream, and reports containers that ended.

One thread reads the stream and does nothing else: a slow reader loses events, and slows down every other call to the
engine. If another thread is idle, it inspects the container at once, so that the event loop receives the inspection
with the event. The stream ends without an error when the engine ends; only a survey finds what was missed.
"""

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Mapping
from concurrent.futures import Future
from contextlib import asynccontextmanager, closing, suppress
from functools import partial

from batchq.compute.docker.client import Client, EventStream
from batchq.compute.docker.create_request import INSTANCE, tag_of
from batchq.compute.docker.errors import translate_errors
from batchq.compute.docker.thread_pool import start_thread
from batchq.compute.shared import EventQueue
from batchq.domain.ids import Tag
from batchq.errors import EngineUnknown
from batchq.ports.runtime import DeathReport, Inspection

NOT_INSPECTED = EngineUnknown("no thread was idle to inspect the container")

Outcome = Inspection | BaseException | None
"""The result of an inspection: None if the container does not exist, or the error."""

TryInspect = Callable[[Tag, Callable[[Outcome], None]], bool]
"""Have an idle thread inspect the container and call the function with the outcome; False if no thread is idle."""


@asynccontextmanager
async def deaths(
    connect: Callable[[], Client], instance: str, *, try_inspect: TryInspect, on_outcome: Callable[[Tag, Outcome], None]
) -> AsyncIterator[AsyncIterator[Tag | DeathReport]]:
    """Subscribe to the deaths of an instance's containers. Raises EngineUnknown.

    The engine has accepted the subscription once the context is entered. `connect` returns the client for the stream.
    `try_inspect` requests an inspection. `on_outcome` is called on the event loop with the outcome of each inspection.
    """
    reader = _EventReader(connect, instance, try_inspect=try_inspect, on_outcome=on_outcome)
    start_thread("docker-events", reader.run)
    try:
        await asyncio.wrap_future(reader.listening)
        yield reader.queue
    finally:
        reader.close()


class _EventReader:
    """A subscription: its thread executes `run`; threads that inspect call `_add`; the rest is the event loop's."""

    def __init__(
        self,
        connect: Callable[[], Client],
        instance: str,
        *,
        try_inspect: TryInspect,
        on_outcome: Callable[[Tag, Outcome], None],
    ) -> None:
        self.queue = EventQueue()
        self.listening: Future[None] = Future()
        self.listening.set_running_or_notify_cancel()  # from here on it cannot be cancelled while the thread sets it
        self._connect = connect
        self._instance = instance
        self._try_inspect = try_inspect
        self._on_outcome = on_outcome
        self._loop = asyncio.get_running_loop()
        self._lock = threading.Lock()
        #: Deaths that the event loop has not taken yet.
        self._batch: list[tuple[Tag, Outcome]] = []
        self._stream: EventStream | None = None
        self._closed = False

    def run(self) -> None:
        """Read the stream to its end. `listening` is completed once the engine accepts the subscription, or fails."""
        try:
            with translate_errors("events"), closing(self._connect()) as client:
                self._read_events(client)
        except EngineUnknown as error:
            if not self.listening.done():
                self.listening.set_exception(error)
        finally:
            if not self.listening.done():
                self.listening.set_exception(EngineUnknown("events: the subscription ended"))
            self._call_on_loop(lambda: self.queue.put_nowait(None))

    def close(self) -> None:
        """Close the stream. If the thread has not opened it yet, the thread closes it as soon as it is open."""
        self._closed = True
        if self._stream is not None:
            with suppress(OSError, AttributeError):  # the SDK raises them if the stream has just ended by itself
                self._stream.close()

    def _read_events(self, client: Client) -> None:
        filters = {"type": "container", "event": "die", "label": f"{INSTANCE}={self._instance}"}
        self._stream = client.subscribe(filters)
        self.listening.set_result(None)
        if self._closed:
            self.close()
        for event in self._stream:
            tag = _tag_in(event, self._instance)
            if tag is not None:
                self._on_death(tag)

    def _on_death(self, tag: Tag) -> None:
        if not self._try_inspect(tag, partial(self._add, tag)):
            self._add(tag, NOT_INSPECTED)

    def _add(self, tag: Tag, outcome: Outcome) -> None:
        """Add a death to the batch for the event loop. Only the first one of a batch wakes the loop."""
        with self._lock:
            is_first = not self._batch
            self._batch.append((tag, outcome))
        if is_first:
            self._call_on_loop(self._flush)

    def _flush(self) -> None:
        with self._lock:
            batch, self._batch = self._batch, []
        for tag, outcome in batch:
            self._on_outcome(tag, outcome)
            # After a failed inspection the subscriber gets only the tag, and inspects again.
            self.queue.put_nowait(tag if isinstance(outcome, BaseException) else DeathReport(tag=tag, found=outcome))

    def _call_on_loop(self, callback: Callable[[], None]) -> None:
        with suppress(RuntimeError):  # the event loop is closed
            self._loop.call_soon_threadsafe(callback)


def _tag_in(event: object, instance: str) -> Tag | None:
    """The tag of the event's container; None if it is not a job's container of this instance."""
    match event:
        case {"Actor": {"Attributes": Mapping() as labels}}:
            return tag_of(labels, instance)
        case _:
            return None
