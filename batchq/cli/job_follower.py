"""Follows one job to its end: a line while it waits, its output while it runs. Survives restarts of the server."""

import time
from datetime import timedelta
from typing import Any

from batchq.cli.batch_operations import describe_jobs
from batchq.cli.job_end import FINISHED, Job, is_array
from batchq.cli.job_logs import printable
from batchq.cli.native_api import explanation, log_lines
from batchq.cli.output import write_line
from batchq.cli.patience import Patience
from batchq.cli.status_line import StatusLine
from batchq.cli.terminal import is_terminal, uses_color
from batchq.cli.times import duration, elapsed
from batchq.errors import Invalid, NotFound

WAITING_POLL = 2  # seconds for which a log request waits for the start of the job
RUNNING_POLL = 15  # seconds for which it waits for further lines
MARGIN = 15.0  # seconds that a response may take beyond the requested wait
PAGE = 1000  # lines of one response
PAUSE = 0.2  # seconds between two requests that are answered at once


class JobFollower:
    """Follows a job. Its requests wait for a server that does not answer, and report that in a line."""

    def __init__(self, url: str, job_id: str, *, shows_output: bool) -> None:
        self.job_id = job_id
        self.line = StatusLine()
        self._url = url
        self._shows_output = shows_output
        self._attempt = 1
        self._position: object = None
        self._patience = Patience(has_responded=True, notify=self.line.notice)
        self._prints_colors = uses_color("auto") if is_terminal() else None
        self._began = elapsed()

    def follow(self) -> Job:
        """Wait until the job is finished and all its output is printed. Raises Invalid, and NotFound if it is gone."""
        while True:
            job = self.describe()
            ended = len(job.get("attempts", []))
            if self._shows_output and not is_array(job) and self._attempt <= ended + (job["status"] == "RUNNING"):
                self._print_output(job, ended=ended)
            elif job["status"] in FINISHED:
                self.line.clear()
                return job
            else:
                self._wait(job)

    def describe(self) -> Job:
        """The job at present. Raises NotFound if it does not exist any more."""
        found = self._patience.call(lambda: describe_jobs(self._url, [self.job_id]))
        if not found:
            raise NotFound(f"job {self.job_id} does not exist any more")
        return found[0]

    def sentence(self) -> str:
        """The server's explanation of the job's present state; empty without one."""
        try:
            return str(self._patience.call(lambda: explanation(self._url, self.job_id)).get("sentence", ""))
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
            text = str(it["message"])
            write_line(text if self._prints_colors is None else printable(text, color=self._prints_colors))
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
        page = self._patience.call(request)
        self._position = page.get("next", self._position)
        return page

    def _wait(self, job: Job) -> None:
        """Show what the job waits for, until something may have changed."""
        self.line.show(self._waiting_text(job))
        time.sleep(min(max(PAUSE, (elapsed() - self._began) / 10), WAITING_POLL))

    def _waiting_text(self, job: Job) -> str:
        waited = duration(timedelta(seconds=elapsed() - self._began))
        if is_array(job):
            counts = job["arrayProperties"].get("statusSummary", {})
            over = sum(counts.get(it, 0) for it in FINISHED)
            return f"{over} of {job['arrayProperties']['size']} children have ended, {counts.get('FAILED', 0)} FAILED"
        if job["status"] == "RUNNING":
            return f"running for {waited}"
        reason = self.sentence() or job.get("statusReason", "")
        return f"{job['status']} for {waited}" + (f": {reason}" if reason else "")


def _log_source(job: Job) -> str:
    """The job whose log is shown: of a multi-node job its main node."""
    nodes = job.get("nodeProperties")
    return f"{job['jobId']}#{nodes['mainNode']}" if nodes else str(job["jobId"])
