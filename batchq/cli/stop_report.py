"""What `cancel`, `terminate` and `ccancel` print: what will happen, or has happened, to each job, and a summary."""

import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping

from msgspec import Struct

from batchq.cli.http_client import Response
from batchq.cli.output import write_line
from batchq.cli.server_requests import WAITING, fetch_job_documents
from batchq.cli.times import clock_time, local_time, now
from batchq.domain.stop_words import DONE, WOULD_BE_DONE, node_note, outcome_text, summary
from batchq.errors import BatchqError
from batchq.escapes import escape

UNCHANGED = {"ALREADY_FINISHED", "NOT_MATCHED"}
SUCCESSFUL_OUTCOMES = {*DONE, *UNCHANGED}
_STEP = re.compile(r"([0-9a-f-]{36})[.#](\d{1,5})", re.ASCII)


class StepNotes(Struct, frozen=True, kw_only=True):
    """Notes on the nodes that a command names, as JOB#1: to stop some of them means to stop the whole job."""

    #: Whether the request is CancelJob, which has no effect on single nodes.
    cancels: bool
    #: The main nodes, as `JOB#NODE`.
    main_nodes: frozenset[str]

    @classmethod
    def of(cls, url: str, jobs: Iterable[str], *, cancels: bool) -> "StepNotes":
        """Read what is known about the nodes among the ids; without a node nothing is requested.

        A server that does not answer gives no notes.
        """
        steps = [parts.groups() for it in jobs if (parts := _STEP.fullmatch(it))]
        try:
            nodes = fetch_job_documents(url, [f"{job}#{number}" for job, number in steps]) if steps else []
        except BatchqError:  # the request itself follows, and reports the error
            nodes = []
        return cls(
            cancels=cancels,
            main_nodes=frozenset(it["jobId"] for it in nodes if it.get("nodeDetails", {}).get("isMainNode")),
        )

    def note(self, step: str, *, status: str) -> str:
        """What the request means for the step of a job that had this status; empty if it stops the step alone."""
        if "#" not in step:
            return ""
        return node_note(cancels=self.cancels, is_main=step in self.main_nodes, is_waiting=status in WAITING)


class LineReporter:
    """Prints the NDJSON response to a request: a line for each job, and a summary with the consequences."""

    def __init__(self, notes: StepNotes, consequences: Mapping[str, str], *, dry_run: bool, quiet: bool) -> None:
        """`consequences`: a text by outcome. `quiet`: print only the jobs that were not stopped, and no summary."""
        self._notes = notes
        self._texts = WOULD_BE_DONE if dry_run else DONE
        self._quiet = quiet
        self._consequences = consequences
        #: The jobs that an earlier order has stopped already, by outcome and by text.
        self._unchanged: Counter[str] = Counter()
        self._already: Counter[str] = Counter()

    def report_job(self, job: Response) -> None:
        outcome = str(job.get("outcome"))
        standing = job.get("standing")
        note = self._notes.note(str(job.get("jobId")), status=str(job.get("status")))
        note = note and f"; {note}"
        if outcome not in self._texts:
            reason = str(job.get("message") or outcome_text(outcome, self._texts))
            reason = reason.removeprefix(f"Job {job.get('jobId')} ").removesuffix(".")
            write_line(escape(f"{job.get('jobId')}  {reason}{note}"), flush=False)
            return
        message = f": {job['message']}" if job.get("message") else ""
        if isinstance(standing, dict):
            state = "cancelled" if outcome == "NOT_RETRIED" else "stopping"
            message = f": already {state} since {_render_order(standing)}"
            self._unchanged[outcome] += 1
            self._already[f"already {state}"] += 1
        if not self._quiet:
            text = f"{self._texts[outcome]}  {job.get('jobName')} ({job.get('status')}){message}"
            write_line(escape(f"{job.get('jobId')}  {text}{note}"), flush=False)

    def report_end(self, last: Response, counts: Counter[str]) -> None:
        """Print the summary. `last` is the last object of the response, `counts` the jobs by outcome."""
        if self._quiet:
            return
        parts = summary(counts - self._unchanged, self._texts, self._consequences)
        parts += [f"{count} {text}" for text, count in self._already.items()]
        text = escape("; ".join(parts) or "no job matches")
        write_line(text + ("; nothing is changed" if last.get("dryRun") else ""))


def _render_order(order: Response) -> str:
    """When an order was given, by whom and why; the date only if it was not today."""
    at = local_time(order.get("at"))
    today = at is not None and at.date() == now().date()
    time = clock_time(at) if at is None or not today else f"{at:%H:%M:%S}"
    author = "its timeout" if order.get("kind") == "TIMEOUT" else str(order.get("user") or "the server")
    return f"{time}, by {author} ({str(order.get('reason'))!r})"


class JsonReporter:
    """As LineReporter, but prints the whole response as one JSON object, with each job on its own line."""

    def __init__(self) -> None:
        self._separator = '{"jobs": ['

    def report_job(self, job: Response) -> None:
        write_line(f"{self._separator}\n  {json.dumps(job)}", end="", flush=False)
        self._separator = ","

    def report_end(self, last: Response, counts: Counter[str]) -> None:
        begin = "\n" if counts else self._separator
        write_line(begin + "], " + json.dumps(last).removeprefix("{"))
