"""The log of one run, and its first violated invariant. A second run of the seed writes the same log."""

import asyncio
import logging
from collections import Counter
from collections.abc import Mapping
from hashlib import sha256

from batchq.domain.ids import JobId, Tag
from batchq.domain.job import Job
from batchq.errors import StoreFailed
from tests.simulation.planned_faults import InjectedError

MESSAGE_REJECTED = "message rejected: "  # as batchq.engine.loop logs it


class InvariantViolated(AssertionError):
    """An invariant was violated."""


class RunLog:
    """Jobs are logged by name."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.counts: Counter[str] = Counter()
        self.failure: str | None = None
        self.ended = asyncio.Event()
        self._names: dict[str, str] = {}

    def set_name(self, job_id: str, name: str) -> None:
        self._names[job_id] = name

    def name_of(self, value: object) -> str:
        """The name of a job, with the rest of a tag."""
        job_id, slash, attempt = str(value).partition("/")
        return self._names.get(job_id, "unknown") + slash + attempt

    def write(self, what: str) -> None:
        self.lines.append(f"{asyncio.get_running_loop().time():9.3f} {what}")

    def fail(self, promise: str, how: str) -> None:
        """The first violated invariant ends the run."""
        if self.failure is None:
            self.write(f"BROKEN {promise}: {how}")
            self.failure = f"{promise}: {how}"
            self.ended.set()

    @property
    def digest(self) -> str:
        return sha256("\n".join(self.lines).encode()).hexdigest()


class Checks:
    """Checks of one run."""

    def __init__(self, *, jobs: Mapping[JobId, Job], run_log: RunLog) -> None:
        """`jobs` are as last committed, by id."""
        self.jobs = jobs
        self.run_log = run_log

    def fail(self, promise: str, about: Job | Tag | str | None, details: object = "") -> None:
        """Report that the invariant `promise` is violated."""
        name = self.run_log.name_of(about.id if isinstance(about, Job) else about)
        self.run_log.fail(promise, f"{name} {details}")


class UnexpectedErrors(logging.Handler):
    """I17: no fault of the outside may cause an error in the log, or a message that the engine rejects."""

    def __init__(self, run_log: RunLog) -> None:
        super().__init__(logging.WARNING)
        self._run_log = run_log

    def emit(self, record: logging.LogRecord) -> None:
        text = record.getMessage()
        if record.levelno >= logging.ERROR or text.startswith(MESSAGE_REJECTED):
            self.report(text, record.exc_info and record.exc_info[1])

    def report(self, text: str, why: object) -> None:
        """Fail the run, except for injected errors, for destroyed tasks of killed servers, and for a scheduler that is
        restarted because it cannot read the store after a conflict.
        """
        put_in = isinstance(why, InjectedError) or (text == "task scheduler failed" and isinstance(why, StoreFailed))
        self._run_log.counts["bugs reported"] += put_in
        if text.startswith("Task was destroyed") or put_in:
            return
        self._run_log.fail("I17 nothing looks like a bug", f"{text} {why!r}")
