"""When this machine had no time for a thread that only wanted to wake: that is not taken for slowness of a server."""

import threading
import time

TICK = 0.005  # seconds


class Pauses:
    """Noted while its context lasts."""

    def __init__(self):
        self._noted = []
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._tick)

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._over.set()
        self._thread.join()

    def seconds(self, began, ended):
        """The seconds between two times of `time.monotonic`, without the recorded pauses. Call it after the block."""
        return ended - began - sum(max(0, min(ended, last) - max(began, first)) for first, last in self._noted)

    def _tick(self):
        due = time.monotonic() + TICK
        while not self._over.wait(TICK):
            now = time.monotonic()
            if now > due + TICK:
                self._noted.append((due, now))
            due = time.monotonic() + TICK
