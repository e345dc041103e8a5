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

from batchq.compute.docker.client import Client, Stream
from batchq.compute.docker.create_request import INSTANCE, tag_of
from batchq.compute.docker.errors import unknown_unless_told
from batchq.compute.docker.threads import begin
from batchq.compute.event_queue import EventQueue
from batchq.domain.ids import Tag
from batchq.errors import EngineUnknown
from batchq.ports.runtime import DeathReport, Inspection

NOT_LOOKED_AT = EngineUnknown("nobody was free to look")

Outcome = Inspection | BaseException | None
"""The result of an inspection: None if the container does not exist, or the error."""

Look = Callable[[Tag, Callable[[Outcome], None]], bool]
"""Have an idle thread inspect the container and call the function with the outcome; False if no thread is idle."""


@asynccontextmanager
async def deaths(
    connect: Callable[[], Client], instance: str, *, look: Look, learn: Callable[[Tag, Outcome], None]
) -> AsyncIterator[AsyncIterator[Tag | DeathReport]]:
    """Subscribe to the deaths of an instance's containers. Raises EngineUnknown.

    The engine has accepted the subscription once the context is entered. `connect` returns the client for the stream.
    `look` requests an inspection. `learn` is called on the event loop with the outcome of each inspection.
    """
    reader = _Reader(connect, instance, look=look, learn=learn)
    begin("docker-events", reader.run)
    try:
        await asyncio.wrap_future(reader.listening)
        yield reader.news
    finally:
        reader.close()


class _Reader:
    """A subscription: its thread executes `run`; threads that inspect call `_keep`; the rest is the event loop's."""

    def __init__(
        self, connect: Callable[[], Client], instance: str, *, look: Look, learn: Callable[[Tag, Outcome], None]
    ) -> None:
        self.news = EventQueue()
        self.listening: Future[None] = Future()
        self.listening.set_running_or_notify_cancel()  # from here on it cannot be cancelled while the thread sets it
        self._connect = connect
        self._instance = instance
        self._look = look
        self._learn = learn
        self._loop = asyncio.get_running_loop()
        self._lock = threading.Lock()
        #: Deaths that the event loop has not taken yet.
        self._heard: list[tuple[Tag, Outcome]] = []
        self._stream: Stream | None = None
        self._closed = False

    def run(self) -> None:
        """Read the stream to its end. `listening` is completed once the engine accepts the subscription, or fails."""
        try:
            with unknown_unless_told("events"), closing(self._connect()) as client:
                self._read(client)
        except EngineUnknown as error:
            if not self.listening.done():
                self.listening.set_exception(error)
        finally:
            if not self.listening.done():
                self.listening.set_exception(EngineUnknown("events: nobody reads them"))
            self._on_loop(self.news.end)

    def close(self) -> None:
        """Close the stream. If the thread has not opened it yet, the thread closes it as soon as it is open."""
        self._closed = True
        if self._stream is not None:
            with suppress(OSError, AttributeError):  # the SDK raises them if the stream has just ended by itself
                self._stream.close()

    def _read(self, client: Client) -> None:
        filters = {"type": "container", "event": "die", "label": f"{INSTANCE}={self._instance}"}
        self._stream = client.hear(filters)
        self.listening.set_result(None)
        if self._closed:
            self.close()
        for event in self._stream:
            tag = _tag_in(event, self._instance)
            if tag is not None:
                self._hear(tag)

    def _hear(self, tag: Tag) -> None:
        if not self._look(tag, partial(self._keep, tag)):
            self._keep(tag, NOT_LOOKED_AT)

    def _keep(self, tag: Tag, outcome: Outcome) -> None:
        """Add a death to the batch for the event loop. Only the first one of a batch wakes the loop."""
        with self._lock:
            is_first = not self._heard
            self._heard.append((tag, outcome))
        if is_first:
            self._on_loop(self._hand_over)

    def _hand_over(self) -> None:
        with self._lock:
            heard, self._heard = self._heard, []
        for tag, outcome in heard:
            self._learn(tag, outcome)
        self.news.tell(*(_news(tag, outcome) for tag, outcome in heard))

    def _on_loop(self, what: Callable[[], None]) -> None:
        with suppress(RuntimeError):  # the event loop is closed
            self._loop.call_soon_threadsafe(what)


def _news(tag: Tag, outcome: Outcome) -> Tag | DeathReport:
    """The item for the subscriber: after a failed inspection only the tag, and the subscriber inspects again."""
    return tag if isinstance(outcome, BaseException) else DeathReport(tag=tag, found=outcome)


def _tag_in(event: object, instance: str) -> Tag | None:
    """The tag of the event's container; None if it is not a job's container of this instance."""
    match event:
        case {"Actor": {"Attributes": Mapping() as labels}}:
            return tag_of(labels, instance)
        case _:
            return None
