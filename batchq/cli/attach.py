"""Follows a submitted job until it ends or the user leaves it, for `batchq run` and `batchq submit --wait`.

The command prints what the job waits for, then its output, and survives a restart of the server. Ctrl-C asks whether to
leave, cancel or terminate the job.
"""

import signal
import sys
import time
from argparse import ArgumentParser
from collections.abc import Callable, Mapping
from datetime import timedelta
from enum import StrEnum
from types import FrameType
from typing import TypeVar

from batchq.cli.bulk_stop import CANCEL, TERMINATE
from batchq.cli.http_client import Patience
from batchq.cli.job_detail import explained_job
from batchq.cli.job_logs import printable
from batchq.cli.job_wait import exit_status_of, outcome_line
from batchq.cli.output import (
    INTERRUPTED,
    NO_EXIT_CODE,
    StatusLine,
    can_ask,
    is_terminal,
    print_error,
    print_notice,
    uses_color,
    write_line,
)
from batchq.cli.progress import ProgressMeter
from batchq.cli.quantities import elapsed, format_duration
from batchq.cli.server_requests import (
    fetch_described,
    fetch_explanation,
    fetch_job,
    fetch_log_lines,
    stream_stops,
)
from batchq.domain.enums import ACTIVE, FINISHED, Status
from batchq.domain.ids import short_id
from batchq.domain.progress import progress_of
from batchq.domain.stop_messages import DONE, outcome_text
from batchq.errors import BatchqError, Invalid, NotFound, Unavailable
from batchq.ports.responses.batch import JobDetail
from batchq.ports.responses.job_details import JobDetails, JobResponse
from batchq.ports.responses.records import GetJobLogResponse
from batchq.ports.responses.stops import JobLine
from batchq.system.escapes import escape

LEFT_BEHIND = "the job goes on without this command"
TIMEOUT = 30.0  # seconds until the first byte of the response
REASON = "stopped from batchq run"
PROMPT = "[Enter] leave  [c]ancel  [t]erminate  [b]ack: "
WAITING_POLL = 2  # seconds for which a log request waits for the start of the job
RUNNING_POLL = 15  # seconds for which it waits for further lines
MARGIN = 15.0  # seconds that a response may take beyond the requested wait
PAGE = 1000  # lines of one response
PAUSE = 0.2  # seconds between two requests that are answered at once
Result = TypeVar("Result")


class SignalReceived(KeyboardInterrupt):
    """SIGTERM or SIGHUP has arrived."""


class Signals:
    """The signals with which a user leaves a followed job: SIGINT raises KeyboardInterrupt, the others SignalReceived.

    Python drops an exception that is raised while it finalizes an object, and a signal can arrive then. `check` raises
    such an exception later.
    """

    def __init__(self) -> None:
        self._pending: type[KeyboardInterrupt] | None = None
        self._is_leaving = False
        for each in (signal.SIGINT, signal.SIGTERM, getattr(signal, "SIGHUP", signal.SIGTERM)):  # Windows has no SIGHUP
            if signal.getsignal(each) is not signal.SIG_IGN:  # nohup ignores SIGHUP for its command
                signal.signal(each, self._receive)

    def check(self) -> None:
        """Raise the exception of the last signal, unless it was caught."""
        if self._pending is not None:
            raise self._pending

    def caught(self) -> None:
        """The exception of the last signal was caught: do not raise it again."""
        self._pending = None

    def _receive(self, number: int, _: FrameType | None) -> None:
        """Raise the signal's exception. A second SIGTERM or SIGHUP does not interrupt what the first one has begun."""
        if number != signal.SIGINT and self._is_leaving:
            return
        self._is_leaving = self._is_leaving or number != signal.SIGINT
        self._pending = KeyboardInterrupt if number == signal.SIGINT else SignalReceived
        raise self._pending


def add_stop_flag(command: ArgumentParser) -> None:
    """Declare `--stop-on-exit`."""
    command.add_argument(
        "--stop-on-exit",
        action="store_true",
        help="terminate the job on Ctrl-C, SIGTERM and SIGHUP, without a question",
    )


def attend(url: str, job_id: str, *, shows_output: bool, stops_on_exit: bool) -> int:
    """Follow the job to its end, or until the user leaves it, and return the exit status."""
    signals = Signals()
    follower = JobFollower(url, job_id, shows_output=shows_output, signals=signals)
    while True:
        try:
            return _follow(follower)
        except Invalid as refused:
            return print_error(str(refused), NO_EXIT_CODE)
        except SignalReceived:
            return _leave(url, follower, stops=stops_on_exit)
        except KeyboardInterrupt:
            signals.caught()
            if stops_on_exit or not can_ask():
                return _leave(url, follower, stops=stops_on_exit)
            if not _goes_on(url, follower):
                return _leave(url, follower, stops=False)


class JobFollower:
    """Follows a job. Its requests wait for a server that does not answer, and report that in a line."""

    def __init__(self, url: str, job_id: str, *, shows_output: bool, signals: Signals) -> None:
        self.job_id = job_id
        self.line = StatusLine()
        self._url = url
        self._shows_output = shows_output
        self._attempt = 1
        self._position: str | None = None
        self._signals = signals
        self._patience = Patience(has_responded=True, notify=self.line.notice)
        self._prints_colors = uses_color("auto") if is_terminal() else None
        self._began = elapsed()
        self._meter = ProgressMeter()

    def follow(self) -> None:
        """Wait until the job is finished and all its output is printed. Raises Invalid, and NotFound if it is gone."""
        while True:
            job = self.describe()
            ended = len(job.attempts)
            is_array, begun = job.array_properties.size is not None, ended + (job.status is Status.RUNNING)
            if self._shows_output and not is_array and self._attempt <= begun:
                self._print_output(job, ended=ended)
            elif job.status in FINISHED:
                self.line.clear()
                return
            else:
                self._wait(job)

    def describe(self) -> JobDetail:
        """The job at present. Raises NotFound if it does not exist any more."""
        found = self._call(lambda: fetch_described(self._url, [self.job_id]))
        if not found:
            raise NotFound(f"job {self.job_id} does not exist any more")
        return found[0]

    def sentence(self) -> str:
        """The server's explanation of the job's present state; empty without one."""
        try:
            return self._call(lambda: fetch_explanation(self._url, self.job_id)).sentence
        except Invalid:  # the server has no explanation of this job
            return ""

    def end(self) -> JobDetails:
        """The finished job with its explanation, its use and its cost. Raises Invalid if it was removed."""
        return self._call(lambda: explained_job(self._url, self.job_id))

    def _stopped_children(self) -> int:
        """How many children of the array were cancelled or terminated, which DescribeJobs does not tell."""
        try:
            found = self._call(lambda: fetch_job(self._url, self.job_id, "", answer=JobResponse))
        except Invalid:  # the job was removed
            return 0
        return found.job.stopped_children

    def _call(self, request: Callable[[], Result]) -> Result:
        """The result of the request, which is repeated until the server answers."""

        def checked() -> Result:
            self._signals.check()
            return request()

        return self._patience.call(checked)

    def _print_output(self, job: JobDetail, *, ended: int) -> None:
        """Print the next page of the current attempt's output, and go on to the next attempt at its end."""
        try:
            page = self._page(job, wait=0 if self._attempt <= ended else RUNNING_POLL)
        except Invalid as refused:  # a job of several containers, or a log that the server does not store
            self._shows_output = False
            self.line.notice(f"the output is not shown: {refused}")
            return
        if page.lines:
            self.line.clear()
        for line in page.lines:
            text, color = line.message, self._prints_colors
            write_line(text if color is None else printable(text, color=color))
        if page.over and self._attempt <= ended:
            self._attempt, self._position = self._attempt + 1, None
            if self._attempt <= ended or job.status not in FINISHED:
                reason = job.attempts[self._attempt - 2].status_reason or "no reason is recorded"
                self.line.notice(f"attempt {self._attempt - 1} has ended ({reason}); attempt {self._attempt} follows")
        elif not page.lines:
            time.sleep(PAUSE)

    def _page(self, job: JobDetail, *, wait: int) -> GetJobLogResponse:
        def request() -> GetJobLogResponse:
            parameters = {"after": self._position, "wait": wait, "limit": PAGE, "attempt": self._attempt}
            return fetch_log_lines(self._url, source, timeout=wait + MARGIN, **parameters)

        nodes = job.node_properties
        source = job.job_id if nodes is None else f"{job.job_id}#{nodes.main_node}"
        page = self._call(request)
        self._position = page.next
        return page

    def _wait(self, job: JobDetail) -> None:
        """Show what the job waits for, until something may have changed."""
        self.line.show(self._waiting_text(job))
        time.sleep(min(max(PAUSE, (elapsed() - self._began) / 10), WAITING_POLL))

    def _waiting_text(self, job: JobDetail) -> str:
        waited = format_duration(timedelta(seconds=elapsed() - self._began))
        if job.array_properties.size is not None:
            array, stopped = job.array_properties, self._stopped_children()
            return self._meter.line(progress_of(job.job_name, array.size or 0, array.status_summary, stopped=stopped))
        if job.status is Status.RUNNING:
            return f"running for {waited}"
        reason = self.sentence() or job.status_reason
        return f"{job.status} for {waited}" + (f": {reason}" if reason else "")


def _follow(follower: JobFollower) -> int:
    follower.follow()
    job = follower.end()
    print_notice(outcome_line(job, job.cost))
    if job.status is Status.FAILED:
        print_notice(f"again: batchq rerun {short_id(follower.job_id)}")
    return exit_status_of(job)


def _goes_on(url: str, follower: JobFollower) -> bool:
    """Ask what to do with the job, and do it. Returns whether it is followed further; Ctrl-C leaves it."""
    follower.line.clear()
    try:
        answer = ask(follower.describe())
        if answer in (Answer.CANCEL, Answer.TERMINATE):
            stop_attended(url, follower.job_id, answer=answer)
    except Unavailable as unavailable:
        print_notice(f"{unavailable}; the job was not stopped")
    except KeyboardInterrupt:
        return False
    else:
        return answer is not Answer.LEAVE
    return True


def _leave(url: str, follower: JobFollower, *, stops: bool) -> int:
    """End without the job; `stops`: terminate it before."""
    follower.line.clear()
    if not stops:
        return print_error(f"{LEFT_BEHIND}: batchq logs -f {short_id(follower.job_id)}", INTERRUPTED)
    try:
        stop_attended(url, follower.job_id, answer=Answer.TERMINATE)
    except BatchqError as failure:
        print_notice(f"{failure}; the job was not terminated")
    return INTERRUPTED


class Answer(StrEnum):
    """What to do with the job."""

    LEAVE = ""
    CANCEL = "c"
    TERMINATE = "t"
    BACK = "b"


def ask(job: JobDetail) -> Answer:
    """Show the choices and read the answer. Ctrl-C and the end of the input mean LEAVE."""
    print(f"\n{escape(job.job_name)} is {job.status}.", file=sys.stderr)
    for answer, effect in effects(job).items():
        print(f"  {answer.value or 'Enter':5}  {answer.name.lower()}: {effect}", file=sys.stderr)
    while True:
        print(PROMPT, end="", file=sys.stderr, flush=True)
        try:
            text = sys.stdin.readline()
        except KeyboardInterrupt:
            print(file=sys.stderr)
            return Answer.LEAVE
        if not text.endswith("\n") or not text.strip():
            return Answer.LEAVE
        if text.strip().lower()[:1] in set(Answer):
            return Answer(text.strip().lower()[:1])


def effects(job: JobDetail) -> Mapping[Answer, str]:
    """What each answer does in the present state of the job."""
    leave = f"nothing changes; batchq logs -f {short_id(job.job_id)} follows it again"
    if job.status in FINISHED:
        cancel = terminate = "nothing changes, it has ended"
    elif job.array_properties.size is not None:
        cancel = "children that have not started never do; the others run on and are not retried"
        terminate = "children that have not started never do; the others get SIGTERM, and SIGKILL after their grace"
    elif job.status in ACTIVE:
        cancel = "its attempt runs on; if it fails it is not retried"
        terminate = "SIGTERM now, SIGKILL after its grace period; FAILED whatever its exit code, not retried"
    else:
        cancel = "FAILED at once; it never starts"
        terminate = "the same"
    return {Answer.LEAVE: leave, Answer.CANCEL: cancel, Answer.TERMINATE: terminate, Answer.BACK: "follow it again"}


def stop_attended(url: str, job_id: str, *, answer: Answer) -> None:
    """Cancel or terminate the job, and print what has happened. Raises the errors of `http_client.call`."""
    path = CANCEL if answer is Answer.CANCEL else TERMINATE
    with stream_stops(url, path, {"jobs": [job_id], "reason": REASON}, timeout=TIMEOUT) as lines:
        for line in lines:
            if isinstance(line, JobLine):
                message = f": {line.message}" if line.message else ""
                print_notice(f"{job_id}  {outcome_text(line.outcome, DONE)}{message}")
