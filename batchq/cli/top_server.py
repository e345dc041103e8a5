"""The requests of `batchq top`: what is on the screen, texts about one job, and stops of one job."""

from collections.abc import Mapping

from msgspec import Struct

from batchq.cli.http_client import call
from batchq.cli.native_api import explanation, job_detail, list_jobs, log_lines, overview
from batchq.cli.top_state import TopSnapshot

LOG_LINES = 200  # of the end of a log
TIMEOUT = 10.0  # seconds for the end of a log
STOP_PATHS: Mapping[str, str] = {"cancel": "/v1/canceljob", "terminate": "/v1/terminatejob"}


class TopServer(Struct, frozen=True):
    """A server at a URL. Its methods raise the errors of `http_client.call`."""

    url: str

    def snapshot(self, filters: Mapping[str, object], *, limit: int) -> TopSnapshot:
        """The overview, and the first `limit` rows of the search."""
        return TopSnapshot(overview=overview(self.url), rows=tuple(list_jobs(self.url, filters, limit=limit)["jobs"]))

    def describe(self, what: str, job_id: str) -> list[str]:
        """Lines of text: `why` is the explanation, `log` the end of the log, `show` the details of the job."""
        if what == "why":
            return [str(explanation(self.url, job_id).get("sentence", ""))]
        if what == "log":
            lines = log_lines(self.url, job_id, timeout=TIMEOUT, tail=LOG_LINES)["lines"]
            return [str(it["message"]) for it in lines] or ["The job has written nothing yet."]
        job = job_detail(self.url, job_id)["job"]
        return [f"{name:<18} {value}" for name, value in job.items() if not isinstance(value, list | dict)]

    def stop(self, operation: str, job_id: str, reason: str) -> None:
        """Cancel or terminate one job."""
        call(self.url, STOP_PATHS[operation], {"jobId": job_id, "reason": reason})
