"""Repeats requests of commands that run for long, while the server does not respond, for example during a restart."""

import time
from collections.abc import Callable
from typing import TypeVar

from batchq.cli.output import print_notice
from batchq.cli.times import elapsed
from batchq.errors import ServerUnavailable

FIRST_PAUSE, LONGEST_PAUSE = 0.5, 5.0  # seconds

Result = TypeVar("Result")


class Patience:
    """Repeats requests once the server has responded to the first one, and reports the interruption on stderr."""

    def __init__(
        self,
        *,
        deadline: float | None = None,
        has_responded: bool = False,
        notify: Callable[[str], None] = print_notice,
    ) -> None:
        """`deadline`: of `elapsed`, after which no request is repeated; None: never.

        `has_responded`: whether the server has responded to a request before. `notify`: reports the interruption.
        """
        self._deadline = deadline
        self._has_responded = has_responded
        self._notify = notify

    def call(self, request: Callable[[], Result]) -> Result:
        """The result of the request. Raises ServerUnavailable before the first response, and after the deadline."""
        pause, is_away = FIRST_PAUSE, False
        while True:
            try:
                result = request()
            except ServerUnavailable as unavailable:
                if not self._has_responded or (self._deadline is not None and elapsed() >= self._deadline):
                    raise
                if not is_away:
                    self._notify(f"{unavailable}; waiting for the server")
                is_away = True
                time.sleep(pause)
                pause = min(2 * pause, LONGEST_PAUSE)
            else:
                if is_away:
                    self._notify("the server responds again")
                self._has_responded = True
                return result
