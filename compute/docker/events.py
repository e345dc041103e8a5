"""The engine's event stream, as news of deaths.

One thread reads it and does nothing else: a slow reader loses events, and slows the engine's every other call. It
has another look at who died, if one is free, so that the loop is told what was found, and need not ask. The stream
ends without a word when the engine goes; what was missed, only a survey tells.
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
Look = Callable[[Tag, Callable[[Outcome], None]], bool]


@asynccontextmanager
async def deaths(
    connect: Callable[[], Client], instance: str, *, look: Look, learn: Callable[[Tag, Outcome], None]
) -> AsyncIterator[AsyncIterator[Tag | DeathReport]]:
    """Entered, the engine has accepted to tell. Raises EngineUnknown.

    `look` tells whether some other thread looks at a container, and passes on what it finds; `learn` is told of that.
    """
    reader = _Reader(connect, instance, look=look, learn=learn)
    begin("docker-events", reader.run)
    try:
        await asyncio.wrap_future(reader.listening)
        yield reader.news
    finally:
        reader.close()


class _Reader:
    """`run` is the thread's; all else is the event loop's. Those who look hand over what they found."""

    def __init__(
        self, connect: Callable[[], Client], instance: str, *, look: Look, learn: Callable[[Tag, Outcome], None]
    ) -> None:
        self.news = EventQueue()
        self.listening: Future[None] = Future()
        self.listening.set_running_or_notify_cancel()  # from here nobody can cancel it under the thread's hands
        self._connect = connect
        self._instance = instance
        self._look = look
        self._learn = learn
        self._loop = asyncio.get_running_loop()
        self._lock = threading.Lock()
        self._heard: list[tuple[Tag, Outcome]] = []
        self._stream: Stream | None = None
        self._closed = False

    def run(self) -> None:
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
        """Also while the thread is still asking: whichever of the two comes second closes the stream."""
        self._closed = True
        if self._stream is not None:
            with suppress(OSError, AttributeError):  # the SDK stumbles where the stream has just ended by itself
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
        """However many deaths there are before the loop has time for them, it is woken once."""
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
        with suppress(RuntimeError):  # the loop is closed: nobody listens
            self._loop.call_soon_threadsafe(what)


def _news(tag: Tag, outcome: Outcome) -> Tag | DeathReport:
    """Whatever went wrong with a look, the next one will tell."""
    return tag if isinstance(outcome, BaseException) else DeathReport(tag=tag, found=outcome)


def _tag_in(event: object, instance: str) -> Tag | None:
    match event:
        case {"Actor": {"Attributes": Mapping() as labels}}:
            return tag_of(labels, instance)
        case _:
            return None
