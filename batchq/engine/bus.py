"""Events for whoever listens inside this process."""

import logging
from collections.abc import Callable

from batchq.ports.jobs import StatusChanged

log = logging.getLogger(__name__)


class Bus:
    """Listeners are called in the order they came, in the turn's own task, so none may wait."""

    def __init__(self) -> None:
        self._listeners: list[Callable[[StatusChanged], None]] = []

    def publish(self, change: StatusChanged) -> None:
        for listener in tuple(self._listeners):
            listener(change)

    def listen(self, listener: Callable[[StatusChanged], None]) -> Callable[[], None]:
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener)
