"""Output of `batchq cancel` and `batchq terminate`: a line for each job and a summary, or JSON."""

import json
from collections import Counter
from collections.abc import Mapping
from typing import Protocol

from batchq.cli.output import line, write_line

DONE = {
    "CANCELLED": "cancelled",
    "TERMINATED": "terminated",
    "STOPPING": "stopping",
    "NOT_RETRIED": "running on, not retried",
}
WOULD_BE_DONE = {
    "CANCELLED": "would be cancelled",
    "TERMINATED": "would be terminated",
    "STOPPING": "would be stopped",
    "NOT_RETRIED": "would run on, not retried",
}


Line = Mapping[str, object]
"""An object of the NDJSON response."""


class StopReporter(Protocol):
    """Prints the response to an order."""

    def tell(self, job: Line) -> None:
        """Print the outcome of one job."""

    def end(self, last: Line, counts: Counter[str]) -> None:
        """Print the end of the output. `last` is the last object of the response, `counts` the jobs by outcome."""


class LineReporter:
    """Prints a line for each job, and a summary."""

    def __init__(self, *, dry_run: bool, quiet: bool) -> None:
        """`quiet`: print only the jobs to which nothing was done, and no summary."""
        self._words = WOULD_BE_DONE if dry_run else DONE
        self._quiet = quiet

    def tell(self, job: Line) -> None:
        outcome = str(job.get("outcome"))
        if outcome not in self._words:
            why = str(job.get("message") or words_of(outcome, self._words))
            why = why.removeprefix(f"Job {job.get('jobId')} ").removesuffix(".")
            write_line(line(f"{job.get('jobId')}  {why}"), at_once=False)
        elif not self._quiet:
            what = self._words[outcome]
            why = f": {job['message']}" if job.get("message") else ""
            write_line(
                line(f"{job.get('jobId')}  {what}  {job.get('jobName')} ({job.get('status')}){why}"), at_once=False
            )

    def end(self, last: Line, counts: Counter[str]) -> None:
        if not self._quiet:
            write_line(summary(counts, self._words) + ("; nothing is changed" if last.get("dryRun") else ""))


class JsonReporter:
    """Prints the whole response as one JSON object, with each job on its own line."""

    def __init__(self) -> None:
        self._begin = '{"jobs": ['

    def tell(self, job: Line) -> None:
        write_line(f"{self._begin}\n  {json.dumps(job)}", end="", at_once=False)
        self._begin = ","

    def end(self, last: Line, counts: Counter[str]) -> None:
        begin = "\n" if counts else self._begin
        write_line(begin + "], " + json.dumps(last).removeprefix("{"))


def summary(counts: Mapping[str, int], words: Mapping[str, str]) -> str:
    """The number of jobs of each outcome, as one line."""
    return line(
        "; ".join(f"{count} {words_of(outcome, words)}" for outcome, count in counts.items()) or "no job matches"
    )


def words_of(outcome: str, words: Mapping[str, str]) -> str:
    """The text for an outcome: from `words`, else the outcome's name in lower case."""
    return words.get(outcome) or outcome.lower().replace("_", " ")
