"""Follows one job to its end: a line while it waits, its output while it runs. Survives restarts of the server."""

import re
import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any, TypeVar

from batchq.cli.batch_operations import describe_jobs
from batchq.cli.job_end import FINISHED, Job
from batchq.cli.native_api import explanation, log_lines
from batchq.cli.output import ESCAPES, write_line
from batchq.cli.status_line import StatusLine
from batchq.cli.terminal import is_terminal
from batchq.cli.times import duration
from batchq.errors import Invalid, NotFound, ServerUnavailable

WAITING_POLL = 2  # seconds for which a log request waits for the start of the job
RUNNING_POLL = 15  # seconds for which it waits for further lines
MARGIN = 15.0  # seconds that a response may take beyond the requested wait
PAGE = 1000  # lines of one response
PAUSE = 0.2  # seconds between two requests that are answered at once
RETRY_INTERVALS = (0.5, 1.0, 2.0, 5.0)  # seconds between requests to a server that does not answer

T = TypeVar("T")

_COLORS = re.compile(r"\x1b\[[0-9;]*m")
_KEPT = {it: text for it, text in ESCAPES.items() if it not in (0x09, 0x1B)}


class JobFollower:
    """Follows a job. Its requests wait for a server that does not answer, and report that in a line."""

    def __init__(self, url: str, job_id: str, *, shows_output: bool) -> None:
        self.job_id = job_id
        self.line = StatusLine()
        self._url = url
        self._shows_output = shows_output
        self._attempt = 1
        self._position: object = None
        self._is_terminal = is_terminal()
        self._began = _now()

    def follow(self) -> Job:
        """Wait until the job is finished and all its output is printed. Raises Invalid, and NotFound if it is gone."""
        while True:
            job = self.describe()
            ended = len(job.get("attempts", []))
            if self._shows_output and not _is_array(job) and self._attempt <= ended + (job["status"] == "RUNNING"):
                self._print_output(job, ended=ended)
            elif job["status"] in FINISHED:
                self.line.clear()
                return job
            else:
                self._wait(job)

    def describe(self) -> Job:
        """The job at present. Raises NotFound if it does not exist any more."""
        found = self._patiently(lambda: describe_jobs(self._url, [self.job_id]))
        if not found:
            raise NotFound(f"job {self.job_id} does not exist any more")
        return found[0]

    def sentence(self) -> str:
        """The server's explanation of the job's present state; empty without one."""
        try:
            return str(self._patiently(lambda: explanation(self._url, self.job_id)).get("sentence", ""))
        except Invalid:  # the server has no explanation of this job
            return ""

    def _print_output(self, job: Job, *, ended: int) -> None:
        """Print the next page of the current attempt's output, and go on to the next attempt at its end."""
        try:
            page = self._page(job, wait=0 if self._attempt <= ended else RUNNING_POLL)
        except Invalid as refused:  # a job of several containers, or a log that the server does not store
            self._shows_output = False
            self.line.notice(f"the output is not shown: {refused}")
            return
        if page["lines"]:
            self.line.clear()
        for it in page["lines"]:
            write_line(self._printable(str(it["message"])))
        if page.get("over") and self._attempt <= ended:
            self._attempt, self._position = self._attempt + 1, None
            if self._attempt <= ended or job["status"] not in FINISHED:
                reason = job["attempts"][self._attempt - 2].get("statusReason", "no reason is recorded")
                self.line.notice(f"attempt {self._attempt - 1} has ended ({reason}); attempt {self._attempt} follows")
        elif not page["lines"]:
            time.sleep(PAUSE)

    def _page(self, job: Job, *, wait: int) -> dict[str, Any]:
        def request() -> dict[str, Any]:
            parameters = {"after": self._position, "wait": wait, "limit": PAGE, "attempt": self._attempt}
            return log_lines(self._url, source, timeout=wait + MARGIN, **parameters)

        source = _log_source(job)
        page = self._patiently(request)
        self._position = page.get("next", self._position)
        return page

    def _wait(self, job: Job) -> None:
        """Show what the job waits for, until something may have changed."""
        self.line.show(self._waiting_text(job))
        elapsed = _now() - self._began
        time.sleep(min(max(PAUSE, elapsed / 10), WAITING_POLL))

    def _waiting_text(self, job: Job) -> str:
        elapsed = duration(timedelta(seconds=_now() - self._began))
        if _is_array(job):
            counts = job["arrayProperties"].get("statusSummary", {})
            over = sum(counts.get(it, 0) for it in FINISHED)
            return f"{over} of {job['arrayProperties']['size']} children have ended, {counts.get('FAILED', 0)} FAILED"
        if job["status"] == "RUNNING":
            return f"running for {elapsed}"
        reason = self.sentence() or job.get("statusReason", "")
        return f"{job['status']} for {elapsed}" + (f": {reason}" if reason else "")

    def _patiently(self, request: Callable[[], T]) -> T:
        """The result of a request; a server that does not answer is asked again until it does."""
        failures = 0
        while True:
            try:
                result = request()
            except ServerUnavailable as unavailable:
                if failures == 0:
                    self.line.notice(f"{unavailable}; the job runs on, waiting for the server")
                time.sleep(RETRY_INTERVALS[min(failures, len(RETRY_INTERVALS) - 1)])
                failures += 1
            else:
                if failures:
                    self.line.notice("the server answers again")
                return result

    def _printable(self, message: str) -> str:
        """A line of output; on a terminal without control sequences other than colours, which would drive it."""
        if not self._is_terminal or message.isprintable():
            return message
        parts = _COLORS.split(message)
        colors = [*_COLORS.findall(message), ""]
        return "".join(
            part.translate(_KEPT).replace("\x1b", "\\x1b") + color for part, color in zip(parts, colors, strict=True)
        )


def _log_source(job: Job) -> str:
    """The job whose log is shown: of a multi-node job its main node."""
    nodes = job.get("nodeProperties")
    return f"{job['jobId']}#{nodes['mainNode']}" if nodes else str(job["jobId"])


def _is_array(job: Job) -> bool:
    return "size" in job.get("arrayProperties", {})


def _now() -> float:
    return time.monotonic()  # noqa: TID251 - the clock's module imports asyncio
