"""What happened in one run, a line an event, and what must not have happened. Replayed, it is the same."""

import asyncio
import logging
from collections import Counter
from hashlib import sha256

from batchq.errors import StoreFailed
from tests.simulation.planned_faults import InjectedError


class InvariantViolated(AssertionError):
    """A promise was broken."""


class RunLog:
    """`names` gives jobs names that are the same in each run, as ids are not."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.counts: Counter[str] = Counter()
        self.failure: str | None = None
        self.ended = asyncio.Event()
        self._names: dict[str, str] = {}

    def set_name(self, job_id: str, name: str) -> None:
        self._names[job_id] = name

    def name_of(self, it: object) -> str:
        """A job id or a tag as this story calls it."""
        job_id, slash, attempt = str(it).partition("/")
        return self._names.get(job_id, "nobody") + slash + attempt

    def write(self, what: str) -> None:
        self.lines.append(f"{asyncio.get_running_loop().time():9.3f} {what}")

    def fail(self, promise: str, how: str) -> None:
        """The first broken promise ends the run."""
        if self.failure is None:
            self.write(f"BROKEN {promise}: {how}")
            self.failure = f"{promise}: {how}"
            self.ended.set()

    @property
    def digest(self) -> str:
        return sha256("\n".join(self.lines).encode()).hexdigest()


class UnexpectedErrors(logging.Handler):
    """No mishap of the outside may look like a bug: neither an error in the log nor news that came to nothing."""

    def __init__(self, run_log: RunLog) -> None:
        super().__init__(logging.WARNING)
        self._run_log = run_log

    def emit(self, record: logging.LogRecord) -> None:
        text = record.getMessage()
        if record.levelno >= logging.ERROR or "came to nothing" in text:
            self.report(text, record.exc_info and record.exc_info[1])

    def report(self, text: str, why: object) -> None:
        """Tasks of dead servers are left where they were; that they go is no complaint. Nor is a bug put in.

        Nor that the scheduler, when another has crossed it, is begun again where it cannot read what is stored.
        """
        put_in = isinstance(why, InjectedError) or (text == "task scheduler failed" and isinstance(why, StoreFailed))
        self._run_log.counts["bugs told"] += put_in
        if text.startswith("Task was destroyed") or put_in:
            return
        self._run_log.fail("I17 nothing looks like a bug", f"{text} {why!r}")
