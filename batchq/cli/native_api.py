"""Requests of batchq's own read API, as the commands use them."""

from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote, urlencode

from batchq.cli.http_client import call
from batchq.errors import NotFound

LIST_JOBS = "/v1/batchq/listjobs"
OVERVIEW = "/v1/batchq/overview"
PAGE_SIZE = 1000  # rows of one response
MAX_PAGES = 100  # of one search: a page may be empty, since the server bounds the work for each

Row = Mapping[str, Any]
Page = dict[str, Any]


def list_jobs(url: str, filters: Mapping[str, object], *, limit: int) -> Page:
    """The response of listjobs with up to `limit` rows, from as many pages as are needed.

    `nextToken` is present if further jobs may match. Raises the errors of `call`.
    """
    rows: list[Row] = []
    page: Page = {}
    content = dict(filters)
    for _ in range(MAX_PAGES):
        page = dict(call(url, LIST_JOBS, content | {"maxResults": min(limit - len(rows), PAGE_SIZE)}))
        rows += page["jobs"]
        token = page.get("nextToken")
        if token is None or len(rows) >= limit:
            break
        content["nextToken"] = token
    return page | {"jobs": rows}


def rows_of(url: str, ids: Sequence[str]) -> list[Row]:
    """The rows of jobs, children and nodes, in the order of their ids. Raises NotFound for one that does not exist."""
    jobs = {it: it.partition("#")[0] for it in ids}
    wanted = list(dict.fromkeys(jobs.values()))
    found: dict[str, Row] = {}
    for start in range(0, len(wanted), PAGE_SIZE):
        chunk = wanted[start : start + PAGE_SIZE]
        page = list_jobs(url, {"ids": chunk, "children": True}, limit=PAGE_SIZE)
        found |= {str(it["jobId"]): it for it in page["jobs"]}
    for job in wanted:
        if job not in found:
            raise NotFound(f"Job {job} not found.")
    return [{**found[job], "jobId": it} for it, job in jobs.items()]


def job_detail(url: str, job_id: str) -> Page:
    """The response of `GET /v1/batchq/jobs/{id}`."""
    return dict(call(url, _path(job_id)))


def explanation(url: str, job_id: str) -> Page:
    """The response of `GET /v1/batchq/jobs/{id}/why`."""
    return dict(call(url, f"{_path(job_id)}/why"))


def history(url: str, job_id: str) -> Page:
    """The response of `GET /v1/batchq/jobs/{id}/history`."""
    return dict(call(url, f"{_path(job_id)}/history"))


def log_lines(url: str, job_id: str, *, timeout: float, **parameters: object) -> Page:
    """The response of `GET /v1/batchq/jobs/{id}/log`. Parameters that are None are not sent."""
    given = {name: value for name, value in parameters.items() if value is not None}
    return dict(call(url, f"{_path(job_id)}/log?{urlencode(given)}", timeout=timeout))


def overview(url: str) -> Page:
    """The response of `POST /v1/batchq/overview`."""
    return dict(call(url, OVERVIEW, {}))


def _path(job_id: str) -> str:
    return f"/v1/batchq/jobs/{quote(job_id, safe='')}"
