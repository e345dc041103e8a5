"""Reads the engine's event stream, and reports containers that ended.

One thread reads the stream and does nothing else: a slow reader loses events, and slows down every other call to the
engine. If another thread is idle, it inspects the container at once, so that the event loop receives the inspection
with the event. The stream ends without an error when the engine ends; only a survey finds what was missed.
"""

import asyncio
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from contextlib import closing, suppress
from functools import partial

from batchq.compute.docker.client import Client, EventStream
from batchq.compute.docker.create_request import INSTANCE, tag_of
from batchq.compute.docker.errors import translate_errors
from batchq.compute.docker.thread_pool import start_thread
from batchq.compute.shared import EventQueue
from batchq.domain.ids import Tag
from batchq.errors import RuntimeUnknown
from batchq.ports.runtime import DeathReport, Inspection

NOT_INSPECTED = RuntimeUnknown("no thread was idle to inspect the container")

Outcome = Inspection | BaseException | None
"""The result of an inspection: None if the container does not exist, or the error."""

TryInspect = Callable[[Tag, Callable[[Outcome], None]], bool]
"""Have an idle thread inspect the container and call the function with the outcome; False if no thread is idle."""


class DeathSubscription:
    """A subscription to the deaths of an instance's containers, as a context whose value yields them.

    The engine has accepted the subscription once the context is entered, which raises RuntimeUnknown. A thread executes
    `_run`; threads that inspect call `_add`; the rest is the event loop's.
    """

    def __init__(
        self,
        connect: Callable[[], Client],
        instance: str,
        *,
        try_inspect: TryInspect,
        on_outcome: Callable[[Tag, Outcome], None],
    ) -> None:
        """`connect` returns the client for the stream. `try_inspect` requests an inspection.

        `on_outcome` is called on the event loop with the outcome of each inspection.
        """
        self._connect = connect
        self._instance = instance
        self._try_inspect = try_inspect
        self._on_outcome = on_outcome
        self._queue = EventQueue()
        self._listening: Future[None] = Future()
        self._listening.set_running_or_notify_cancel()  # it cannot be cancelled while the thread completes it
        self._loop = asyncio.get_running_loop()
        self._lock = threading.Lock()
        #: Deaths that the event loop has not taken yet.
        self._batch: list[tuple[Tag, Outcome]] = []
        self._stream: EventStream | None = None
        self._closed = False

    async def __aenter__(self) -> EventQueue:
        start_thread("docker-events", self._run)
        try:
            await asyncio.wrap_future(self._listening)
        except BaseException:
            self._close()
            raise
        return self._queue

    async def __aexit__(self, *_: object) -> None:
        self._close()

    def _run(self) -> None:
        """Read the stream to its end. `_listening` is completed once the engine accepts the subscription, or fails."""
        try:
            with translate_errors("events"), closing(self._connect()) as client:
                self._read_events(client)
        except RuntimeUnknown as error:
            if not self._listening.done():
                self._listening.set_exception(error)
        finally:
            if not self._listening.done():
                self._listening.set_exception(RuntimeUnknown("events: the subscription ended"))
            self._call_on_loop(lambda: self._queue.put_nowait(None))

    def _close(self) -> None:
        """Close the stream. If the thread has not opened it yet, the thread closes it as soon as it is open."""
        self._closed = True
        if self._stream is not None:
            with suppress(OSError, AttributeError):  # the SDK raises them if the stream has just ended by itself
                self._stream.close()

    def _read_events(self, client: Client) -> None:
        # Podman 4 filters by the word `died` of its own API, and sends `die`.
        filters: dict[str, str | list[str]] = {
            "type": "container",
            "event": ["die", "died"],
            "label": f"{INSTANCE}={self._instance}",
        }
        self._stream = client.subscribe(filters)
        self._listening.set_result(None)
        if self._closed:
            self._close()
        for event in self._stream:
            tag = _tag_in(event, self._instance)
            if tag is not None and not self._try_inspect(tag, partial(self._add, tag)):
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
            self._queue.put_nowait(tag if isinstance(outcome, BaseException) else DeathReport(tag=tag, found=outcome))

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
